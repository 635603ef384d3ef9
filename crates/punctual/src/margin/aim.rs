//! What a margin is to achieve.

use std::time::Duration;

use super::SPIN_ENTRY_NS;
use super::histogram::LONGEST_MEMORY;

/// What avoiding a late wait is worth unless said: 2 ms of CPU time. A machine whose wake-ups have a short tail then keeps 99.8 %, one
/// with spikes in every hundredth wake-up does not spin 100 µs in the other ninety-nine.
const WORTH: Duration = Duration::from_millis(2);
/// From here on a wait is late, for a balanced aim: 1 µs.
const TOLERANCE_NS: u32 = 1_000;

/// What matters to the caller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// No late wait that can be avoided at a reasonable price: up to so much CPU time is spent to avoid one wait that is late by more than
    /// 1 µs. On a quiet machine that makes nearly every wait punctual; on a restless one it does not spin long for the few
    /// wake-ups that are very late.
    Balanced {
        /// CPU time that avoiding one late wait is worth.
        worth: Duration,
    },
    /// At most so late in so large a share of the waits, at the least CPU time.
    Lateness {
        /// The lateness tolerated.
        within: Duration,
        /// The share of waits that must keep it, 0.5 to 0.9999.
        share: f32,
    },
    /// As punctual as a share of CPU time allows.
    CpuBudget {
        /// CPU time as a share of the time waited, above 0, at most 1.
        share: f32,
    },
    /// Only what is typical (a little above the middle, outliers left out) is made up for: the compensated sleep.
    Typical,
}

/// An aim that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadAim {
    /// A share of waits out of range.
    #[error("a share of {0} of the waits cannot be aimed at; 0.5 to 0.9999 can (0.99: 99 %)")]
    Share(f32),
    /// A budget out of range.
    #[error("a CPU budget of {0} makes no sense; above 0 and up to 1 does (0.05: 5 %)")]
    Budget(f32),
}

impl Aim {
    /// At most `within` late in a `share` (0.5 to 0.9999) of the waits.
    pub fn lateness(within: Duration, share: f32) -> Result<Self, BadAim> {
        if (0.5..=0.9999).contains(&share) { Ok(Self::Lateness { within, share }) } else { Err(BadAim::Share(share)) }
    }

    /// At most a `share` (above 0, up to 1) of the time waited as CPU time.
    pub fn cpu_budget(share: f32) -> Result<Self, BadAim> {
        if share > 0.0 && share <= 1.0 { Ok(Self::CpuBudget { share }) } else { Err(BadAim::Budget(share)) }
    }

    /// How many latencies back the memory reaches: three in the tail that matters, within reason.
    pub(super) fn memory(self) -> u16 {
        match self {
            Self::Lateness { .. } => ((3.0 / self.above()) as u16).clamp(64, LONGEST_MEMORY),
            Self::Balanced { .. } => 512,
            Self::CpuBudget { .. } => 256,
            Self::Typical => 64,
        }
    }

    /// The share of waits that may be later.
    pub(super) fn above(self) -> f32 {
        match self {
            Self::Lateness { share, .. } => (1.0 - share).clamp(0.0001, 0.5),
            Self::Balanced { .. } | Self::CpuBudget { .. } | Self::Typical => 0.5,
        }
    }

    /// The lateness that need not be made up for.
    pub(super) fn tolerance_ns(self) -> u32 {
        match self {
            Self::Balanced { .. } => TOLERANCE_NS - SPIN_ENTRY_NS,
            Self::Lateness { within, .. } => {
                u32::try_from(within.as_nanos()).unwrap_or(u32::MAX).saturating_sub(SPIN_ENTRY_NS)
            }
            // Budgets and compensation are not surprised by anything.
            Self::CpuBudget { .. } | Self::Typical => u32::MAX,
        }
    }

    /// How much shorter the margin may be for that.
    pub(super) fn slip_ns(self) -> u32 {
        match self {
            Self::Balanced { .. } | Self::Lateness { .. } => self.tolerance_ns(),
            Self::CpuBudget { .. } | Self::Typical => 0,
        }
    }

    /// Whether a wait that is too short to sleep is spun from end to end.
    pub(super) fn may_spin_all(self) -> bool {
        match self {
            Self::Balanced { .. } | Self::Lateness { .. } => true,
            Self::CpuBudget { share } => share >= 1.0,
            Self::Typical => false,
        }
    }
}

impl Default for Aim {
    /// Balanced; 2 ms of CPU time to avoid a late wait.
    fn default() -> Self {
        Self::Balanced { worth: WORTH }
    }
}

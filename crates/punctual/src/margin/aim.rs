//! The aim of a margin: [`Aim`].

use std::time::Duration;

use super::SPIN_ENTRY_NS;
use super::histogram::LONGEST_MEMORY;

/// The default worth of avoiding a late wait: 2 ms of CPU time. If one wake-up in a hundred is long, the others do not spin for it.
/// The shares of late waits are in docs/results/sleep.md.
const WORTH: Duration = Duration::from_millis(2);
/// The lateness from which a wait counts as late for a balanced aim.
const TOLERANCE_NS: u32 = 1_000;

/// What a sleeper optimises.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Spends up to `worth` of CPU time to avoid one wait that is late by more than 1 µs. It promises no share of punctual waits: rare
    /// long wake-ups stay late, since avoiding them would spin in every wait.
    Balanced {
        /// CPU time spent to avoid one late wait.
        worth: Duration,
    },
    /// At most `within` late in a `share` of the waits, at the least CPU time.
    Lateness {
        /// The lateness tolerated.
        within: Duration,
        /// The share of waits that must keep it, 0.5 to 0.9999.
        share: f32,
    },
    /// The least lateness within a budget of CPU time.
    CpuBudget {
        /// CPU time as a share of the time waited, above 0, at most 1.
        share: f32,
    },
    /// Compensates the typical latency only, a little above the median, without outliers: the compensated sleep.
    Typical,
}

/// An invalid aim.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BadAim {
    /// A share of waits out of range.
    #[error("invalid share of waits {0}: 0.5 to 0.9999 (example: 0.99 for 99 %)")]
    Share(f32),
    /// A budget out of range.
    #[error("invalid CPU budget {0}: above 0, at most 1 (example: 0.05 for 5 %)")]
    Budget(f32),
}

impl Aim {
    /// At most `within` late in a `share` (0.5 to 0.9999) of the waits.
    pub fn lateness(within: Duration, share: f32) -> Result<Self, BadAim> {
        if (0.5..=0.9999).contains(&share) { Ok(Self::Lateness { within, share }) } else { Err(BadAim::Share(share)) }
    }

    /// At most a `share` (above 0, at most 1) of the time waited as CPU time.
    pub fn cpu_budget(share: f32) -> Result<Self, BadAim> {
        if share > 0.0 && share <= 1.0 { Ok(Self::CpuBudget { share }) } else { Err(BadAim::Budget(share)) }
    }

    /// The number of latencies remembered: enough for three in the tail that matters, within limits.
    pub(super) fn memory(self) -> u16 {
        match self {
            Self::Lateness { .. } => ((3.0 / self.above()) as u16).clamp(64, LONGEST_MEMORY),
            Self::Balanced { .. } => 512,
            Self::CpuBudget { .. } => 256,
            Self::Typical => 64,
        }
    }

    /// The share of waits that may be later than the aim.
    pub(super) fn above(self) -> f32 {
        match self {
            Self::Lateness { share, .. } => (1.0 - share).clamp(0.0001, 0.5),
            Self::Balanced { .. } | Self::CpuBudget { .. } | Self::Typical => 0.5,
        }
    }

    /// The lateness that needs no compensation.
    pub(super) fn tolerance_ns(self) -> u32 {
        match self {
            Self::Balanced { .. } => TOLERANCE_NS - SPIN_ENTRY_NS,
            Self::Lateness { within, .. } => {
                u32::try_from(within.as_nanos()).unwrap_or(u32::MAX).saturating_sub(SPIN_ENTRY_NS)
            }
            // For budgets and compensation, no latency is a surprise.
            Self::CpuBudget { .. } | Self::Typical => u32::MAX,
        }
    }

    /// How much shorter the tolerance makes the margin.
    pub(super) fn slip_ns(self) -> u32 {
        match self {
            Self::Balanced { .. } | Self::Lateness { .. } => self.tolerance_ns(),
            Self::CpuBudget { .. } | Self::Typical => 0,
        }
    }

    /// Whether a wait too short to sleep is spun from end to end.
    pub(super) fn may_spin_all(self) -> bool {
        match self {
            Self::Balanced { .. } | Self::Lateness { .. } => true,
            Self::CpuBudget { share } => share >= 1.0,
            Self::Typical => false,
        }
    }
}

impl Default for Aim {
    /// Balanced, with 2 ms of CPU time to avoid a late wait.
    fn default() -> Self {
        Self::Balanced { worth: WORTH }
    }
}

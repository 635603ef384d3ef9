//! CPU frequency, for the families that measure it. It has the looping thread ([`Thread`]), and the time until
//! loops have one speed ([`settle`]).

pub(crate) mod governor;
pub(crate) mod settle;

use std::time::Duration;

use punctual::{Conditions, Policy, format_duration};

use super::frame::plan::LONGEST_UNASKED;
use crate::frame::plan::rough;
use crate::frame::{Amount, Input, PlanError, Request, Variant, Watched};

/// The preparations of an experiment, before and between rounds: it acquires settings, warms up the CPU and
/// calibrates its work.
pub(crate) const PREPARES: Duration = Duration::from_secs(2);

/// Busy time of the CPU before the work is calibrated: several times that of the slowest governor to full speed.
pub(crate) const WARM_UP: Duration = Duration::from_millis(100);

/// The governor that reaches full speed at once.
pub(crate) const PERFORMANCE: &str = "performance";

/// Shortest work: two readings of the clock are one part in two hundred of it.
const SHORTEST_WORK: Duration = Duration::from_micros(10);
/// Longest work. A real-time thread may hold its CPU this long, even if it is several times slower than at full
/// speed.
const LONGEST_WORK: Duration = Duration::from_millis(100);

/// Refuses work too short to be timed, or too long to be a loop.
pub(crate) fn check_work(work: Duration) -> Result<(), PlanError> {
    if (SHORTEST_WORK..=LONGEST_WORK).contains(&work) {
        return Ok(());
    }
    let why =
        format!("must be 10us, so that reading the clock does not count, to 100ms, not {}", format_duration(work));
    Err(PlanError::new(Input::Work, why))
}

/// Refuses a plan that takes longer than is allowed without explicit consent.
pub(crate) fn not_too_long(whole: Duration) -> Result<(), PlanError> {
    if whole <= LONGEST_UNASKED {
        return Ok(());
    }
    let why = format!("the run would take about {}; ask for less in each round, or fewer rounds", rough(whole));
    Err(PlanError::new(Input::Rounds, why))
}

/// The looping thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Its CPU. None: the last one that this process may use.
    pub cpu: Option<usize>,
    /// Its policy. None: as found.
    pub policy: Option<Policy>,
    /// A refused condition is an error.
    pub require: bool,
}

impl Thread {
    /// The CPU it runs on. `None`: the kernel does not report the usable CPUs.
    #[must_use]
    pub fn its_cpu(&self) -> Option<usize> {
        self.cpu.or_else(|| Conditions::inspect().get_cpus().and_then(|cpus| cpus.iter().last()))
    }

    /// Whether the kernel limits how long it may hold its CPU without a break.
    pub(crate) fn is_real_time(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::is_real_time)
    }

    /// This many operations in each of some rounds, on that CPU.
    pub(crate) fn request(&self, cpu: Option<usize>, operations: u32, rounds: u32) -> Request {
        let variant = Variant::new(Conditions::new().maybe(self.policy, Conditions::policy));
        let base = Conditions::new().maybe(cpu, Conditions::cpu);
        let amount = Amount::Samples(u64::from(operations) * u64::from(rounds));
        Request {
            variants: vec![variant],
            base,
            amount,
            rounds,
            warmup: 0,
            require: self.require,
            watch: Watched::Never,
        }
    }
}

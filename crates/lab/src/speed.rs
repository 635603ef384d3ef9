//! CPU frequency, for the families that measure it: the looping thread ([`Thread`]), the governors that an experiment sets
//! and gives back, and the loop from which a sequence of loops has one speed ([`arrival`]).

use std::time::Duration;

use punctual::conditions::{Condition, Value};
use punctual::cpufreq::GovernorGuard;
use punctual::restore::LockWait;
use punctual::{Conditions, Policy, format_duration};
use punctual_record::remedy;

use crate::frame::plan::LONGEST_UNASKED;
use crate::frame::{Amount, Failure, Input, Ledger, NotKept, PlanError, Request, Schedule, Shared, Variant, rough};

/// The preparations of an experiment, before and between rounds: it acquires settings, warms up the CPU and
/// calibrates its work.
const PREPARES: Duration = Duration::from_secs(2);

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
    Input::Work.check((SHORTEST_WORK..=LONGEST_WORK).contains(&work), || {
        format!("must be 10us, so that reading the clock does not count, to 100ms, not {}", format_duration(work))
    })
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

    /// The thread in a plan of this duration, with this many operations in each of some rounds. Refuses a plan that takes
    /// longer than is allowed without explicit consent.
    pub(crate) fn looping(&self, operations: u32, rounds: u32, whole: Duration) -> Result<Looping, PlanError> {
        Input::Rounds.check(whole <= LONGEST_UNASKED, || {
            format!("the run would take about {}; ask for less in each round, or fewer rounds", rough(whole))
        })?;
        let cpu = self.its_cpu();
        let variant = Variant::new(Conditions::new().maybe(self.policy, Conditions::policy));
        let base = Conditions::new().maybe(cpu, Conditions::cpu);
        let amount = Amount::Samples(u64::from(operations) * u64::from(rounds));
        let as_found = Request::as_found(amount, rounds);
        let request = Request { variants: vec![variant], base, warmup: 0, require: self.require, ..as_found };
        Ok(Looping { cpu, request, at_most: whole + PREPARES })
    }
}

/// The looping thread of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Looping {
    /// Its CPU.
    pub(crate) cpu: Option<usize>,
    /// Its conditions, and the rounds.
    pub(crate) request: Request,
    /// The longest duration of the whole plan.
    at_most: Duration,
}

impl Looping {
    /// This many operations of every cell in each round, each of about this duration.
    pub(crate) fn schedule(&self, operations: u32, each: Duration, cells: usize) -> Schedule {
        Schedule::fixed(self.request.rounds, operations, each, cells, self.at_most)
    }
}

/// Longest wait for another program that holds the settings and may be about to end.
pub(crate) const PATIENCE: LockWait = LockWait::AtMost(Duration::from_secs(2));

/// Restores frequency settings. A failure becomes a notice.
pub(crate) fn give_back(guard: Option<GovernorGuard>, ledger: &Shared<Ledger>) {
    ledger.not_restored(&guard.map(GovernorGuard::restore).unwrap_or_default());
}

/// Another program changed the governor that was set: `found` is what this policy has now.
pub(crate) fn governor_lost(request: &Request, set: &str, (policy, found): (usize, String)) -> Failure {
    Failure::Lost(vec![NotKept {
        conditions: request.variants[0].label.clone(),
        condition: Condition::GOVERNOR.name().into(),
        set: set.into(),
        found: format!("{found} (policy{policy})"),
        remedy: remedy::if_lost(&Value::Governor(set.into())).into(),
    }])
}

/// Loops within this share of the target count as arrived. 5 % is well above the work's own variation, and below
/// the step between two P-states.
pub(crate) const CLOSE: f64 = 0.05;
/// This many loops in a row must have arrived: a single quick loop is no arrival.
const IN_A_ROW: usize = 3;

/// The index of the first loop from which [`IN_A_ROW`] loops take at most [`CLOSE`] longer than `target_ns`. If the
/// target is slower than the loops before, they must differ from it by at most that.
pub(crate) fn arrival(durations: &[i64], target_ns: i64, from_faster: bool) -> Option<usize> {
    let (low, high) = ((target_ns as f64) * (1.0 - CLOSE), (target_ns as f64) * (1.0 + CLOSE));
    let there = |&ns: &i64| (ns as f64) <= high && (!from_faster || (ns as f64) >= low);
    let needed = IN_A_ROW.min(durations.len());
    (needed > 0).then(|| durations.windows(needed).position(|row| row.iter().all(there)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_slow_loops_and_then_full_speed() {
        let mut loops = vec![1797; 6];
        loops.extend([760; 94]);
        assert_eq!(arrival(&loops, 753, false), Some(6));
    }

    #[test]
    fn one_lucky_loop_is_no_arrival() {
        assert_eq!(arrival(&[1800, 760, 1800, 1800, 1800], 753, false), None);
        assert_eq!(arrival(&[1800, 760, 755, 760, 1800], 753, false), Some(1));
    }

    #[test]
    fn slowing_down_passes_through_faster_loops() {
        assert_eq!(arrival(&[750, 750, 750, 1200, 1790, 1800, 1810], 1800, true), Some(4));
        assert_eq!(arrival(&[750, 750, 750], 1800, false), Some(0));
    }

    #[test]
    fn few_loops_and_none() {
        assert_eq!(arrival(&[750], 750, false), Some(0));
        assert_eq!(arrival(&[], 750, false), None);
    }
}

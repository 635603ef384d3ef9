//! The plan of a boost.

use std::time::Duration;

use punctual::cpufreq::Lever;

use crate::governor::{PlanError, Thread};

/// Shortest work: at it, the two readings of the clock are one part in two hundred.
const SHORTEST_WORK: Duration = Duration::from_micros(10);
/// Longest work: a real-time thread may hold its CPU so long even on a CPU several times slower than at full speed.
const LONGEST_WORK: Duration = Duration::from_millis(100);
/// Longest run that is begun without a word.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// What takes turns: as found, boost, performance.
const TURNS: u32 = 3;

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// From one activation to the next.
    pub period: Duration,
    /// What is done in each, as it takes at full speed.
    pub work: Duration,
    /// How long after its activation the work must be done; none: half as long again as the work takes at full speed, or the period where that is
    /// shorter.
    pub deadline: Option<Duration>,
    /// Activations per turn.
    pub periods: u32,
    /// How often each has its turn.
    pub rounds: u32,
    /// How long the CPU rests before each turn.
    pub rest: Duration,
    /// How the speed is raised; none: the cheapest way that there is.
    pub lever: Option<Lever>,
    /// The periodic thread.
    pub thread: Thread,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) period: Duration,
    pub(super) work: Duration,
    pub(super) deadline: Duration,
    pub(super) periods: u32,
    pub(super) rounds: u32,
    pub(super) rest: Duration,
    pub(super) lever: Option<Lever>,
    pub(super) thread: Thread,
    /// How long all of it may take.
    pub(super) at_most: Duration,
}

impl Plan {
    /// Checks what is wanted.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        let Wanted { period, work, deadline, periods, rounds, rest, lever, thread } = wanted;
        if periods == 0 {
            return Err(PlanError::None("--periods"));
        }
        if rounds == 0 {
            return Err(PlanError::None("--rounds"));
        }
        if work < SHORTEST_WORK || work > LONGEST_WORK {
            return Err(PlanError::Work(work));
        }
        if work >= period {
            return Err(PlanError::Period { name: "work", length: work, period });
        }
        let deadline = deadline.unwrap_or_else(|| (work + work / 2).min(period));
        if deadline > period {
            return Err(PlanError::Period { name: "deadline", length: deadline, period });
        }
        if deadline <= work {
            return Err(PlanError::Deadline { deadline, work });
        }
        let whole = (rest + period.saturating_mul(periods)).saturating_mul(rounds).saturating_mul(TURNS);
        if whole > LONGEST_UNASKED {
            return Err(PlanError::Endless(whole));
        }
        Ok(Self {
            period,
            work,
            deadline,
            periods,
            rounds,
            rest,
            lever,
            thread,
            at_most: whole + super::super::frame::PREPARES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn usual() -> Wanted {
        Wanted {
            period: 10 * MS,
            work: MS,
            deadline: None,
            periods: 100,
            rounds: 3,
            rest: 300 * MS,
            lever: None,
            thread: Thread::default(),
        }
    }

    #[test]
    fn without_a_deadline_it_is_half_as_long_again_as_the_work_but_within_the_period() {
        assert_eq!(Plan::new(usual()).unwrap().deadline, MS + MS / 2);
        assert_eq!(Plan::new(Wanted { work: 9 * MS, ..usual() }).unwrap().deadline, 10 * MS);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |wanted| Plan::new(wanted).unwrap_err().to_string();
        assert!(refused(Wanted { periods: 0, ..usual() }).contains("--periods"));
        assert!(refused(Wanted { rounds: 0, ..usual() }).contains("--rounds"));
        assert!(refused(Wanted { work: Duration::from_nanos(5), ..usual() }).contains("--work 5ns"));
        assert!(refused(Wanted { work: 10 * MS, ..usual() }).contains("less than --period 10ms"));
        assert!(refused(Wanted { deadline: Some(MS), ..usual() }).contains("longer than --work 1ms"));
        assert!(refused(Wanted { deadline: Some(11 * MS), ..usual() }).contains("--deadline 11ms: less than --period"));
        assert!(refused(Wanted { rounds: 1_000_000, ..usual() }).contains("would take"));
    }
}

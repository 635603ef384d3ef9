//! The plan of a ramp: what is measured, checked before anything is touched.

use std::time::Duration;

use super::LONGEST_REAL_TIME;
use crate::governor::{PlanError, Thread};

/// Shortest work: at it, the two readings of the clock are one part in two hundred.
const SHORTEST_WORK: Duration = Duration::from_micros(10);
/// Longest work.
const LONGEST_WORK: Duration = Duration::from_millis(100);
/// Longest run that is begun without a word.
const LONGEST_UNASKED: Duration = Duration::from_secs(600);
/// Governors there can be.
const MOST_GOVERNORS: u32 = 6;
/// How many times slower than at full speed the loops are expected to be at worst.
const SLOWEST: u32 = 3;

/// Which governors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Governors {
    /// All that the policy offers; where none can be set, whatever the machine does.
    All,
    /// These, in this order.
    Named(Vec<String>),
    /// What is found, in turns with `performance` where that can be set: what holding the speed would bring.
    AgainstPerformance,
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Which governors.
    pub governors: Governors,
    /// Loops per round.
    pub loops: u32,
    /// What one loop takes at full speed.
    pub work: Duration,
    /// How often each governor has its turn.
    pub rounds: u32,
    /// How long the CPU rests before each turn.
    pub rest: Duration,
    /// The thread that loops.
    pub thread: Thread,
    /// Raises the kernel threads that the governors work in.
    pub thread_priority: Option<u8>,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) governors: Governors,
    pub(super) loops: u32,
    pub(super) work: Duration,
    pub(super) rounds: u32,
    pub(super) rest: Duration,
    pub(super) thread: Thread,
    /// How long all of it may take.
    pub(super) at_most: Duration,
    pub(super) thread_priority: Option<u8>,
}

impl Plan {
    /// Checks what is wanted.
    pub fn new(wanted: Wanted) -> Result<Self, PlanError> {
        let Wanted { governors, loops, work, rounds, rest, thread, thread_priority } = wanted;
        if loops == 0 {
            return Err(PlanError::None("--loops"));
        }
        if rounds == 0 {
            return Err(PlanError::None("--rounds"));
        }
        if work < SHORTEST_WORK || work > LONGEST_WORK {
            return Err(PlanError::Work(work));
        }
        let busy = work.saturating_mul(loops);
        if thread.is_real_time() && busy > LONGEST_REAL_TIME {
            let fits = (LONGEST_REAL_TIME.as_nanos() / work.as_nanos()) as u32;
            return Err(PlanError::HoldsCpu { loops, work, fits });
        }
        let turn = rest.saturating_add(busy.saturating_mul(SLOWEST));
        let whole = turn.saturating_mul(rounds).saturating_mul(MOST_GOVERNORS);
        if whole > LONGEST_UNASKED {
            return Err(PlanError::Endless(whole));
        }
        Ok(Self {
            governors,
            loops,
            work,
            rounds,
            rest,
            thread,
            at_most: whole + super::super::frame::PREPARES,
            thread_priority,
        })
    }
}

#[cfg(test)]
mod tests {
    use punctual::Policy;

    use super::*;

    fn usual() -> Wanted {
        Wanted {
            governors: Governors::All,
            loops: 100,
            work: Duration::from_micros(750),
            rounds: 3,
            rest: Duration::from_millis(300),
            thread: Thread { policy: Some(Policy::Fifo(10)), ..Thread::default() },
            thread_priority: None,
        }
    }

    #[test]
    fn the_usual_plan_is_accepted() {
        assert_eq!(Plan::new(usual()).unwrap().thread.label(), "fifo:10");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(matches!(Plan::new(Wanted { loops: 0, ..usual() }), Err(PlanError::None("--loops"))));
        assert!(matches!(Plan::new(Wanted { rounds: 0, ..usual() }), Err(PlanError::None("--rounds"))));
        assert!(matches!(Plan::new(Wanted { work: Duration::from_nanos(1), ..usual() }), Err(PlanError::Work(_))));
        assert!(matches!(Plan::new(Wanted { rounds: 10_000, ..usual() }), Err(PlanError::Endless(_))));
    }

    #[test]
    fn a_real_time_thread_may_not_hold_its_cpu_for_long() {
        let long = Wanted { loops: 10_000, rounds: 1, ..usual() };
        let Err(PlanError::HoldsCpu { fits, .. }) = Plan::new(long.clone()) else { panic!("accepted") };
        assert!(Plan::new(Wanted { loops: fits, ..long.clone() }).is_ok());
        assert!(Plan::new(Wanted { thread: Thread::default(), ..long }).is_ok());
    }
}

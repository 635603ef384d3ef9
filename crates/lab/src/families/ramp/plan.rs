//! The plan of a ramp, validated before anything is changed.

use std::time::Duration;

use punctual::format_duration;

use super::governed::{AS_FOUND, Cell, Governed, Governors};
use crate::frame::plan::at_least_one;
use crate::frame::{self, Input, PlanError, Shared};
use crate::speed::{PREPARES, Thread, check_work, not_too_long};

/// Longest time that a real-time thread loops without a break. The kernel's throttling limit is 950 ms; slower loops
/// have a margin.
pub const LONGEST_REAL_TIME: Duration = Duration::from_millis(400);
/// Largest number of governors.
const MOST_GOVERNORS: u32 = 6;
/// Worst expected slowdown of the loops, relative to full speed.
const SLOWEST: u32 = 3;

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The governors.
    pub governors: Governors,
    /// Loops per round.
    pub loops: u32,
    /// The duration of one loop at full speed.
    pub work: Duration,
    /// Number of turns of each governor.
    pub rounds: u32,
    /// Rest of the CPU before each turn.
    pub rest: Duration,
    /// The thread that loops.
    pub thread: Thread,
    /// Raises the priority of the governors' kernel threads.
    pub thread_priority: Option<u8>,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) asked: Request,
    pub(super) cpu: Option<usize>,
    pub(super) request: frame::Request,
    /// The longest duration of the whole plan.
    pub(super) at_most: Duration,
    /// Determined after it is known which governors can be set.
    pub(super) cells: Vec<Cell>,
    pub(super) waiting: Shared<Option<Governed>>,
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { loops, work, rounds, rest, ref thread, .. } = request;
        at_least_one(Input::Loops, loops)?;
        at_least_one(Input::Rounds, rounds)?;
        check_work(work)?;
        let busy = work.saturating_mul(loops);
        if thread.is_real_time() && busy > LONGEST_REAL_TIME {
            let (fits, work) = (LONGEST_REAL_TIME.as_nanos() / work.as_nanos(), format_duration(work));
            let why = format!(
                "must be at most {fits} under a real-time policy: {loops} loops of {work} would hold the CPU for more than {}, \
                 and the kernel would interfere (sched_rt_runtime_us)",
                format_duration(LONGEST_REAL_TIME)
            );
            return Err(PlanError::new(Input::Loops, why));
        }
        let turn = rest.saturating_add(busy.saturating_mul(SLOWEST));
        let whole = turn.saturating_mul(rounds).saturating_mul(MOST_GOVERNORS);
        not_too_long(whole)?;
        let cpu = thread.its_cpu();
        Ok(Self {
            cpu,
            request: thread.request(cpu, loops, rounds),
            asked: request,
            at_most: whole + PREPARES,
            cells: Vec::new(),
            waiting: Shared::default(),
        })
    }

    /// The governor of a cell, or a label for none set.
    pub(super) fn subject(&self, cell: usize) -> &str {
        self.cells[cell].governor.as_deref().unwrap_or(AS_FOUND)
    }
}

#[cfg(test)]
mod tests {
    use punctual::Policy;

    use super::*;

    fn usual() -> Request {
        Request {
            governors: Governors::All,
            loops: 100,
            work: Duration::from_micros(750),
            rounds: 3,
            rest: Duration::from_millis(300),
            thread: Thread { policy: Some(Policy::Fifo(10)), ..Thread::default() },
            thread_priority: None,
        }
    }

    fn refused(request: Request) -> PlanError {
        Plan::new(request).unwrap_err()
    }

    #[test]
    fn the_usual_plan_is_accepted() {
        let plan = Plan::new(usual()).unwrap();
        assert_eq!((plan.request.variants[0].is_real_time(), plan.request.rounds), (true, 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(refused(Request { loops: 0, ..usual() }).input, Input::Loops);
        assert_eq!(refused(Request { rounds: 0, ..usual() }).input, Input::Rounds);
        assert_eq!(refused(Request { work: Duration::from_nanos(1), ..usual() }).input, Input::Work);
        assert_eq!(refused(Request { rounds: 10_000, ..usual() }).input, Input::Rounds);
    }

    #[test]
    fn a_real_time_thread_may_not_hold_its_cpu_for_long() {
        let long = Request { loops: 10_000, rounds: 1, ..usual() };
        let refusal = refused(long.clone());
        assert!(refusal.input == Input::Loops && refusal.why.starts_with("must be at most 533 "), "{refusal}");
        assert!(Plan::new(Request { loops: 533, ..long.clone() }).is_ok());
        assert!(Plan::new(Request { thread: Thread::default(), ..long }).is_ok());
    }
}

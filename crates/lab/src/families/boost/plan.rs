//! The plan of a boost, and its subjects: the machine as found, boosted around each activation, and at full speed.

use std::time::Duration;

use punctual::cpufreq::{GovernorGuard, Lever};
use punctual::format_duration;

use crate::frame::plan::at_least_one;
use crate::frame::{self, Input, PlanError, Shared, Unavailable};
use crate::speed::{PERFORMANCE, PREPARES, Thread, check_work, not_too_long};

/// The subjects: as found, boost, performance.
const TURNS: u32 = 3;

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// Period of the activations.
    pub period: Duration,
    /// The work of each activation, as its duration at full speed.
    pub work: Duration,
    /// Deadline of the work, relative to its activation. None: 1.5 times the duration of the work at full speed, or
    /// the period if that is shorter.
    pub deadline: Option<Duration>,
    /// Activations per turn.
    pub periods: u32,
    /// Number of turns of each subject.
    pub rounds: u32,
    /// Rest of the CPU before each turn.
    pub rest: Duration,
    /// The way to raise the speed. None: the cheapest one available.
    pub lever: Option<Lever>,
    /// The periodic thread.
    pub thread: Thread,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) asked: Request,
    pub(super) deadline: Duration,
    pub(super) cpu: Option<usize>,
    pub(super) request: frame::Request,
    /// The longest duration of the whole plan.
    pub(super) at_most: Duration,
    pub(super) found: Found,
}

/// The machine as found before the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) governor: Option<String>,
    pub(super) max_khz: Option<u64>,
    /// Full speed, for the calibration of the work.
    pub(super) full: Shared<Option<GovernorGuard>>,
    /// Why the speed cannot be set.
    pub(super) failure: Option<Unavailable>,
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { period, work, deadline, periods, rounds, rest, .. } = request;
        at_least_one(Input::Periods, periods)?;
        at_least_one(Input::Rounds, rounds)?;
        check_work(work)?;
        let wrong = |input, must: &str, than: Duration, not: Duration| {
            let why = format!("must be {must} ({}), not {}", format_duration(than), format_duration(not));
            Err(PlanError::new(input, why))
        };
        if work >= period {
            return wrong(Input::Work, "less than the period", period, work);
        }
        let deadline = deadline.unwrap_or_else(|| (work + work / 2).min(period));
        if deadline > period {
            return wrong(Input::Deadline, "at most the period", period, deadline);
        }
        if deadline <= work {
            return wrong(Input::Deadline, "longer than the work takes at full speed", work, deadline);
        }
        let whole = (rest + period.saturating_mul(periods)).saturating_mul(rounds).saturating_mul(TURNS);
        not_too_long(whole)?;
        let cpu = request.thread.its_cpu();
        Ok(Self {
            deadline,
            cpu,
            request: request.thread.request(cpu, periods, rounds),
            asked: request,
            at_most: whole + PREPARES,
            found: Found::default(),
        })
    }
}

/// A subject: what is done for the speed of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The governor as found.
    AsFound,
    /// The same, boosted around each activation.
    Boost,
    /// The governor `performance`.
    Performance,
}

impl Subject {
    pub(super) const ALL: [Self; 3] = [Self::AsFound, Self::Boost, Self::Performance];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AsFound => "as found",
            Self::Boost => "boost",
            Self::Performance => PERFORMANCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn usual() -> Request {
        Request {
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
        assert_eq!(Plan::new(Request { work: 9 * MS, ..usual() }).unwrap().deadline, 10 * MS);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |request| Plan::new(request).unwrap_err();
        assert_eq!(refused(Request { periods: 0, ..usual() }).input, Input::Periods);
        assert_eq!(refused(Request { rounds: 0, ..usual() }).input, Input::Rounds);
        assert!(
            refused(Request { work: Duration::from_nanos(5), ..usual() })
                .to_string()
                .starts_with("invalid work: must be 10us")
        );
        assert!(refused(Request { work: 10 * MS, ..usual() }).why.contains("less than the period (10ms), not 10ms"));
        assert!(refused(Request { deadline: Some(MS), ..usual() }).why.contains("at full speed (1ms), not 1ms"));
        let late = refused(Request { deadline: Some(11 * MS), ..usual() });
        assert_eq!(late.to_string(), "invalid deadline: must be at most the period (10ms), not 11ms");
        assert!(refused(Request { rounds: 1_000_000, ..usual() }).why.contains("would take"));
    }
}

//! The plan of a switch.

use std::time::Duration;

use punctual::cpufreq::GovernorGuard;

use crate::frame::plan::at_least_one;
use crate::frame::{self, Input, PlanError, Shared, Unavailable};
use crate::speed::{PREPARES, Thread, not_too_long};

/// One loop: short compared with a change of frequency, long compared with a reading of the clock.
pub(super) const LOOP: Duration = Duration::from_micros(50);
/// Duration of one switch: loops before and after it, and a rest.
pub(super) const EACH: Duration = Duration::from_millis(80);

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The two governors. None: `powersave` and `performance`.
    pub governors: Option<[String; 2]>,
    /// Number of switches each way per round.
    pub switches: u32,
    /// Number of rounds.
    pub rounds: u32,
    /// The thread that loops.
    pub thread: Thread,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) governors: [String; 2],
    pub(super) switches: u32,
    /// The CPU that loops.
    pub(super) cpu: Option<usize>,
    pub(super) request: frame::Request,
    /// The longest duration of the whole plan.
    pub(super) at_most: Duration,
    /// The switching thread's CPU, once it is chosen.
    pub(super) other_cpu: Option<usize>,
    pub(super) guard: Shared<Option<GovernorGuard>>,
    /// Why it cannot be measured.
    pub(super) failure: Option<Unavailable>,
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { governors, switches, rounds, thread } = request;
        at_least_one(Input::Switches, switches)?;
        at_least_one(Input::Rounds, rounds)?;
        let whole = EACH.saturating_mul(2).saturating_mul(switches).saturating_mul(rounds);
        not_too_long(whole)?;
        let governors = governors.unwrap_or_else(usual);
        let cpu = thread.its_cpu();
        Ok(Self {
            governors,
            switches,
            cpu,
            request: thread.request(cpu, 2 * switches, rounds),
            at_most: whole + PREPARES,
            other_cpu: None,
            guard: Shared::default(),
            failure: None,
        })
    }

    /// A direction in words.
    pub(super) fn subject(&self, to: usize) -> String {
        direction(&self.governors, to)
    }
}

fn usual() -> [String; 2] {
    ["powersave".into(), "performance".into()]
}

fn direction(governors: &[String; 2], to: usize) -> String {
    format!("{} to {}", governors[1 - to], governors[to])
}

/// The subjects of a run with these governors: both directions.
#[must_use]
pub fn subjects(governors: Option<[String; 2]>) -> [String; 2] {
    let governors = governors.unwrap_or_else(usual);
    [direction(&governors, 1), direction(&governors, 0)]
}

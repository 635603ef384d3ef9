//! The plan of `calibrate`, validated before anything is changed.

use std::time::Duration;

use punctual::format_duration;
use punctual_linux as linux;
use punctual_record::experiment::calibrate::{Metrics, Parameters};
use punctual_record::{Experiment, Typed};

use crate::frame::plan::MethodCell;
use crate::frame::schedule::{Amount, CellCost, Schedule};
use crate::frame::{self, CellId, Failure, Input, PlanError};
use crate::ways::wait::{Kind, Method, Unit};

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ways to sleep.
    pub methods: Vec<&'static Method>,
    /// The wait that verifies the calibration.
    pub check: Duration,
    /// Conditions, and a time or a number of rounds (a sample each).
    pub frame: frame::Request,
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) asked: Request,
    pub(super) cells: Vec<MethodCell>,
}

/// The smallest number of rounds that shows a spread.
const FEWEST: u32 = 5;
/// Duration of one round of one cell: the sums of all X and T, and the overhead of the sleeps.
const ROUND: Duration = Duration::from_millis(20);
/// Share of the time for the rounds. The rest is for the proof.
const ROUNDS_SHARE: f64 = 0.85;
/// If a time is requested, the smallest number of turns of the rounds.
const TURNS: u32 = 20;
/// Most rounds of a cell in a turn: half a second, for the progress display.
const A_TURN: u32 = 25;
/// Shortest and longest wait that verifies a calibration.
const CHECKS: std::ops::RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_millis(100);

/// Why a method cannot be calibrated. None: it can.
pub fn can_be_calibrated(method: &Method) -> Result<(), &'static str> {
    match (method.absolute, method.kind, method.unit) {
        (_, Kind::Spin | Kind::UserWait, _) => Err("it does not sleep"),
        (_, Kind::Library, _) => Err("it calibrates itself"),
        (true, ..) => Err("it takes a deadline, and what sleeps add does not add up"),
        (_, _, Unit::Nanosecond | Unit::Microsecond) => Ok(()),
        _ => Err("its unit is coarser than what is measured here"),
    }
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { methods, check, frame } = &request;
        for method in methods {
            can_be_calibrated(method).map_err(|why| {
                let why = format!("{} cannot be calibrated: {why}; nanosleep, usleep and select can", method.name);
                PlanError::new(Input::Methods, why)
            })?;
        }
        if let Amount::Samples(n) = frame.amount
            && n < u64::from(FEWEST)
        {
            let why = format!("must be at least {FEWEST} to see a spread, not {n}");
            return Err(PlanError::new(Input::Samples, why));
        }
        if !CHECKS.contains(check) {
            let why = format!("must be 1us to 100ms, not {}", format_duration(*check));
            return Err(PlanError::new(Input::Check, why));
        }
        let cells = frame.each_of(methods.len());
        Ok(Self { asked: request, cells })
    }

    /// The wait that verifies it, in ns.
    pub(super) fn check_ns(&self) -> i64 {
        self.asked.check.as_nanos() as i64
    }

    /// The number of rounds: as requested, or their share of the time, but at least enough to show a spread.
    pub(super) fn schedule(&self) -> Schedule {
        let ns = ROUND.as_nanos() as f64;
        let cells = vec![CellCost::exactly(ns); self.cells.len()];
        let (amount, turns) = match self.asked.frame.amount {
            Amount::Samples(n) => (Amount::Samples(n), u32::try_from(n).unwrap_or(u32::MAX)),
            Amount::Time(time) => {
                let least = ROUND * FEWEST * self.cells.len() as u32;
                let time = time.mul_f64(ROUNDS_SHARE).max(least);
                let turns = time.as_nanos() / (ROUND * A_TURN * self.cells.len() as u32).as_nanos().max(1);
                (Amount::Time(time), u32::try_from(turns).unwrap_or(u32::MAX).max(TURNS))
            }
        };
        Schedule::new(amount, turns, cells).without_pilot()
    }

    /// The schedule of the proof: turns, and waits in each turn.
    pub(super) fn proof_schedule(&self, turns: u32, waits: u32, cells: usize) -> Schedule {
        // A sleep's overhead may be as long as the wait itself.
        let each = self.asked.check * 2;
        let whole = each.saturating_mul(turns * waits).saturating_mul(cells as u32);
        Schedule::fixed(turns, waits, each, cells, whole.saturating_mul(3) + Duration::from_secs(2))
    }

    /// The subject and parameters of a cell.
    pub(super) fn identity(&self, cell: usize, parameters: Parameters) -> CellId {
        let method = self.asked.methods[self.cells[cell].method];
        CellId::of_call(method.name, method.call, self.experiment(parameters, Metrics::default()))
    }

    /// The experiment with these parameters and metrics, for the record.
    pub(super) fn experiment(&self, parameters: Parameters, metrics: Metrics) -> Experiment {
        Experiment::Calibrate(Typed { parameters, metrics })
    }

    /// A cell in words.
    pub(super) fn doing(&self, cell: usize) -> String {
        let MethodCell { method, variant } = self.cells[cell];
        format!("{} ({})", self.asked.methods[method].name, self.asked.frame.variants[variant].label)
    }

    /// A call of a method failed.
    pub(super) fn failed(&self, method: usize, error: &linux::Error) -> Failure {
        Failure::of_call(self.asked.methods[method].call, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::wait::methods;

    fn request(name: &str) -> Request {
        Request {
            methods: vec![methods::find(name).unwrap()],
            check: Duration::from_micros(100),
            frame: frame::Request::as_found(Amount::Time(Duration::from_secs(1)), 1),
        }
    }

    fn refused(request: Request) -> Input {
        Plan::new(request).unwrap_err().input
    }

    #[test]
    fn what_takes_a_duration_can_be_calibrated() {
        for name in ["nanosleep", "usleep", "select", "clock_nanosleep", "futex"] {
            assert!(Plan::new(request(name)).is_ok(), "{name}");
        }
        for name in ["clock_nanosleep_abs", "spin_clock", "hybrid", "sleep", "poll"] {
            assert_eq!(refused(request(name)), Input::Methods, "{name}");
        }
    }

    #[test]
    fn too_little_is_refused() {
        let few = frame::Request { amount: Amount::Samples(4), ..request("nanosleep").frame };
        assert_eq!(refused(Request { frame: few, ..request("nanosleep") }), Input::Samples);
        for check in [Duration::ZERO, Duration::from_secs(1)] {
            assert_eq!(refused(Request { check, ..request("nanosleep") }), Input::Check);
        }
    }

    #[test]
    fn a_day_of_watching_is_shown_twice_a_second() {
        let day = frame::Request { amount: Amount::Time(Duration::from_secs(86_400)), ..request("nanosleep").frame };
        let mut schedule = Plan::new(Request { frame: day, ..request("nanosleep") }).unwrap().schedule();
        let whole = schedule.expected();
        assert!((1..=u64::from(A_TURN)).contains(&schedule.take(0, 0, whole)));
    }

    #[test]
    fn a_short_time_still_shows_a_spread() {
        let short = frame::Request { amount: Amount::Time(Duration::from_millis(1)), ..request("nanosleep").frame };
        let mut schedule = Plan::new(Request { frame: short, ..request("nanosleep") }).unwrap().schedule();
        let whole = schedule.expected();
        let rounds: u64 = (0..TURNS).map(|n| schedule.take(0, n, whole - whole * n / TURNS)).sum();
        assert!((u64::from(FEWEST) - 1..=u64::from(FEWEST)).contains(&rounds), "{rounds}");
        assert_eq!(schedule.pilot_operations(0, Duration::ZERO), 0);
    }
}

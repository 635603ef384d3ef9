//! The proof of a calibration: compensated waits, compared with plain ones and with the library's compensated sleep.

use punctual::{Moment, Sleeper, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::{Quantity, Recorder, Usage};

use super::fits::Rounds;
use super::plan::Plan;
use crate::frame::schedule::Schedule;
use crate::frame::usage::Meter;
use crate::frame::{Asked, Bench, Error, Failure, Family, Measured, Report, Request as Frame, Scene, Unavailable};
use crate::ways::wait::Waiter;

/// Consecutive waits of one kind. The kinds take turns.
const TURN: u32 = 20;
/// Turns of each kind.
const TURNS: u32 = 20;

/// The waits that verify a plan.
pub(super) struct Proofs {
    plan: Plan,
    cells: Vec<Cell>,
}

/// One kind of wait with one method.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    /// The method and variant: index into the plan's cells.
    of: usize,
    figure: Figure,
    /// The reduction of each wait, in ns.
    shortened_by_ns: f64,
}

impl Proofs {
    /// From the fits. A wait shorter than a sleep's overhead cannot be compensated.
    pub(super) fn of(plan: Plan, fitted: &[Rounds]) -> Self {
        let mut cells = Vec::new();
        for (of, rounds) in fitted.iter().enumerate() {
            let Some(tn) = rounds.sleep_adds_ns() else { continue };
            cells.push(Cell { of, figure: Figure::Plain, shortened_by_ns: 0.0 });
            if plan.check_ns() > tn.round() as i64 {
                cells.push(Cell { of, figure: Figure::Compensated, shortened_by_ns: tn });
            }
            cells.push(Cell { of, figure: Figure::CompensatedSleeper, shortened_by_ns: 0.0 });
        }
        Self { plan, cells }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn parameters(&self, cell: usize) -> Parameters {
        Parameters { figure: self.cells[cell].figure, asked_ns: Some(self.plan.check_ns()) }
    }
}

impl Family for Proofs {
    type Extra = ();
    type Company = ();

    fn request(&self) -> &Frame {
        &self.plan.request
    }

    fn cells(&self) -> usize {
        self.cells.len()
    }

    fn variant(&self, cell: usize) -> usize {
        self.plan.cells[self.cells[cell].of].1
    }

    fn asked(&self, cell: usize) -> Asked {
        self.plan.asked(self.cells[cell].of, self.parameters(cell))
    }

    fn schedule(&self) -> Schedule {
        self.plan.proof_schedule(TURNS, TURN, self.cells.len())
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::because("its time was over before its turn")
    }

    fn gather(&self, _: &Scene<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn open<'a>(&'a self, (): (), _: &Scene<'a>) -> Result<Box<dyn Bench<Extra = ()> + 'a>, Error> {
        let waiters = self.plan.methods.iter().map(|method| (method.open)()).collect();
        let sleeper = |_| SleeperOptions::new().strategy(Strategy::Compensated).build();
        Ok(Box::new(ProofBench { proofs: self, waiters, sleepers: (0..self.cells.len()).map(sleeper).collect() }))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, ()>) -> Report {
        let Cell { figure, shortened_by_ns, .. } = self.cells[cell];
        let shortened_by_ns = Some(shortened_by_ns).filter(|_| figure == Figure::Compensated);
        let metrics = Metrics { shortened_by_ns, ..Metrics::default() };
        let experiment = self.plan.experiment(self.parameters(cell), metrics);
        Report::of(vec![measured.series(measured.tally, Quantity::Overshoot, experiment)])
    }
}

/// The ways to sleep, opened on the measuring thread.
struct ProofBench<'a> {
    proofs: &'a Proofs,
    waiters: Vec<Result<Box<dyn Waiter>, Unavailable>>,
    /// By cell: the compensating ones have been trained.
    sleepers: Vec<Sleeper>,
}

impl Bench for ProofBench<'_> {
    type Extra = ();

    fn doing(&self, cell: usize) -> String {
        let Cell { of, figure, .. } = self.proofs.cells[cell];
        format!("{}: {figure}", self.proofs.plan.doing(of))
    }

    /// The error of each wait: elapsed minus requested, signed.
    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let Cell { of, figure, shortened_by_ns } = self.proofs.cells[cell];
        let plan = &self.proofs.plan;
        let (method, asked_ns) = (plan.cells[of].0, plan.check_ns());
        let waiter = self.waiters[method].as_mut().map_err(|no| Failure::from(&*no))?;
        let sleeper = &mut self.sleepers[cell];
        let shorter = asked_ns - shortened_by_ns.round() as i64;
        let meter = Meter::start();
        for _ in 0..operations {
            let begin = now_ns(Clock::Monotonic);
            if figure == Figure::CompensatedSleeper {
                sleeper.sleep_until_unless(Moment::from_nanos(begin + asked_ns), linux::stop::requested);
            } else {
                waiter.wait(begin, shorter).map_err(|error| plan.failed(method, &error))?;
            }
            into.record(now_ns(Clock::Monotonic) - begin - asked_ns);
            if linux::stop::requested() {
                return Err(Failure::Stopped);
            }
        }
        let used = meter.stop();
        sleeper.restore_timer_slack();
        Ok(used)
    }
}

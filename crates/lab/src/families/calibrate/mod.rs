//! `calibrate`: the overhead of a sleep on this machine (TN), and the cost of reading the clock (TS + TE).
//!
//! The model is elapsed = (TS + TE) + X·(TN + T). These are X consecutive sleeps of T, with one clock reading before
//! and one after. Each round measures many X and T, and fits them robustly ([`mod@fit`]): the rounds give the spread and the
//! drift of TN. Readings without a sleep (X = 0) give TS + TE. The proof follows (`Proofs`): the errors of plain waits, of the library's compensated sleep, and of waits
//! shortened by that TN or by one measured just before. Both are families of the frame.
//!
//! The input is a [`Plan`]. The output is series of the experiment `calibrate`, per method and variant of conditions.
//! The parameter `figure` identifies them. `sleep_adds` and `clock_costs` have a sample per round, in order. `plain`,
//! `compensated`, `remeasured` and `compensated_sleeper` have the error of each wait, signed. Only methods that take a
//! duration can be calibrated: the overhead of an absolute deadline does not add up.
//!
//! What a sleep adds grows with its length: the CPU is colder after a long one. The fit's TN is that of sleeps of 10 to
//! 200 us. That of the shortened sleeps may differ, and it drifts. One kind of wait therefore measures TN anew, on sleeps of
//! the length that it needs, just before each turn.

pub mod fit;
mod plan;

use punctual::{Moment, Sleeper, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::statistics::lower_median;
use punctual_record::{Experiment, Quantity, Recorder, Usage};

use crate::frame::error::{Opened, ready};
use crate::frame::figures::Meter;
use crate::frame::schedule::Schedule;
use crate::frame::{self, Asked, Bench, Error, Failure, Family, Layout, Measured, Report, Scene, Session};
use crate::ways::wait::Waiter;
use fit::{Fits, Rounds};
pub use plan::{Plan, Request, can_be_calibrated};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::CALIBRATE;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let fits = frame::run(Fits(plan.clone()), session)?;
    let proofs = Proofs::new(plan, &fits.extras);
    if proofs.is_empty() || session.stopped() {
        return Ok(());
    }
    frame::run(proofs, session).map(drop)
}

/// Consecutive waits of one kind. The kinds take turns. With fifty, the share of early waits of a turn scatters by 7 %.
const TURN: u32 = 50;
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
    /// The reduction of each wait, in ns: where it is measured anew, of the first turn's measurement.
    shortened_by_ns: f64,
}

impl Proofs {
    /// Makes the proof of these fits. A wait shorter than a sleep's overhead cannot be compensated.
    pub(super) fn new(plan: Plan, fitted: &[Rounds]) -> Self {
        let mut cells = Vec::new();
        for (of, rounds) in fitted.iter().enumerate() {
            let Some(tn) = rounds.sleep_adds_ns() else { continue };
            cells.push(Cell { of, figure: Figure::Plain, shortened_by_ns: 0.0 });
            if plan.check_ns() > tn.round() as i64 {
                let shortened = |figure| Cell { of, figure, shortened_by_ns: tn };
                cells.extend([Figure::Compensated, Figure::Remeasured].map(shortened));
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
    /// The ns by which each turn shortened its waits.
    type Extra = Vec<f64>;
    type Company = ();

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.plan.asked.frame, self.cells.iter().map(|cell| self.plan.cells[cell.of].1))
    }

    fn asked(&self, cell: usize) -> Asked {
        self.plan.asked(self.cells[cell].of, self.parameters(cell))
    }

    fn schedule(&self) -> Schedule {
        self.plan.proof_schedule(TURNS, TURN, self.cells.len())
    }

    fn gather(&self, _: &Scene<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn open<'a>(&'a self, (): (), _: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Vec<f64>> + 'a>, Error> {
        let waiters = self.plan.asked.methods.iter().map(|method| (method.open)()).collect();
        let sleeper = |_| SleeperOptions::new().strategy(Strategy::Compensated).build();
        let sleepers = (0..self.cells.len()).map(sleeper).collect();
        let adds_ns = self.cells.iter().map(|cell| cell.shortened_by_ns.round() as i64).collect();
        Ok(Box::new(ProofBench { proofs: self, waiters, sleepers, adds_ns }))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Vec<f64>>) -> Report {
        let turns = measured.extra;
        let shortened = matches!(self.cells[cell].figure, Figure::Compensated | Figure::Remeasured);
        let mean = || turns.iter().sum::<f64>() / turns.len() as f64;
        let shortened_by_ns = (shortened && !turns.is_empty()).then(mean);
        let metrics = Metrics { shortened_by_ns, ..Metrics::default() };
        let experiment = self.plan.experiment(self.parameters(cell), metrics);
        Report::with_series(vec![measured.series(measured.tally, Quantity::Overshoot, experiment)])
    }
}

/// The ways to sleep, opened on the measuring thread.
struct ProofBench<'a> {
    proofs: &'a Proofs,
    waiters: Vec<Opened<dyn Waiter>>,
    /// By cell: the compensating ones have been trained.
    sleepers: Vec<Sleeper>,
    /// By cell: what its sleeps add, as last measured.
    adds_ns: Vec<i64>,
}

impl ProofBench<'_> {
    /// Measures what sleeps of a cell's length add now.
    fn measure_again(&mut self, cell: usize) -> Result<(), Failure> {
        let (plan, of) = (&self.proofs.plan, self.proofs.cells[cell].of);
        let method = plan.cells[of].0;
        let waiter = ready(&mut self.waiters[method])?;
        let shorter = (plan.check_ns() - self.adds_ns[cell]).max(1);
        let mut added = [0; TURN as usize];
        for one in &mut added {
            let begin = now_ns(Clock::Monotonic);
            waiter.wait(begin, shorter).map_err(|error| plan.failed(method, &error))?;
            *one = now_ns(Clock::Monotonic) - begin - shorter;
        }
        self.adds_ns[cell] = lower_median(&added).unwrap_or(self.adds_ns[cell]);
        Ok(())
    }
}

impl Bench for ProofBench<'_> {
    type Extra = Vec<f64>;

    fn doing(&self, cell: usize) -> String {
        self.proofs.plan.doing(self.proofs.cells[cell].of)
    }

    fn detail(&self, cell: usize) -> Option<String> {
        Some(self.proofs.cells[cell].figure.to_string())
    }

    /// The error of each wait: elapsed minus requested, signed.
    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let Cell { of, figure, .. } = self.proofs.cells[cell];
        if figure == Figure::Remeasured {
            self.measure_again(cell)?;
        }
        let plan = &self.proofs.plan;
        let (method, asked_ns) = (plan.cells[of].0, plan.check_ns());
        let waiter = ready(&mut self.waiters[method])?;
        let sleeper = &mut self.sleepers[cell];
        let shorter = (asked_ns - self.adds_ns[cell]).max(1);
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

    fn keep(&mut self, cell: usize, _: (u32, u64), turns: &mut Vec<f64>) {
        turns.push(self.adds_ns[cell] as f64);
    }
}

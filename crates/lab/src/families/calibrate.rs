//! `calibrate`: the overhead of a sleep on this machine (TN), and the cost of reading the clock (TS + TE).
//!
//! The model is elapsed = (TS + TE) + X·(TN + T). These are X consecutive sleeps of T, with one clock reading before
//! and one after. Each round measures many X and T, and fits them robustly: the rounds give the spread and the
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
//!
//! The slope of the fit is the Theil-Sen estimator: the median of the slopes of
//! all pairs of points. Up to 29 % of the points may be arbitrary. A fit of two points has no such robustness.
//!
//! Sleeps scatter by microseconds, so no number of them shows a constant of some nanoseconds: extrapolated to X = 0, it is as
//! often negative as not. Pairs of readings with no sleep between them (X = 0) are the constant and nothing else. Each round has
//! many of them.

use std::time::Duration;

use punctual::{Moment, Sleeper, SleeperOptions, Strategy, format_duration};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::statistics::{lower_median, median};
use punctual_record::{Experiment, Quantity, Recorder, Series, SeriesTally, Typed, Usage};

use crate::frame::figures::quantile;
use crate::frame::{
    self, Amount, Bench, CellCost, CellId, Error, Failure, Family, Gathered, Input, Layout, Measured, Meter,
    MethodCell, Opened, PlanError, Report, Scene, Schedule, Session, Sum, Unavailable, more_time, ready, session,
};
use crate::ways::wait::{Kind, Method, Unit, Waiter};

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
    asked: Request,
    cells: Vec<MethodCell>,
}

/// The smallest number of rounds that shows a spread.
const FEWEST: u32 = 5;
/// Duration of one round of one cell: the sums of all X and T, and the overhead of the sleeps.
const ROUND: Duration = Duration::from_millis(20);
/// Share of the time for the rounds. The rest is for the proof.
const ROUNDS_SHARE: f64 = 0.85;
/// If a time is requested, the smallest number of turns of the rounds.
const FEWEST_TURNS: u32 = 20;
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
        if let Amount::Samples(n) = frame.amount {
            let why = || format!("must be at least {FEWEST} to see a spread, not {n}");
            Input::Samples.check(n >= u64::from(FEWEST), why)?;
        }
        Input::Check
            .check(CHECKS.contains(check), || format!("must be 1us to 100ms, not {}", format_duration(*check)))?;
        let cells = frame.each_of(methods.len());
        Ok(Self { asked: request, cells })
    }

    /// The wait that verifies it, in ns.
    fn check_ns(&self) -> i64 {
        self.asked.check.as_nanos() as i64
    }

    /// A cell with these parameters.
    fn cell_id(&self, cell: usize, parameters: Parameters) -> CellId {
        let method = self.asked.methods[self.cells[cell].method];
        CellId::of_call(method.name, method.call, Experiment::Calibrate(Typed::asked(parameters)))
    }

    /// A cell in words.
    fn doing(&self, cell: usize) -> String {
        let MethodCell { method, variant } = self.cells[cell];
        format!("{} ({})", self.asked.methods[method].name, self.asked.frame.variants[variant].label)
    }

    /// A call of a method failed.
    fn failed(&self, method: usize, error: &linux::Error) -> Failure {
        Failure::of_call(self.asked.methods[method].call, error)
    }
}

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::CALIBRATE;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let fits = frame::run(plan.clone(), session)?;
    let proofs = Proofs::new(plan, &fits.extras);
    if proofs.cells.is_empty() || session.stopped() {
        return Ok(());
    }
    frame::run(proofs, session).map(drop)
}

/// Consecutive waits of one kind. The kinds take turns. With fifty, the share of early waits of a turn scatters by 7 %.
const TURN: u32 = 50;
/// Turns of each kind.
const TURNS: u32 = 20;

/// The waits that verify a plan.
struct Proofs {
    plan: Plan,
    cells: Vec<Cell>,
}

/// One kind of wait with one method.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    /// The method and variant: index into the plan's cells.
    planned: usize,
    figure: Figure,
    /// The reduction of each wait, in ns: where it is measured anew, of the first turn's measurement.
    shortened_by_ns: f64,
}

impl Proofs {
    /// Makes the proof of these fits. A wait shorter than a sleep's overhead cannot be compensated.
    fn new(plan: Plan, fitted: &[Rounds]) -> Self {
        let mut cells = Vec::new();
        for (planned, rounds) in fitted.iter().enumerate() {
            let Some(tn) = rounds.sleep_adds_ns() else { continue };
            cells.push(Cell { planned, figure: Figure::Plain, shortened_by_ns: 0.0 });
            if plan.check_ns() > tn.round() as i64 {
                let shortened = |figure| Cell { planned, figure, shortened_by_ns: tn };
                cells.extend([Figure::Compensated, Figure::Remeasured].map(shortened));
            }
            cells.push(Cell { planned, figure: Figure::CompensatedSleeper, shortened_by_ns: 0.0 });
        }
        Self { plan, cells }
    }

    fn parameters(&self, cell: usize) -> Parameters {
        Parameters { figure: self.cells[cell].figure, asked_ns: Some(self.plan.check_ns()) }
    }
}

impl Family for Proofs {
    /// The ns by which each turn shortened its waits.
    type Extra = Vec<f64>;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.plan.asked.frame, self.cells.iter().map(|cell| self.plan.cells[cell.planned].variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        self.plan.cell_id(self.cells[cell].planned, self.parameters(cell))
    }

    fn schedule(&self) -> Schedule {
        // A sleep's overhead may be as long as the wait itself.
        let each = self.plan.asked.check * 2;
        let whole = each.saturating_mul(TURNS * TURN).saturating_mul(self.cells.len() as u32);
        Schedule::fixed(TURNS, TURN, each, self.cells.len(), whole.saturating_mul(3) + Duration::from_secs(2))
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Vec<f64>> {
        Ok(Box::new(move |_| {
            let waiters = self.plan.asked.methods.iter().map(|method| (method.open)()).collect();
            let sleeper = |_| SleeperOptions::new().strategy(Strategy::Compensated).build();
            let sleepers = (0..self.cells.len()).map(sleeper).collect();
            let adds_ns = self.cells.iter().map(|cell| cell.shortened_by_ns.round() as i64).collect();
            Ok(Box::new(ProofBench { proofs: self, waiters, sleepers, adds_ns }))
        }))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Vec<f64>>) -> Report {
        let turns = measured.extra;
        let shortened = matches!(self.cells[cell].figure, Figure::Compensated | Figure::Remeasured);
        let mean = || turns.iter().sum::<f64>() / turns.len() as f64;
        let shortened_by_ns = (shortened && !turns.is_empty()).then(mean);
        let metrics = Metrics { shortened_by_ns, ..Metrics::default() };
        let experiment = Experiment::Calibrate(Typed { parameters: self.parameters(cell), metrics });
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
        let (plan, planned) = (&self.proofs.plan, self.proofs.cells[cell].planned);
        let method = plan.cells[planned].method;
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
        self.proofs.plan.doing(self.proofs.cells[cell].planned)
    }

    fn detail(&self, cell: usize) -> Option<String> {
        Some(self.proofs.cells[cell].figure.to_string())
    }

    /// The error of each wait: elapsed minus requested, signed.
    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let Cell { planned, figure, .. } = self.proofs.cells[cell];
        if figure == Figure::Remeasured {
            self.measure_again(cell)?;
        }
        let plan = &self.proofs.plan;
        let (method, asked_ns) = (plan.cells[planned].method, plan.check_ns());
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

/// A measurement of some consecutive sleeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Consecutive sleeps.
    pub sleeps: u32,
    /// Requested time of each, ns.
    pub asked_ns: i64,
    /// Elapsed time of all together, ns.
    pub elapsed_ns: i64,
}

/// The result of a fit, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The overhead of a sleep (TN).
    pub(crate) sleep_adds_ns: f64,
    /// The cost of reading the clock before and after (TS + TE).
    pub(crate) clock_costs_ns: f64,
}

/// The median slope of all pairs of points with different x. None if there is no such pair.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (n, a) in points.iter().enumerate() {
        slopes.extend(points[..n].iter().filter(|b| b.0 != a.0).map(|b| (a.1 - b.1) / (a.0 - b.0)));
    }
    median(&slopes)
}

/// Fits the model. None without two different X. Without a point at X = 0, the constant is extrapolated from the others.
#[must_use]
pub fn fit(points: &[Point]) -> Option<Fit> {
    // The requested time is known exactly, so only X and the constant are left to fit.
    let rest: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (f64::from(p.sleeps), (p.elapsed_ns - i64::from(p.sleeps) * p.asked_ns) as f64))
        .collect();
    let (constants, sleeps): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(x, _)| *x == 0.0);
    let sleep_adds_ns = slope(&sleeps)?;
    let constants: Vec<f64> = match constants.is_empty() {
        true => sleeps.iter().map(|(x, y)| y - sleep_adds_ns * x).collect(),
        false => constants.into_iter().map(|(_, y)| y).collect(),
    };
    Some(Fit { sleep_adds_ns, clock_costs_ns: median(&constants)? })
}

/// Consecutive sleeps.
const SLEEPS: [u32; 5] = [1, 2, 4, 8, 16];
/// Pairs of readings without a sleep in a round: some microseconds, and a median that no interruption moves.
const PAIRS: u32 = 101;
/// Requested times of each, ns.
const ASKED_NS: [i64; 4] = [10_000, 30_000, 100_000, 200_000];
/// The progress display shows the median of this many of the newest rounds.
const NEWEST: usize = 20;

/// The end of each round, and its fit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds(Vec<(i64, Fit)>);

impl Rounds {
    /// The overhead of a sleep, in ns.
    fn sleep_adds_ns(&self) -> Option<f64> {
        median(&self.0.iter().map(|(_, fit)| fit.sleep_adds_ns).collect::<Vec<_>>())
    }

    /// Spread and drift of TN, and the directly measured cost of reading the clock.
    fn metrics(&self) -> Metrics {
        let mut tn: Vec<f64> = self.0.iter().map(|(_, fit)| fit.sleep_adds_ns).collect();
        let begin = self.0.first().map_or(0, |(at, _)| *at);
        // A few hundred rounds make some ten thousand pairs. More are thinned out.
        let thin = self.0.len().div_ceil(300).max(1);
        let over_time: Vec<(f64, f64)> =
            self.0.iter().step_by(thin).map(|(at, fit)| ((at - begin) as f64 / 1e9, fit.sleep_adds_ns)).collect();
        Metrics {
            shortened_by_ns: None,
            clock_read_ns: Some(session::clock_cost().read_ns),
            pairs: None,
            p5_ns: quantile(&mut tn, 0.05),
            p95_ns: quantile(&mut tn, 0.95),
            drift_ns_per_s: slope(&over_time),
        }
    }

    /// One figure of each round, in order.
    fn samples(&self, figure: fn(&Fit) -> f64) -> Vec<i64> {
        self.0.iter().map(|(_, fit)| figure(fit).round() as i64).collect()
    }
}

/// The rounds. An operation is one fit.
impl Family for Plan {
    type Extra = Rounds;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.asked.frame, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        self.cell_id(cell, Parameters { figure: Figure::SleepAdds, asked_ns: None })
    }

    /// The number of rounds: as requested, or their share of the time, but at least enough to show a spread.
    fn schedule(&self) -> Schedule {
        let ns = ROUND.as_nanos() as f64;
        let cells = vec![CellCost::exactly(ns); self.cells.len()];
        let (amount, turns) = match self.asked.frame.amount {
            Amount::Samples(n) => (Amount::Samples(n), u32::try_from(n).unwrap_or(u32::MAX)),
            Amount::Time(time) => {
                let least = ROUND * FEWEST * self.cells.len() as u32;
                let time = time.mul_f64(ROUNDS_SHARE).max(least);
                let turns = time.as_nanos() / (ROUND * A_TURN * self.cells.len() as u32).as_nanos().max(1);
                (Amount::Time(time), u32::try_from(turns).unwrap_or(u32::MAX).max(FEWEST_TURNS))
            }
        };
        Schedule::new(amount, turns, cells).without_pilot()
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("its share of the time did not pay for one round", more_time())
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Rounds> {
        Ok(Box::new(move |_| {
            let waiters = self.asked.methods.iter().map(|method| (method.open)()).collect();
            let newest = vec![Vec::new(); self.cells.len()];
            Ok(Box::new(FitBench { plan: self, waiters, newest, last: Vec::new() }))
        }))
    }

    fn report(&self, _: usize, measured: &Measured<'_, Rounds>) -> Report {
        let rounds = measured.extra;
        let series_of = |figure, tally: &SeriesTally, samples, metrics| {
            let experiment =
                Experiment::Calibrate(Typed { parameters: Parameters { figure, asked_ns: None }, metrics });
            // An operation is a fit: its use of the CPU is that of many sleeps.
            let series = measured.series(tally, Quantity::Overshoot, experiment).without_use();
            Series { samples: Some(samples), ..series }
        };
        let costs = rounds.samples(|fit| fit.clock_costs_ns);
        let mut tally = SeriesTally::new();
        tally.add_samples((0, 0), &mut Recorder::new(), costs.iter().copied());
        let pairs = Metrics { pairs: Some(u64::from(PAIRS) * rounds.0.len() as u64), ..Metrics::default() };
        let adds = rounds.samples(|fit| fit.sleep_adds_ns);
        Report::with_series(vec![
            series_of(Figure::SleepAdds, measured.tally, adds, rounds.metrics()),
            series_of(Figure::ClockCosts, &tally, costs, pairs),
        ])
    }
}

/// The ways to sleep, opened on the measuring thread.
struct FitBench<'a> {
    plan: &'a Plan,
    waiters: Vec<Opened<dyn Waiter>>,
    /// By cell: the overhead of a sleep in the newest rounds that count, in us.
    newest: Vec<Vec<f64>>,
    /// The last batch, until it counts.
    last: Vec<(i64, Fit)>,
}

impl Bench for FitBench<'_> {
    type Extra = Rounds;

    fn doing(&self, cell: usize) -> String {
        self.plan.doing(cell)
    }

    fn detail(&self, cell: usize) -> Option<String> {
        median(&self.newest[cell]).map(|tn| format!("a sleep adds {tn:.2} us"))
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let method = self.plan.cells[cell].method;
        let waiter = ready(&mut self.waiters[method])?;
        self.last.clear();
        let mut total = Sum::default();
        for _ in 0..operations {
            let meter = Meter::start();
            let fitted = round(waiter).map_err(|error| self.plan.failed(method, &error))?;
            total.add(meter.stop());
            if let Some(fit) = fitted {
                into.record(fit.sleep_adds_ns.round() as i64);
                self.last.push((now_ns(Clock::Monotonic), fit));
            }
        }
        Ok(total.usage())
    }

    fn keep(&mut self, cell: usize, _: (u32, u64), rounds: &mut Rounds) {
        rounds.0.append(&mut self.last);
        let newest = rounds.0.iter().rev().take(NEWEST).map(|(_, fit)| fit.sleep_adds_ns / 1e3);
        self.newest[cell] = newest.collect();
    }
}

/// One measurement of every X and T, and their fit.
fn round(waiter: &mut dyn Waiter) -> linux::Result<Option<Fit>> {
    let mut points = Vec::with_capacity(PAIRS as usize + SLEEPS.len() * ASKED_NS.len());
    for _ in 0..PAIRS {
        let begin = now_ns(Clock::Monotonic);
        let elapsed_ns = now_ns(Clock::Monotonic) - begin;
        points.push(Point { sleeps: 0, asked_ns: 0, elapsed_ns });
    }
    for asked_ns in ASKED_NS {
        for sleeps in SLEEPS {
            let begin = now_ns(Clock::Monotonic);
            for _ in 0..sleeps {
                waiter.wait(begin, asked_ns)?;
            }
            let elapsed_ns = now_ns(Clock::Monotonic) - begin;
            points.push(Point { sleeps, asked_ns, elapsed_ns });
        }
    }
    Ok(fit(&points))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::families::wait::methods;
    use crate::frame::Request as Frame;
    use crate::frame::tests::made_up_report;

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

    fn points(tn: f64, clock: f64, mut disturb: impl FnMut(usize) -> f64) -> Vec<Point> {
        let mut points = Vec::new();
        for sleeps in [1, 2, 4, 8, 16] {
            for asked_us in [10, 20, 50, 100, 200] {
                let asked_ns = asked_us * 1_000;
                let elapsed = clock + f64::from(sleeps) * (tn + asked_ns as f64) + disturb(points.len());
                points.push(Point { sleeps, asked_ns, elapsed_ns: elapsed as i64 });
            }
        }
        points
    }

    proptest! {
        #[test]
        fn what_is_put_in_comes_out(tn in 0.0_f64..200_000.0, clock in 0.0_f64..100_000.0) {
            let fit = fit(&points(tn, clock, |_| 0.0)).unwrap();
            prop_assert!((fit.sleep_adds_ns - tn).abs() < 5.0, "{fit:?}");
            prop_assert!((fit.clock_costs_ns - clock).abs() < 10.0, "{fit:?}");
        }

        /// A quarter of the points may be off by milliseconds.
        #[test]
        fn outliers_do_not_matter(tn in 1_000.0_f64..200_000.0, which in 0_usize..4, by in 0.0_f64..50_000_000.0) {
            let disturbed = points(tn, 50.0, |n| if n % 5 == which { by } else { 0.0 });
            let fit = fit(&disturbed).unwrap();
            prop_assert!((fit.sleep_adds_ns - tn).abs() < tn * 0.02 + 100.0, "{fit:?} for {tn}");
        }
    }

    /// Sleeps that scatter by microseconds leave the constant alone where there are readings without a sleep.
    #[test]
    fn the_constant_is_that_of_readings_without_a_sleep() {
        let noisy = points(50_000.0, 24.0, |n| [3_000.0, -2_000.0, 5_000.0, 0.0, 1_000.0][n / 5]);
        let extrapolated = fit(&noisy).unwrap().clock_costs_ns;
        let readings = (0..9).map(|n| Point { sleeps: 0, asked_ns: 0, elapsed_ns: if n == 4 { 80_000 } else { 24 } });
        let all: Vec<Point> = noisy.iter().copied().chain(readings).collect();
        let found = fit(&all).unwrap();
        assert_eq!(found.clock_costs_ns, 24.0);
        assert_eq!(found.sleep_adds_ns, fit(&noisy).unwrap().sleep_adds_ns, "they are no sleeps");
        assert!((extrapolated - 24.0).abs() > 500.0, "{extrapolated}: the test has no noise to resist");
    }

    /// The published example: X = 1 took 215.935 µs and X = 10 took 1696.492 µs, at 100 µs each.
    #[test]
    fn the_note_of_2019() {
        let two = [(1, 215_935), (10, 1_696_492)];
        let two = two.map(|(sleeps, elapsed_ns)| Point { sleeps, asked_ns: 100_000, elapsed_ns });
        let fit = fit(&two).unwrap();
        assert!((fit.sleep_adds_ns / 1e3 - 64.5).abs() < 0.1, "{fit:?}");
        assert!((fit.clock_costs_ns / 1e3 - 51.5).abs() < 0.2, "{fit:?}");
    }

    #[test]
    fn nothing_to_fit_is_none() {
        assert_eq!(fit(&[]), None);
        let one = Point { sleeps: 3, asked_ns: 5, elapsed_ns: 50 };
        assert_eq!(fit(&[one, one]), None);
    }

    fn plan() -> Plan {
        let methods = vec![methods::find("nanosleep").unwrap()];
        let frame = Frame::as_found(Amount::Samples(5), 1);
        Plan::new(Request { methods, check: Duration::from_micros(100), frame }).unwrap()
    }

    fn rounds(sleep_adds_ns: f64) -> Rounds {
        let fit = |n: i64| (n * 1_000_000_000, Fit { sleep_adds_ns: sleep_adds_ns + n as f64, clock_costs_ns: 40.4 });
        Rounds((0..5).map(fit).collect())
    }

    #[test]
    fn the_rounds_make_two_series_in_order() {
        let report = made_up_report(&plan(), 0, &[50_001, 50_003], &[rounds(50_000.0)]);
        let [adds, costs] = &report.series[..] else { panic!("{}", report.series.len()) };
        assert_eq!(adds.samples.as_deref(), Some(&[50_000, 50_001, 50_002, 50_003, 50_004][..]));
        assert_eq!(costs.samples.as_deref(), Some(&[40; 5][..]));
        assert_eq!((adds.summary.count, adds.cpu_share), (2, None), "by the turns of the run, which tests compare");
        let typed = adds.experiment.calibrate().unwrap();
        assert_eq!((typed.parameters.figure, typed.parameters.asked_ns), (Figure::SleepAdds, None));
        assert_eq!((typed.metrics.drift_ns_per_s, typed.metrics.p5_ns), (Some(1.0), Some(50_000.2)));
        assert!(typed.metrics.clock_read_ns.is_some());
        let pairs = Some(5 * u64::from(PAIRS));
        assert_eq!(costs.experiment.calibrate().unwrap().metrics, Metrics { pairs, ..Metrics::default() });
    }

    #[test]
    fn the_proof_shortens_what_can_be_shortened() {
        let figures = |adds_ns| -> Vec<_> {
            let proofs = Proofs::new(plan(), &[rounds(adds_ns)]);
            let turns = vec![vec![60_000.0, 60_004.0]; proofs.cells()];
            let series_of = |cell| made_up_report(&proofs, cell, &[-3], &turns).series.remove(0);
            (0..proofs.cells()).map(series_of).map(|series| series.experiment.calibrate().unwrap().clone()).collect()
        };
        let all = figures(60_000.0);
        let names: Vec<_> = all.iter().map(|typed| typed.parameters.figure).collect();
        assert_eq!(names, [Figure::Plain, Figure::Compensated, Figure::Remeasured, Figure::CompensatedSleeper]);
        assert!(all.iter().all(|typed| typed.parameters.asked_ns == Some(100_000)));
        let shortened: Vec<_> = all.iter().map(|typed| typed.metrics.shortened_by_ns).collect();
        assert_eq!(shortened, [None, Some(60_002.0), Some(60_002.0), None], "the mean of the turns");
        assert_eq!(figures(150_000.0).len(), 2, "a sleep adds more than the wait");
        assert!(Proofs::new(plan(), &[Rounds::default()]).cells.is_empty());
    }
}

//! `wait`: how late each way of waiting wakes up, and how much CPU time it uses.
//!
//! The input is a [`Plan`], validated before anything is changed. The [`Session`] receives a series per method, duration and variant of
//! conditions, or the reason for a missing one. The quantity is `overshoot` for calls that take a duration, `lateness` for those that
//! take a deadline.
//!
//! Where a timer signals the measuring thread every period, a wait goes on as a program can continue it: with what the call
//! says is left. A call that takes a duration is called again with its remainder. One that takes a deadline is called with
//! the same deadline. `usleep(3)` returns no remainder, so its wait ends with the first signal. Unlike all other waits, such
//! a wait may end early.

pub mod methods;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use punctual::{RtThrottle, format_duration};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::{self, Ended};
use punctual_linux::timer::PeriodicSignal;
use punctual_record::experiment::wait;
use punctual_record::{Experiment, Notice, Quantity, Recorder, Typed, Usage};

use crate::frame::{
    self, Bench, CellCost, CellId, Error, Failure, Family, Gathered, Input, Layout, Measured, Meter, Opened, PlanError,
    Report, Scene, Schedule, Session, Sum, Unavailable, Variant, go_on, more_time, next_stretch, place_of, ready,
    rough,
};
use crate::ways::wait::{Method, Unit, Waiter, units_up};

/// Longest single wait: one day. A longer one is a typing error.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);

/// One subject, one duration, one variant: it becomes a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Index into [`Plan::methods`].
    pub method: usize,
    /// The requested wait.
    pub asked: Duration,
    /// Index into the variants of the request.
    pub variant: usize,
}

impl Cell {
    /// The requested wait, in ns.
    pub(super) fn asked_ns(&self) -> i64 {
        self.asked.as_nanos() as i64
    }
}

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The ways to wait.
    pub methods: Vec<&'static Method>,
    /// The cells, in the order of the first round.
    pub cells: Vec<Cell>,
    /// Conditions and amounts.
    pub request: frame::Request,
    /// The time from one signal to the next, where signals interrupt the waits.
    pub interrupt: Option<Duration>,
    /// The kernel's tick rate in Hz, if known.
    pub(super) hz: Option<u32>,
}

/// The request for a plan.
#[derive(Debug, Clone)]
pub struct Request {
    /// The ways to wait.
    pub methods: Vec<&'static Method>,
    /// The requested waits.
    pub durations: Vec<Duration>,
    /// Further conditions under which one method alone is measured, to show their effect.
    pub companions: Vec<(&'static Method, Variant)>,
    /// The time from one signal to the next, where signals interrupt the waits.
    pub interrupt: Option<Duration>,
    /// Conditions and amounts. Each method and duration is measured under each variant.
    pub frame: frame::Request,
}

impl Plan {
    /// Checks the request and lays out the cells.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        for asked in &request.durations {
            let why = || format!("must be 1ns to 24h, not {}", format_duration(*asked));
            Input::Wait.check(!asked.is_zero() && *asked <= LONGEST_WAIT, why)?;
        }
        request.frame.check()?;
        let plan = Self::lay_out(request);
        plan.check_share()?;
        plan.checked()
    }

    /// Refuses a time in which no wait fits into its share.
    fn check_share(&self) -> Result<(), PlanError> {
        let frame::Amount::Time(time) = self.request.amount else { return Ok(()) };
        let schedule = self.schedule();
        let pays = |(index, cell): (usize, &Cell)| schedule.pays_for(index, self.expected_ns(cell) as f64);
        let least = self.cells.iter().enumerate().map(pays).min().unwrap_or_default();
        Input::Time.check(least <= time, || {
            let [least, time] = [least, time].map(format_duration);
            format!("must be at least {least} to pay for one wait, not {time}")
        })
    }

    fn lay_out(request: Request) -> Self {
        let (methods, interrupt) = (request.methods, request.interrupt);
        let mut plan = Self { methods, cells: Vec::new(), request: request.frame, interrupt, hz: None };
        for variant in 0..plan.request.variants.len() {
            for &asked in &request.durations {
                plan.cells.extend((0..plan.methods.len()).map(|method| Cell { method, asked, variant }));
            }
        }
        for (method, variant) in request.companions {
            let method = place_of(&mut plan.methods, method, |one, other| one.name == other.name);
            let variant = place_of(&mut plan.request.variants, variant, PartialEq::eq);
            plan.cells.extend(request.durations.iter().map(|&asked| Cell { method, asked, variant }));
        }
        plan
    }

    /// The parameters of a cell.
    pub(super) fn parameters(&self, cell: &Cell) -> wait::Parameters {
        let interrupt_ns = self.interrupt.map(|period| i64::try_from(period.as_nanos()).unwrap_or(i64::MAX));
        wait::Parameters { interrupt_ns, ..wait::Parameters::asking(cell.asked_ns()) }
    }

    /// A cell's wait, rounded up to the call's unit.
    #[must_use]
    pub fn effective_ns(&self, cell: &Cell) -> i64 {
        self.methods[cell.method].unit.effective_ns(cell.asked_ns(), self.hz)
    }

    /// How long a cell's wait takes: a signal ends a call that rounds to seconds, and a second with it.
    pub(super) fn expected_ns(&self, cell: &Cell) -> i64 {
        let effective_ns = self.effective_ns(cell);
        let seconds = units_up(effective_ns, 1_000_000_000);
        match self.parameters(cell).interrupt_ns {
            Some(period_ns) if self.methods[cell.method].unit == Unit::Second => {
                effective_ns.min(period_ns.saturating_mul(seconds))
            }
            _ => effective_ns,
        }
    }
}

/// The first estimate of a wait's overshoot: default timer slack and a wake-up.
const USUAL_OVERSHOOT_NS: f64 = 60_000.0;
/// The same for busy waiting: some readings of the clock.
const USUAL_SPIN_OVERSHOOT_NS: f64 = 100.0;
/// Longest busy wait under a real-time policy: half of the second after which the watchdog steps in.
const LONGEST_REAL_TIME_SPIN: Duration = Duration::from_millis(500);

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::WAIT;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

/// Runs the plan for the causes of late wake-ups alone. Where the kernel refuses its events, a notice says so.
pub fn causes(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::causes(plan, session)
}

impl Family for Plan {
    type Extra = Cuts;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        let method = self.methods[self.cells[cell].method];
        let parameters = self.parameters(&self.cells[cell]);
        CellId {
            subject: method.name.into(),
            about: method.for_record(),
            experiment: Experiment::Wait(Typed::asked(parameters)),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| {
            let burns = self.methods[cell.method].kind.burns();
            let overshoot = if burns { USUAL_SPIN_OVERSHOOT_NS } else { USUAL_OVERSHOOT_NS };
            let (ideal, expected) = (cell.asked_ns() as f64, self.expected_ns(cell) as f64);
            CellCost { ideal_ns: ideal + overshoot, expected_ns: expected + overshoot }
        };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        self.hz = session.host().hz;
        Ok(())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        let cell = &self.cells[cell];
        let burns = self.methods[cell.method].kind.burns();
        let held = burns && self.request.variants[cell.variant].is_real_time() && cell.asked > LONGEST_REAL_TIME_SPIN;
        held.then(|| {
            let asked = format_duration(cell.asked);
            Unavailable::but(
                format!("a busy wait of {asked} under a real-time policy would hold the CPU"),
                format!("ask for {} or less", format_duration(LONGEST_REAL_TIME_SPIN)),
            )
        })
    }

    fn too_short(&self, cell: usize) -> Unavailable {
        let share = self.schedule().share(cell);
        let effective = Duration::from_nanos(self.effective_ns(&self.cells[cell]).unsigned_abs());
        let why = match effective > share {
            true => format!(
                "the call makes {} of it, longer than its share of the time ({})",
                format_duration(effective),
                rough(share)
            ),
            false => format!("the machine left no time for a wait within its share of the time ({})", rough(share)),
        };
        Unavailable::but(why, more_time())
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Cuts> {
        Ok(Box::new(move |_| Ok(Box::new(WaitBench::open(self)))))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Cuts>) -> Report {
        let cell = &self.cells[cell];
        let method = self.methods[cell.method];
        let parameters = self.parameters(cell);
        let metrics = wait::Metrics { effective_ns: Some(self.effective_ns(cell)), ..measured.extra.metrics() };
        let quantity = if method.absolute { Quantity::Lateness } else { Quantity::Overshoot };
        let series = measured.series(measured.tally, quantity, Experiment::Wait(Typed { parameters, metrics }));
        let (subject, count, min_ns) = (method.name.into(), series.summary.negative, series.summary.min.unwrap_or(0));
        // A wait that signals cut short may well end early.
        let notices = if count > 0 && self.interrupt.is_none() {
            vec![Notice::Early { subject, count, min_ns }]
        } else {
            Vec::new()
        };
        Report { notices, ..Report::with_series(vec![series]) }
    }
}

/// The ways to wait, opened on the measuring thread.
struct WaitBench<'a> {
    plan: &'a Plan,
    waiters: Vec<Opened<dyn Waiter>>,
    /// Where signals interrupt the waits.
    signals: Option<Signals>,
    throttle: RtThrottle,
}

impl<'a> WaitBench<'a> {
    /// Opens every method of the plan on the calling thread.
    fn open(plan: &'a Plan) -> Self {
        let signals = plan.interrupt.map(Signals::open);
        let open = |method: &&'static Method| match &signals {
            None => (method.open)(),
            Some(Ok(signals)) => signals.waiter(method),
            Some(Err(no)) => Err(no.clone()),
        };
        let waiters = plan.methods.iter().map(open).collect();
        Self { plan, waiters, signals: signals.and_then(Result::ok), throttle: RtThrottle::new() }
    }
}

impl Bench for WaitBench<'_> {
    type Extra = Cuts;

    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let method = self.plan.methods[cell.method].name;
        let label = &self.plan.request.variants[cell.variant].label;
        format!("{method} {} ({label})", format_duration(cell.asked))
    }

    fn nominal_ns(&self, cell: usize) -> Option<u64> {
        u64::try_from(self.plan.cells[cell].asked.as_nanos()).ok()
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let plan = self.plan;
        let at = &plan.cells[cell];
        let waiter = ready(&mut self.waiters[at.method])?;
        let asked_ns = at.asked.as_nanos() as i64;
        let call = plan.methods[at.method].call;
        let failed = |error: linux::Error| Failure::of_call(call, &error);
        if let Some(signals) = &self.signals {
            signals.cuts.borrow_mut().clear();
        }
        waiter.begin(at.variant, asked_ns).map_err(failed)?;
        for _ in 0..plan.request.warmup {
            waiter.wait(now_ns(Clock::Monotonic), asked_ns).map_err(failed)?;
        }
        let real_time = plan.request.variants[at.variant].is_real_time();
        let mut total = Sum::default();
        let mut to_go = operations;
        let mut stretch = 1;
        while to_go > 0 {
            let n = stretch.min(to_go);
            let meter = Meter::start();
            measure(waiter, asked_ns, n, into).map_err(failed)?;
            let used = meter.stop();
            if real_time {
                self.throttle.after(Duration::from_nanos(used.cpu_ns.unwrap_or(used.elapsed_ns)));
            }
            stretch = next_stretch(n, used.elapsed_ns);
            total.add(used);
            to_go -= n;
        }
        waiter.end();
        Ok(total.usage())
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Cuts) {
        if let Some(signals) = &self.signals {
            extra.add(&signals.cuts.borrow());
        }
    }
}

/// The measuring loop. Between two waits it makes two clock readings and one record, and checks a flag. It allocates
/// nothing and makes no system call.
fn measure(waiter: &mut dyn Waiter, asked_ns: i64, n: u64, into: &mut Recorder) -> linux::Result<()> {
    for _ in 0..n {
        let from = now_ns(Clock::Monotonic);
        waiter.wait(from, asked_ns)?;
        let woke = now_ns(Clock::Monotonic);
        if linux::stop::requested() {
            return Err(linux::Error::from_errno("wait", linux::EINTR));
        }
        into.record(woke - from - asked_ns);
    }
    Ok(())
}

/// A wait is given up at this many times its length. With the timer's slack in each remainder it may never end.
const GIVEN_UP_AFTER: i64 = 10;
/// The least length for that limit: shorter waits last as long as a wake-up.
const SHORTEST_NS: i64 = 100_000;
const SECOND_NS: i64 = 1_000_000_000;

/// The sleeping calls that signals may interrupt here.
const CALLS: [(&str, Call); 5] = [
    ("sleep", |ns| {
        // Whole seconds hide an early return: the clock judges it.
        let left = sleep::sleep_left(u32::try_from(ns / SECOND_NS).unwrap_or(u32::MAX));
        Ok(Back::Says(i64::from(left) * SECOND_NS))
    }),
    ("usleep", |ns| {
        let ended = sleep::usleep(u32::try_from(ns / 1_000).unwrap_or(u32::MAX))?;
        Ok(if ended == Ended::TimeUp { Back::TimeUp } else { Back::SaysNothing })
    }),
    ("nanosleep", |ns| Ok(Back::with(sleep::nanosleep_left(ns)?))),
    ("clock_nanosleep", |ns| Ok(Back::with(sleep::clock_nanosleep_left(Clock::Monotonic, ns)?))),
    ("clock_nanosleep_abs", |deadline_ns| {
        let ended = sleep::clock_nanosleep_until(Clock::Monotonic, deadline_ns)?;
        Ok(if ended == Ended::TimeUp { Back::TimeUp } else { Back::Again })
    }),
];

/// The call, given a duration or a deadline.
type Call = fn(i64) -> linux::Result<Back>;

/// The result of a call.
enum Back {
    TimeUp,
    /// Early, with what is left in ns (0 may also mean that the time is up).
    Says(i64),
    /// Early, without a remainder.
    SaysNothing,
    /// Early, before its deadline.
    Again,
}

impl Back {
    fn with(left: Option<i64>) -> Self {
        left.map_or(Self::TimeUp, Self::Says)
    }
}

/// The methods that signals may interrupt.
pub fn interruptible() -> impl Iterator<Item = &'static Method> {
    CALLS.iter().filter_map(|(name, _)| methods::find(name))
}

/// The effect of signals on the waits of a cell.
#[derive(Debug, Default)]
pub struct Cuts {
    waits: u64,
    cut_short: u64,
    given_up: u64,
    /// Remainder minus what is left by the clock.
    errors: Option<Recorder>,
}

impl Cuts {
    /// Nothing yet, with room for the remainders: nothing is allocated while the clock runs.
    fn with_room() -> Self {
        Self { errors: Some(Recorder::new()), ..Self::default() }
    }

    fn clear(&mut self) {
        (self.waits, self.cut_short, self.given_up) = (0, 0, 0);
        self.errors.iter_mut().for_each(Recorder::clear);
    }

    fn add(&mut self, more: &Self) {
        self.waits += more.waits;
        self.cut_short += more.cut_short;
        self.given_up += more.given_up;
        if let Some(errors) = &more.errors {
            self.errors.get_or_insert_with(Recorder::new).merge(errors);
        }
    }

    /// The same as metrics; nothing where no signal was sent.
    fn metrics(&self) -> wait::Metrics {
        let share = |count: u64| (self.waits > 0).then(|| count as f64 / self.waits as f64);
        wait::Metrics {
            cut_short_share: share(self.cut_short),
            remainder_error_ns: self.errors.as_ref().and_then(|errors| errors.summary().p50),
            given_up_share: share(self.given_up),
            ..wait::Metrics::default()
        }
    }
}

/// The interrupted waits of a plan, on the measuring thread.
struct Signals {
    signal: Rc<PeriodicSignal>,
    cuts: Rc<RefCell<Cuts>>,
}

impl Signals {
    fn open(period: Duration) -> Result<Self, Unavailable> {
        let period_ns = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        let signal = PeriodicSignal::new(period_ns).map_err(|e| Unavailable::because(e.to_string()))?;
        Ok(Self { signal: Rc::new(signal), cuts: Rc::new(RefCell::new(Cuts::with_room())) })
    }

    /// The interrupted wait by this method.
    fn waiter(&self, method: &'static Method) -> Result<Box<dyn Waiter>, Unavailable> {
        let known = CALLS.iter().find(|(name, _)| *name == method.name);
        let (_, call) = known.ok_or_else(|| {
            let names = CALLS.map(|(name, _)| name).join(", ");
            Unavailable::because(format!("signals interrupt {names} only"))
        })?;
        let (signal, cuts) = (Rc::clone(&self.signal), Rc::clone(&self.cuts));
        Ok(Box::new(Interrupted { method, call: *call, signal, cuts }))
    }
}

/// A wait that signals interrupt.
struct Interrupted {
    method: &'static Method,
    call: Call,
    signal: Rc<PeriodicSignal>,
    cuts: Rc<RefCell<Cuts>>,
}

impl Interrupted {
    /// The first call and its continuations.
    fn wait_out(&self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let mut cuts = self.cuts.borrow_mut();
        cuts.waits += 1;
        // Only units of a fixed length occur, so the tick rate does not matter.
        let whole_ns = self.method.unit.effective_ns(asked_ns, None);
        let mut next = if self.method.absolute { from_ns.saturating_add(asked_ns) } else { whole_ns };
        let mut first = true;
        loop {
            let back = (self.call)(next)?;
            if matches!(back, Back::TimeUp) {
                return Ok(());
            }
            let elapsed_ns = now_ns(Clock::Monotonic) - from_ns;
            if std::mem::take(&mut first) && elapsed_ns < whole_ns {
                cuts.cut_short += 1;
                if let (Back::Says(left_ns), Some(errors)) = (&back, &mut cuts.errors) {
                    errors.record(left_ns - (whole_ns - elapsed_ns));
                }
            }
            match back {
                Back::TimeUp | Back::SaysNothing | Back::Says(0) => return Ok(()),
                Back::Says(left_ns) => next = left_ns,
                Back::Again => {}
            }
            go_on("wait")?;
            if elapsed_ns / GIVEN_UP_AFTER >= whole_ns.max(SHORTEST_NS) {
                cuts.given_up += 1;
                return Ok(());
            }
        }
    }
}

impl Waiter for Interrupted {
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        self.wait_out(from_ns, asked_ns).inspect_err(|_| self.end())
    }

    fn begin(&mut self, _conditions: usize, _asked_ns: i64) -> linux::Result<()> {
        self.signal.start()
    }

    fn end(&mut self) {
        // Disarming cannot fail: the arguments are valid.
        let _ = self.signal.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::made_up_report;
    use crate::frame::{Amount, Request as Frame};

    fn planned(names: &[&str], asked: Duration, time: Duration) -> Result<Plan, PlanError> {
        Plan::new(Request {
            methods: names.iter().map(|name| methods::find(name).unwrap()).collect(),
            durations: vec![asked],
            companions: Vec::new(),
            interrupt: None,
            frame: frame::Request::as_found(Amount::Time(time), 10),
        })
    }

    #[test]
    fn a_time_that_pays_for_no_wait_is_refused() {
        let ms = Duration::from_millis(1);
        let refused = |names: &[&str], asked, time| planned(names, asked, time).unwrap_err().to_string();
        assert_eq!(
            refused(&["nanosleep"], ms, Duration::from_nanos(1)),
            "invalid duration of the run: must be at least 1ms to pay for one wait, not 1ns"
        );
        assert_eq!(
            refused(&["nanosleep", "futex"], ms, ms),
            "invalid duration of the run: must be at least 2ms to pay for one wait, not 1ms"
        );
        assert_eq!(
            refused(&["sleep"], ms, 400 * ms),
            "invalid duration of the run: must be at least 1s to pay for one wait, not 400ms",
            "it takes whole seconds"
        );
        assert!(planned(&["nanosleep"], ms, ms).is_ok());
        assert!(planned(&["sleep", "nanosleep"], ms, 400 * ms).is_ok(), "one of them is measured");
    }

    #[test]
    fn a_series_says_what_the_call_makes_of_the_wait() {
        let methods = ["poll", "clock_nanosleep_abs"].map(|name| methods::find(name).unwrap()).to_vec();
        let frame = Frame::as_found(Amount::Time(Duration::from_secs(1)), 3);
        let request = Request {
            methods,
            durations: vec![Duration::from_micros(100)],
            companions: Vec::new(),
            interrupt: None,
            frame,
        };
        let plan = Plan::new(request).unwrap();
        let extras = [Cuts::default(), Cuts::default()];
        let report = made_up_report(&plan, 0, &[-5, 900_000], &extras);
        let series = &report.series[0];
        let typed = series.experiment.wait().unwrap();
        assert_eq!((typed.parameters.asked_ns, typed.metrics.effective_ns), (100_000, Some(1_000_000)));
        assert_eq!((series.subject.as_str(), series.quantity), ("poll", Quantity::Overshoot));
        assert_eq!(series.about.kind.as_deref(), Some("poll"));
        assert_eq!(series.about.code.as_deref(), Some("poll(NULL, 0, milliseconds);"));
        assert_eq!(report.notices, [Notice::Early { subject: "poll".into(), count: 1, min_ns: -5 }]);
        let report = made_up_report(&plan, 1, &[1], &extras);
        assert_eq!((report.series[0].quantity, report.notices.len()), (Quantity::Lateness, 0));
    }

    fn recorded(method: &str, n: u64) -> (Box<dyn Waiter>, Recorder, u64) {
        let method = super::methods::find(method).expect("the method exists");
        ((method.open)().expect("it opens"), Recorder::new(), n)
    }

    #[test]
    fn the_loop_allocates_nothing() {
        for name in ["clock_nanosleep_abs", "nanosleep", "timerfd", "spin_clock"] {
            let (mut waiter, mut recorder, n) = recorded(name, 200);
            let counted = allocation_counter::measure(|| measure(waiter.as_mut(), 5_000, n, &mut recorder).unwrap());
            assert_eq!((counted.count_total, counted.bytes_total), (0, 0), "{name}");
            assert_eq!(recorder.count(), n, "{name}");
        }
        let control = allocation_counter::measure(|| drop(std::hint::black_box(vec![1_u8; 100])));
        assert_eq!(control.count_total, 1, "the counter counts");
    }

    #[test]
    fn the_loop_makes_no_call_but_the_one_measured() {
        for (name, call, n) in [("clock_nanosleep_abs", "clock_nanosleep", 50), ("spin_clock", "", 50)] {
            let seen = linux::observe::system_calls_after(
                || recorded(name, n),
                |(waiter, recorder, n)| measure(waiter.as_mut(), 5_000, *n, recorder).unwrap(),
            );
            match seen {
                Ok(seen) => {
                    assert!(seen.iter().all(|c| c.name == call), "{name}: {seen:?}");
                    assert_eq!(seen.len() as u64, if call.is_empty() { 0 } else { n }, "{name}");
                }
                Err(why) => {
                    punctual_testing::skip(&why.to_string());
                }
            }
        }
    }

    #[test]
    fn stretches_grow_until_they_fill_their_time() {
        assert_eq!(next_stretch(1, 100_000), 8);
        assert_eq!(next_stretch(64, 6_400_000), 200);
        assert_eq!(next_stretch(1, 1_000_000_000), 1);
        assert_eq!(next_stretch(1000, 0), 8000);
    }

    /// The effect of a signal each millisecond on one wait of a second, and the duration of that wait.
    fn cut(name: &str) -> (Cuts, i64) {
        let signals = Signals::open(Duration::from_millis(1)).unwrap();
        let mut waiter = signals.waiter(methods::find(name).unwrap()).unwrap();
        waiter.begin(0, SECOND_NS).unwrap();
        let from = now_ns(Clock::Monotonic);
        waiter.wait(from, SECOND_NS).unwrap();
        let elapsed = now_ns(Clock::Monotonic) - from;
        waiter.end();
        drop(waiter);
        (signals.cuts.take(), elapsed)
    }

    #[test]
    fn a_call_without_a_remainder_loses_the_rest_of_its_wait() {
        let (cuts, _) = cut("usleep");
        let metrics = cuts.metrics();
        assert_eq!((metrics.cut_short_share, metrics.given_up_share), (Some(1.0), Some(0.0)));
        assert_eq!(metrics.remainder_error_ns, None);
    }

    #[test]
    fn whole_seconds_hide_what_is_left() {
        let (cuts, _) = cut("sleep");
        let (error, _) = cuts.errors.unwrap().extremes().unwrap();
        assert!((-SECOND_NS..0).contains(&error), "{error}");
    }

    #[test]
    fn a_deadline_and_a_remainder_are_waited_out() {
        for name in ["nanosleep", "clock_nanosleep", "clock_nanosleep_abs"] {
            let (cuts, elapsed) = cut(name);
            assert!(elapsed >= SECOND_NS, "{name}: {elapsed}");
            assert_eq!((cuts.waits, cuts.cut_short), (1, 1), "{name}");
            let remainders = if name == "clock_nanosleep_abs" { 0 } else { 1 };
            assert_eq!(cuts.errors.unwrap().count(), remainders, "{name}");
        }
    }

    #[test]
    fn other_ways_to_wait_are_refused() {
        let signals = Signals::open(Duration::from_millis(1)).unwrap();
        let why = signals.waiter(methods::find("timerfd").unwrap()).err().unwrap().why;
        assert!(why.contains("nanosleep"), "{why}");
        assert_eq!(interruptible().count(), CALLS.len());
    }

    #[test]
    fn shares_are_of_all_waits() {
        let mut all = Cuts::default();
        assert_eq!(all.metrics(), wait::Metrics::default());
        let mut some = Cuts { waits: 3, cut_short: 1, given_up: 0, errors: Some(Recorder::new()) };
        (0..10).for_each(|_| some.errors.as_mut().unwrap().record(50_000));
        all.add(&some);
        some.clear();
        some.waits = 1;
        all.add(&some);
        let metrics = all.metrics();
        assert_eq!((metrics.cut_short_share, metrics.given_up_share), (Some(0.25), Some(0.0)));
        let error = metrics.remainder_error_ns.unwrap();
        assert!((49_000..=51_000).contains(&error), "{error}");
    }
}

//! `ramp`: how a fixed piece of work speeds up under each governor.
//!
//! Each governor has one turn per round. It is set, the CPU rests, and a thread runs N loops as fast as it can. The
//! figures are a series per governor with every loop in order, and the time to full speed. If it was not reached,
//! there is a reason. Without cpufreq the loops are still measured: they show the time taken by the hypervisor,
//! throttling and other programs.
//!
//! A loop is measured in parts, which separates interruptions from the work itself. The work is uniform, so all parts of a loop take equally long at any speed. A part longer than the loop's median part was
//! interrupted (a timer tick, another interrupt, the hypervisor). The excess is the interruption's duration.

mod governed;

use std::hint::black_box;
use std::time::Duration;

use governed::{Cell, Facts, Governed};
use punctual::cpufreq::{self, Cpufreq, Work};
use punctual::format_duration;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::ramp;
use punctual_record::statistics::lower_median;
use punctual_record::{About, Experiment, Quantity, Recorder, Series, SeriesTally, Typed, Usage};

use crate::frame::{
    self, Bench, CellId, Error, Failure, Family, Gathered, Input, Layout, Ledger, Measured, Meter, PlanError, Report,
    Scene, Schedule, Session, Shared, Unavailable, at_least_one,
};
use crate::speed::{Looping, PERFORMANCE, Thread, WARM_UP, arrival, check_work, give_back, governor_lost};

pub use governed::{AS_FOUND, Governors};

/// Longest time that a real-time thread loops without a break. The kernel's throttling limit is 950 ms; slower loops
/// have a margin.
pub(crate) const LONGEST_REAL_TIME: Duration = Duration::from_millis(400);
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
    asked: Request,
    looping: Looping,
    /// Determined after it is known which governors can be set.
    cells: Vec<Cell>,
    waiting: Shared<Option<Governed>>,
}

/// How many loops a real-time thread may do without a break.
fn most_real_time_loops(work: Duration) -> u128 {
    LONGEST_REAL_TIME.as_nanos() / work.as_nanos()
}

impl Plan {
    /// Checks the request.
    pub fn new(request: Request) -> Result<Self, PlanError> {
        let Request { loops, work, rounds, rest, ref thread, .. } = request;
        at_least_one(Input::Loops, loops)?;
        at_least_one(Input::Rounds, rounds)?;
        check_work(work)?;
        let busy = work.saturating_mul(loops);
        Input::Loops.check(!thread.is_real_time() || busy <= LONGEST_REAL_TIME, || {
            let (fits, work) = (most_real_time_loops(work), format_duration(work));
            format!(
                "must be at most {fits} under a real-time policy: {loops} loops of {work} would hold the CPU for more than {}, \
                 and the kernel would interfere (sched_rt_runtime_us)",
                format_duration(LONGEST_REAL_TIME)
            )
        })?;
        let turn = rest.saturating_add(busy.saturating_mul(SLOWEST));
        let whole = turn.saturating_mul(rounds).saturating_mul(MOST_GOVERNORS);
        let looping = thread.looping(loops, rounds, whole)?;
        Ok(Self { asked: request, looping, cells: Vec::new(), waiting: Shared::default() })
    }

    /// The governor of a cell, or a label for none set.
    fn subject(&self, cell: usize) -> &str {
        self.cells[cell].governor.as_deref().unwrap_or(AS_FOUND)
    }
}

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::RAMP;
/// The loops that show what a rest costs: the median of three outlives an interruption of one.
const FIRST: usize = 3;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

impl Family for Plan {
    type Extra = Extra;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.looping.request, vec![0; self.cells.len()])
    }

    fn identity(&self, cell: usize) -> CellId {
        let subject = self.subject(cell).to_owned();
        CellId { subject, about: About::default(), experiment: Experiment::Ramp(Typed::asked(self.parameters())) }
    }

    fn schedule(&self) -> Schedule {
        let each = self.asked.rest / self.asked.loops + self.asked.work;
        self.looping.schedule(self.asked.loops, each, self.cells.len())
    }

    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        let asked = (&self.asked.governors, self.looping.request.require);
        let (governed, cells, notices) = Governed::take_over(Cpufreq::system(), self.looping.cpu, asked)?;
        notices.into_iter().for_each(|notice| session.notice(notice));
        *self.waiting.open() = Some(governed);
        self.cells = cells;
        Ok(())
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        self.cells[cell].failure.clone()
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Extra> {
        let nothing = || Governed { cpufreq: Cpufreq::system(), cpu: self.looping.cpu, guard: None };
        let governed = self.waiting.take().unwrap_or_else(nothing);
        Ok(Box::new(move |scene| Ok(Box::new(RampBench::open(self, governed, scene.ledger.clone())?))))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let experiment =
            Experiment::Ramp(Typed { parameters: self.parameters(), metrics: self.metrics(cell, measured) });
        let mut series = measured.series(measured.tally, Quantity::Loop, experiment);
        series.samples = Some(measured.extra.durations().flatten().collect());
        let mut report = Report::with_series(vec![series]);
        report.series.extend(self.first_loops(measured));
        report
    }
}

impl Plan {
    fn parameters(&self) -> ramp::Parameters {
        let ns = |duration: Duration| duration.as_nanos() as i64;
        ramp::Parameters { loops: self.asked.loops, work_ns: ns(self.asked.work), rest_ns: ns(self.asked.rest) }
    }

    /// The first loops of each round, which a test of the rounds compares with all of them. `None`: too few loops.
    fn first_loops(&self, measured: &Measured<'_, Extra>) -> Option<Series> {
        if (self.asked.loops as usize) < 2 * FIRST {
            return None;
        }
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for (round, durations) in measured.tally.rounds().iter().zip(measured.extra.durations()) {
            tally.add_samples((round.round, round.started_ns), &mut recorder, durations.into_iter().take(FIRST));
        }
        let experiment = Experiment::Ramp(Typed::asked(self.parameters()));
        Some(measured.series(&tally, Quantity::FirstLoops, experiment))
    }

    /// Further notices about a governor's loops.
    fn metrics(&self, cell: usize, measured: &Measured<'_, Extra>) -> ramp::Metrics {
        let (extra, extras) = (measured.extra, measured.extras);
        let best = extras.iter().flat_map(|extra| extra.loops().flatten()).map(|one_loop| one_loop.ns).min();
        let settled = extras.iter().filter_map(Extra::settled_ns).min();
        let arrived = |round: Vec<i64>| arrival(&round, settled?, false).map(|at| round[..at].iter().sum());
        let arrivals: Vec<i64> = extra.durations().filter_map(arrived).collect();
        let reached = arrivals.len() * 2 > extra.rounds.len();
        let transitions: Option<Vec<u64>> = extra.rounds.iter().map(|round| round.transitions).collect();
        let transitions = transitions.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<u64>());
        let ended: Vec<i64> = extra.rounds.iter().filter_map(|round| round.ended_khz).map(|khz| khz as i64).collect();
        let facts = extra.rounds.iter().rev().find_map(|round| round.facts.clone()).unwrap_or_default();
        let (ended_khz, max_khz) = (lower_median(&ended), facts.policy.max_khz.map(|khz| khz as i64));
        let slow = !reached || ended_khz.zip(max_khz).is_some_and(|(ended, max)| ended < max);
        let mut raised: Vec<&str> =
            extras.iter().flat_map(|extra| &extra.rounds).flat_map(|round| &round.raised).map(String::as_str).collect();
        raised.sort_unstable();
        raised.dedup();
        let why = || {
            let governor = self.cells[cell].governor.as_deref();
            facts.why_slow(governor, self.priority(measured.refused), transitions, !raised.is_empty())
        };
        let (interrupted_share, interruption_ns) = extra.interruptions();
        ramp::Metrics {
            cpu: self.looping.cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            steps: Some(extra.steps as i64),
            best_ns: best,
            first_ns: extra.middle_of(|round| round.first().copied()),
            final_ns: extra.middle_of(|round| round.last().copied()),
            rounds_at_full_speed: Some(arrivals.len() as u64),
            to_full_speed_ns: lower_median(&arrivals).filter(|_| reached),
            transitions,
            ended_khz,
            driver: facts.policy.driver.clone(),
            max_khz,
            raised: (!raised.is_empty()).then(|| raised.join(", ")),
            why: if slow { why() } else { None },
            interrupted_share,
            interruption_ns,
            own_spread: own_spread(extra.loops()),
        }
    }

    /// The thread's real-time priority, if it was granted.
    fn priority(&self, refused: &[punctual::Refused]) -> Option<u32> {
        if refused.iter().any(|refused| refused.condition == punctual::Condition::POLICY) {
            return None;
        }
        match self.asked.thread.policy? {
            punctual::Policy::Fifo(priority) | punctual::Policy::RoundRobin(priority) => Some(u32::from(priority)),
            _ => None,
        }
    }
}

struct RampBench<'a> {
    plan: &'a Plan,
    governed: Governed,
    ledger: Shared<Ledger>,
    /// The work, after its calibration.
    work: Option<(Work, Loops)>,
    stamps: Vec<Stamps>,
    /// The last batch's results, until it counts.
    last: Option<Batch>,
}

impl<'a> RampBench<'a> {
    /// Sets full speed for the calibration of the work, if it can be set.
    fn open(plan: &'a Plan, governed: Governed, ledger: Shared<Ledger>) -> Result<Self, Error> {
        let stamps = Vec::with_capacity(plan.asked.loops as usize);
        let mut bench = Self { plan, governed, ledger, work: None, stamps, last: None };
        let offers =
            |policy: punctual::cpufreq::CpufreqPolicy| policy.governors.iter().any(|governor| governor == PERFORMANCE);
        if bench.governed.guard.is_some() && bench.governed.policy().is_some_and(offers) {
            bench.governed.set(PERFORMANCE)?;
        }
        Ok(bench)
    }

    /// The loops of the work, calibrated in the first batch.
    fn loops(&mut self) -> Loops {
        let takes = self.plan.asked.work;
        let calibrate = || {
            Work::warm_up(WARM_UP);
            let work = Work::calibrate(takes);
            (work, Loops::new(work, takes))
        };
        self.work.get_or_insert_with(calibrate).1
    }

    /// Sets the governor of the turn.
    fn prepare(&mut self, cell: usize) -> Result<(Option<Facts>, Vec<String>), cpufreq::Error> {
        match (&self.plan.cells[cell].governor, &self.governed.guard) {
            (Some(governor), _) => self.governed.set(governor)?,
            (None, Some(guard)) => guard.rewrite_found_governor()?,
            (None, None) => {}
        }
        let raised = self.governed.raise_threads(self.plan.asked.thread_priority)?;
        let known = self.governed.policy().zip(self.governed.cpu);
        Ok((known.map(|(policy, cpu)| Facts::read(&self.governed.cpufreq, policy, cpu)), raised))
    }

    /// Another program changed the governor during the turn.
    fn lost(&self, cell: usize) -> Result<(), Failure> {
        let Some((set, guard)) = self.plan.cells[cell].governor.as_deref().zip(self.governed.guard.as_ref()) else {
            return Ok(());
        };
        guard.other_governor(set).map_or(Ok(()), |other| Err(governor_lost(&self.plan.looping.request, set, other)))
    }
}

impl Bench for RampBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        self.plan.subject(cell).to_owned()
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let loops = self.loops();
        let prepared = self.prepare(cell);
        let (facts, raised) = prepared.map_err(|error| Unavailable::from(&error))?;
        std::thread::sleep(self.plan.asked.rest);
        let before = self.governed.policy().and_then(|policy| policy.transitions);
        let meter = Meter::start();
        self.stamps.clear();
        while (self.stamps.len() as u64) < operations && !linux::stop::requested() {
            self.stamps.push(loops.perform());
        }
        let used = meter.stop();
        if (self.stamps.len() as u64) < operations {
            return Err(Failure::Stopped);
        }
        let now = self.governed.policy();
        let after = now.as_ref().and_then(|policy| policy.transitions);
        let done: Vec<_> = self.stamps.iter().map(|stamps| account(&stamps[..=loops.parts])).collect();
        done.iter().for_each(|one_loop| into.record(one_loop.ns));
        self.lost(cell)?;
        self.last = Some(Batch {
            loops: done,
            transitions: before.zip(after).map(|(before, after)| after.saturating_sub(before)),
            ended_khz: now.and_then(|policy| policy.current_khz),
            facts,
            raised,
        });
        Ok(used)
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut Extra) {
        let Some(batch) = self.last.take() else { return };
        extra.rounds.push(batch);
        extra.steps = self.work.map_or(0, |(work, _)| work.steps);
    }

    fn end(&mut self) {
        give_back(self.governed.guard.take(), &self.ledger);
    }
}

/// The results of its turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    rounds: Vec<Batch>,
    steps: u64,
}

/// The results of one batch.
#[derive(Debug, Clone)]
struct Batch {
    /// Every loop in order.
    loops: Vec<Loop>,
    /// Number of frequency changes during the loops, if the kernel counts them.
    transitions: Option<u64>,
    /// The frequency after the last loop, if the kernel reports it.
    ended_khz: Option<u64>,
    facts: Option<Facts>,
    /// The governor's threads that got a higher priority.
    raised: Vec<String>,
}

impl Extra {
    /// The duration of each loop, in order.
    fn durations(&self) -> impl Iterator<Item = Vec<i64>> {
        self.rounds.iter().map(|round| round.loops.iter().map(|one_loop| one_loop.ns).collect())
    }

    /// The loops of each round.
    fn loops(&self) -> impl Iterator<Item = &Vec<Loop>> {
        self.rounds.iter().map(|round| &round.loops)
    }

    /// The interruptions of the loops: the share of loops interrupted, and the median time lost by those.
    fn interruptions(&self) -> (Option<f64>, Option<i64>) {
        let taken: Option<Vec<i64>> = self.loops().flatten().map(|one_loop| one_loop.taken_ns).collect();
        let Some(taken) = taken.filter(|all| !all.is_empty()) else { return (None, None) };
        let interrupted: Vec<i64> = taken.iter().copied().filter(|ns| *ns > 0).collect();
        (Some(interrupted.len() as f64 / taken.len() as f64), lower_median(&interrupted))
    }

    /// A loop at the speed that the governor settles at: the median of the later halves of its rounds.
    fn settled_ns(&self) -> Option<i64> {
        lower_median(&later_halves(self.loops()).map(|one_loop| one_loop.ns).collect::<Vec<_>>())
    }

    /// The median over the rounds of the picked value.
    fn middle_of(&self, pick: impl Fn(&[i64]) -> Option<i64>) -> Option<i64> {
        lower_median(&self.durations().filter_map(|round| pick(&round)).collect::<Vec<_>>())
    }
}

/// The shortest part: a reading of the clock is a thousandth of it.
const SHORTEST: Duration = Duration::from_micros(40);
const MOST: usize = 16;
/// With fewer parts the median means little.
const FEWEST: usize = 5;
/// A part counts as interrupted if it exceeds the median by this share (2 %, a microsecond of a part). A smaller
/// excess may be the work's own variation.
const INTERRUPTED: f64 = 0.02;

/// The duration of a loop, and how much of it was interruptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Loop {
    /// Total duration, in ns.
    ns: i64,
    /// The duration of interruptions in it, in ns. `None`: the loop was too short to measure that.
    taken_ns: Option<i64>,
}

impl Loop {
    /// The duration of the work itself.
    fn own_ns(self) -> Option<i64> {
        Some(self.ns - self.taken_ns?)
    }
}

/// The beginning of each part of a loop, and the end of the last one.
type Stamps = [i64; MOST + 1];

/// Runs the loops of some work.
#[derive(Debug, Clone, Copy)]
struct Loops {
    part: Work,
    rest: Work,
    parts: usize,
}

impl Loops {
    /// `takes`: the duration of the work at full speed.
    fn new(work: Work, takes: Duration) -> Self {
        let parts = ((takes.as_nanos() / SHORTEST.as_nanos()) as usize).clamp(1, MOST);
        let part = work.steps / parts as u64;
        Self { part: Work { steps: part }, rest: Work { steps: work.steps - part * (parts as u64 - 1) }, parts }
    }

    /// Runs one loop. [`account`] computes its duration later, when no clock runs.
    fn perform(&self) -> Stamps {
        let mut stamps = [0; MOST + 1];
        stamps[0] = now_ns(Clock::Monotonic);
        let mut value = stamps[0] as u64;
        for (n, stamp) in stamps[1..=self.parts].iter_mut().enumerate() {
            let part = if n + 1 == self.parts { self.rest } else { self.part };
            value = part.perform(black_box(value));
            *stamp = now_ns(Clock::Monotonic);
        }
        black_box(value);
        stamps
    }
}

/// The duration of a loop with these stamps.
fn account(stamps: &[i64]) -> Loop {
    let ns = stamps.last().copied().unwrap_or(0) - stamps.first().copied().unwrap_or(0);
    let parts: Vec<i64> = stamps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let Some(middle) = lower_median(&parts).filter(|_| parts.len() >= FEWEST) else {
        return Loop { ns, taken_ns: None };
    };
    let beyond = |part: &i64| part - middle;
    let taken = parts.iter().map(beyond).filter(|ns| *ns as f64 > middle as f64 * INTERRUPTED).sum();
    Loop { ns, taken_ns: Some(taken) }
}

/// The later half of each round's loops.
fn later_halves<'a>(rounds: impl IntoIterator<Item = &'a Vec<Loop>>) -> impl Iterator<Item = &'a Loop> {
    rounds.into_iter().flat_map(|round| &round[round.len() / 2..])
}

/// The variation of the work itself: (p90 - p10) / p50 of the later half of each round's loops, without
/// interruptions.
fn own_spread<'a>(rounds: impl IntoIterator<Item = &'a Vec<Loop>>) -> Option<f64> {
    let mut own: Vec<i64> = later_halves(rounds).map(|one_loop| one_loop.own_ns()).collect::<Option<_>>()?;
    own.sort_unstable();
    let at = |share: f64| own.get(((own.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
    let (p10, p50, p90) = (at(0.1)?, at(0.5)?, at(0.9)?);
    // A tenth needs at least twenty values.
    (own.len() >= 20 && p50 > 0).then(|| (p90 - p10) as f64 / p50 as f64)
}

#[cfg(test)]
mod tests {
    use punctual::Policy;

    use super::*;
    use crate::frame::tests::made_up_report;

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
        assert_eq!((plan.looping.request.variants[0].is_real_time(), plan.looping.request.rounds), (true, 3));
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
        assert_eq!(most_real_time_loops(long.work), 533);
        assert_eq!(refused(long.clone()).input, Input::Loops);
        assert_eq!(refused(Request { loops: 534, ..long.clone() }).input, Input::Loops);
        assert!(Plan::new(Request { loops: 533, ..long.clone() }).is_ok());
        assert!(Plan::new(Request { thread: Thread::default(), ..long }).is_ok());
    }

    /// A plan for two governors, and the results of each: the loops of one round.
    fn plan() -> Plan {
        let request = Request {
            governors: Governors::All,
            loops: 4,
            work: Duration::from_micros(100),
            rounds: 1,
            rest: Duration::from_millis(1),
            thread: Thread { cpu: Some(0), policy: Some(punctual::Policy::Fifo(10)), require: false },
            thread_priority: None,
        };
        let cell = |name: &str| Cell { governor: Some(name.into()), failure: None };
        Plan { cells: vec![cell("performance"), cell("powersave")], ..Plan::new(request).unwrap() }
    }

    fn extra(loops: [i64; 4], governor_raised: &str) -> Extra {
        let loops = loops.map(|ns| Loop { ns, taken_ns: Some(ns % 10) }).to_vec();
        let raised = vec![governor_raised.to_owned()];
        let round = Batch { loops, transitions: Some(3), ended_khz: Some(800_000), facts: None, raised };
        Extra { rounds: vec![round], steps: 9 }
    }

    #[test]
    fn a_series_says_how_fast_full_speed_was_reached() {
        let extras = [extra([300, 100, 100, 100], "sugov:0"), extra([300, 300, 304, 300], "kworker/0:0")];
        let fast = made_up_report(&plan(), 0, &[1], &extras);
        let series = &fast.series[0];
        assert_eq!((series.subject.as_str(), series.conditions.as_str()), ("performance", "SCHED_FIFO 10"));
        assert_eq!(series.samples.as_deref(), Some(&[300, 100, 100, 100][..]));
        let typed = series.experiment.ramp().unwrap();
        assert_eq!(
            (typed.parameters.loops, typed.parameters.work_ns, typed.parameters.rest_ns),
            (4, 100_000, 1_000_000)
        );
        let metrics = &typed.metrics;
        assert_eq!((metrics.cpu, metrics.steps, metrics.best_ns), (Some(0), Some(9), Some(100)));
        assert_eq!((metrics.first_ns, metrics.final_ns), (Some(300), Some(100)));
        assert_eq!((metrics.rounds_at_full_speed, metrics.to_full_speed_ns), (Some(1), Some(300)));
        assert_eq!((metrics.transitions, metrics.ended_khz), (Some(3), Some(800_000)));
        assert_eq!(metrics.raised.as_deref(), Some("kworker/0:0, sugov:0"), "of the whole run");
        let slow = made_up_report(&plan(), 1, &[1], &extras);
        let metrics = &slow.series[0].experiment.ramp().unwrap().metrics;
        assert_eq!(
            (metrics.best_ns, metrics.rounds_at_full_speed, metrics.to_full_speed_ns),
            (Some(100), Some(0), None)
        );
        assert_eq!(metrics.why.as_deref(), Some("it keeps the lowest frequency, by design"));
        assert_eq!((metrics.interrupted_share, metrics.interruption_ns), (Some(0.25), Some(4)));
    }

    /// Stamps of parts of these durations.
    fn stamps(parts: &[i64]) -> Vec<i64> {
        let mut all = vec![1000];
        parts.iter().for_each(|part| all.push(all.last().unwrap() + part));
        all
    }

    #[test]
    fn a_tick_in_one_part_is_not_the_loops_own() {
        let quiet = account(&stamps(&[47_000; 16]));
        assert_eq!(quiet, Loop { ns: 752_000, taken_ns: Some(0) });
        let mut parts = [47_000; 16];
        parts[3] += 18_000;
        parts[9] += 300;
        let ticked = account(&stamps(&parts));
        // The 300 ns are within the work's own variation.
        assert_eq!((ticked.ns, ticked.taken_ns, ticked.own_ns()), (770_300, Some(18_000), Some(752_300)));
    }

    #[test]
    fn a_slower_clock_is_the_loops_own() {
        assert_eq!(account(&stamps(&[141_000; 16])).own_ns(), Some(141_000 * 16));
    }

    #[test]
    fn too_short_a_loop_is_not_told_apart() {
        assert_eq!(account(&stamps(&[47_000, 60_000])), Loop { ns: 107_000, taken_ns: None });
        assert_eq!(own_spread(&[vec![Loop { ns: 5, taken_ns: None }; 100]]), None);
    }

    #[test]
    fn the_spread_is_that_of_the_later_halves_without_what_was_taken() {
        let own = |ns, taken| Loop { ns, taken_ns: Some(taken) };
        let mut round = vec![own(2_000, 0); 20];
        round.extend((0..20).map(|n| own(1_000 + n % 5 * 100, n % 5 * 100)));
        assert_eq!(own_spread(&[round.clone(), round]), Some(0.0));
        assert_eq!(own_spread(&[vec![own(1_000, 0); 10]]), None);
    }

    #[test]
    fn all_steps_are_done_whatever_the_parts() {
        for (steps, micros) in [(1_000, 20), (10_007, 250), (100_003, 750), (3, 100_000)] {
            let loops = Loops::new(Work { steps }, Duration::from_micros(micros));
            assert_eq!(loops.part.steps * (loops.parts as u64 - 1) + loops.rest.steps, steps);
            assert!(account(&loops.perform()[..=loops.parts]).ns > 0);
        }
    }
}

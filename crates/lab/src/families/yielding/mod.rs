//! `yield`: the cost of each way of giving up the CPU, and which programs gain by it.
//!
//! The input is a [`Plan`]. The [`Session`] receives the series of each method, situation and variant of conditions; a
//! situation is to be alone, or with N competitors on the same CPU. The series are `call_cost` (each call between two clock
//! readings) and `away` (the calls during which a competitor ran). `call_cost` also has the results that are no distribution:
//! the cost in a bare loop, user and system time, the calls that let a competitor run, and the shares of the CPU.
//!
//! A competitor's own progress proves that it ran, not the caller's clock: see [`crate::crowd`].

use std::time::Duration;

use plan::{Cell, CompetitorSpec};
use punctual::Policy;
use punctual_linux::clock::{Clock, CpuClocks, now_ns, thread_cpu_clocks, tick_ns};
use punctual_record::experiment::yielding;
use punctual_record::statistics::median;
use punctual_record::{Experiment, Quantity, Recorder, SeriesTally, Typed, Usage};

use crate::crowd::{Crowd, Shares};
use crate::frame::{
    self, Amount, Bench, CellCost, CellId, Error, Failure, Family, Gathered, Layout, Measured, Meter, Opened, Place,
    Report, Scene, Schedule, Session, Sum, Unavailable, more_time, moved_away, names, next_stretch, ready,
};
use crate::ways::{Probe, Yielder};

pub mod methods;
mod plan;

pub use plan::{CompetitorPolicy, Plan, Request};

/// The first estimate of a call's cost. Alone it is a sleep with the default slack, with competitors a part of their
/// time slice.
const USUAL_NS: (f64, f64) = (20_000.0, 500_000.0);
/// The weights of the time shares. A cell with competitors gets 2.6 times the share of one without. A slice lasts
/// milliseconds, and a share of the CPU needs many slices. One without needs ticks for its user and system time. The
/// schedule takes the square root.
const IDEAL_NS: (f64, f64) = (150_000.0, 1_000_000.0);

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::YIELD;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    const REASON_NAMES: &'static [&'static str] =
        names!(yielding::Parameters: competitors, competitor_kind, competitor_policy, competitor_rank);
    const REASON_NAMES_CONDITIONS: bool = true;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        let method = self.methods[self.cells[cell].method];
        CellId::of_call(method.name, method.call, Experiment::Yield(Typed::asked(self.parameters(cell))))
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| match cell.competitors {
            0 => CellCost { ideal_ns: IDEAL_NS.0, expected_ns: USUAL_NS.0 },
            _ => CellCost { ideal_ns: IDEAL_NS.1, expected_ns: USUAL_NS.1 },
        };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    fn place(&self) -> Place {
        let competes = |spec: &CompetitorSpec| spec.policy.as_ref().is_some_and(Policy::is_real_time);
        let real_time = self.request.is_real_time() || self.specs.iter().any(competes);
        Place { cpus: vec![self.cpu], real_time }
    }

    fn prepare(&mut self, _: &mut Session<'_>) -> Result<(), Error> {
        self.observed = self.methods.iter().map(|method| methods::system_calls_in_words(method)).collect();
        Ok(())
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("its share of the time did not pay for one call", more_time())
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Extra> {
        let gather = |(index, spec): (usize, &CompetitorSpec)| {
            Crowd::gather(spec.kind, self.most_of(index), &spec.conditions(self.cpu), spec.restraint())
        };
        let crowds = self.specs.iter().enumerate().map(gather).collect();
        Ok(Box::new(move |_| Ok(Box::new(YieldBench::open(self, crowds)))))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let experiment = |metrics| Experiment::Yield(Typed { parameters: self.parameters(cell), metrics });
        let extra = measured.extra;
        let metrics = metrics(self.cells[cell].competitors, extra, &self.observed[self.cells[cell].method]);
        let mut calls = measured.series(measured.tally, Quantity::CallCost, experiment(metrics));
        if self.cells[cell].competitors > 0 {
            Shares::enter(&extra.shares, self.cells[cell].competitors + 1, &mut calls);
        }
        let mut series = vec![calls];
        if extra.away.count() > 0 {
            series.push(measured.series(&extra.away, Quantity::Away, experiment(yielding::Metrics::default())));
        }
        Report::with_series(series)
    }
}

impl Plan {
    fn parameters(&self, cell: usize) -> yielding::Parameters {
        let cell = &self.cells[cell];
        let spec = cell.spec.map(|spec| &self.specs[spec]);
        yielding::Parameters {
            competitors: cell.competitors,
            competitor_kind: spec.map(|spec| spec.kind),
            competitor_policy: spec.map(CompetitorSpec::label),
            competitor_rank: spec.map(|spec| spec.rank),
        }
    }
}

/// The results that are no distribution.
fn metrics(competitors: u32, extra: &Extra, observed: &str) -> yielding::Metrics {
    let sums = &extra.sums;
    let per = |sum: f64, all: f64| Some(sum / all).filter(|share| share.is_finite());
    let mut bare = extra.bare_ns.clone();
    bare.sort_by(f64::total_cmp);
    let bare_cpu_ns = per(sums.bare_cpu.exact_ns as f64, sums.bare_calls as f64);
    let user = user_share(sums.bare_cpu, tick_ns().unwrap_or(i64::MAX));
    yielding::Metrics {
        observed: Some(observed.to_owned()),
        bare_ns: bare.get(bare.len() / 2).copied(),
        bare_cpu_ns,
        user_ns_per_op: bare_cpu_ns.zip(user).map(|(ns, user)| ns * user),
        system_ns_per_op: bare_cpu_ns.zip(user).map(|(ns, user)| ns * (1.0 - user)),
        yielded_share: per(sums.calls_with_competitor as f64, sums.calls as f64).filter(|_| competitors > 0),
        competitor_cpu_share: sums.shares.competitors().filter(|_| competitors > 0),
        own_cpu_share: sums.shares.own().filter(|_| competitors > 0),
    }
}

/// The widest half of a 95 % interval that a share of user mode may have.
const SPLIT_ERROR: f64 = 0.2;

/// The share of user mode. Most kernels sample it: each tick counts as user or as system time, whole. `None` where the
/// ticks are too few for [`SPLIT_ERROR`], by the interval of E. B. Wilson (1927).
fn user_share(cpu: CpuClocks, tick_ns: i64) -> Option<f64> {
    const Z: f64 = 1.96;
    let ticks = cpu.sampled_ns as f64 / tick_ns as f64;
    let share = (cpu.user_ns as f64 / cpu.sampled_ns as f64).clamp(0.0, 1.0);
    let half = Z * (share * (1.0 - share) / ticks + (Z / (2.0 * ticks)).powi(2)).sqrt() / (1.0 + Z * Z / ticks);
    (half <= SPLIT_ERROR).then_some(share)
}

/// Length of a slice of the bare loop, ns. A few interruptions do not change the median of the slices. Two clock
/// readings are less than a thousandth of a slice.
const SLICE_NS: f64 = 200_000.0;

/// A real-time load rests after this much CPU time, as [`punctual::RtThrottle`] does.
const REST_AFTER_NS: u64 = 50_000_000;

/// Longest time of all calls beyond a number of samples: a part of what that may take longer than announced. Of a time it is a tenth.
const SPARE: Duration = Duration::from_secs(10);

/// Shortest time of calls in a cell's pilot.
const REHEARSAL_NS: u64 = 2_000_000;

/// A cell's results beside the durations of its calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    /// Durations of the calls during which a competitor ran.
    away: SeriesTally,
    /// Cost of a call in the bare loop, ns, for each round.
    bare_ns: Vec<f64>,
    /// Who had the CPU, for each round.
    shares: Vec<Shares>,
    sums: Sums,
}

/// Sums over all rounds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    calls: u64,
    calls_with_competitor: u64,
    shares: Shares,
    /// Calls in bare loops, and the CPU time of these loops.
    bare_calls: u64,
    bare_cpu: CpuClocks,
}

impl Sums {
    /// Adds a batch to the ones before.
    fn add(&mut self, batch: &Self) {
        self.calls += batch.calls;
        self.calls_with_competitor += batch.calls_with_competitor;
        self.shares.add(batch.shares);
        self.account(batch.bare_calls, (CpuClocks::default(), batch.bare_cpu));
    }

    /// Adds the CPU time of bare loops, by the clocks before and after them.
    fn account(&mut self, calls: u64, (before, after): (CpuClocks, CpuClocks)) {
        self.bare_calls += calls;
        self.bare_cpu.exact_ns += after.exact_ns - before.exact_ns;
        self.bare_cpu.user_ns += after.user_ns - before.user_ns;
        self.bare_cpu.sampled_ns += after.sampled_ns - before.sampled_ns;
    }
}

/// The ways to yield, opened on the measuring thread, and their competitors.
struct YieldBench<'a> {
    plan: &'a Plan,
    yielders: Vec<Opened<dyn Yielder>>,
    /// The competitors, indexed like [`Plan::specs`].
    crowds: Vec<Result<Crowd, Failure>>,
    /// The last batch's results beside its samples, until it counts.
    last: Option<(Sums, Option<f64>)>,
    away: Recorder,
    /// Calls beyond those asked for, which only show the shares of the CPU.
    further: [Recorder; 2],
    /// Time of such calls that this run may still spend.
    spare_ns: i64,
    /// CPU time of caller and competitors since the last rest.
    unrested_ns: u64,
    /// In the pilot round.
    rehearsing: bool,
}

impl<'a> YieldBench<'a> {
    /// Opens every method of the plan on the calling thread.
    fn open(plan: &'a Plan, crowds: Vec<Result<Crowd, Failure>>) -> Self {
        let yielders = plan.methods.iter().map(|m| (m.open)()).collect();
        let spare = match plan.request.amount {
            Amount::Samples(_) => SPARE,
            Amount::Time(time) => time / 10,
        };
        Self {
            plan,
            yielders,
            crowds,
            last: None,
            away: Recorder::new(),
            further: [Recorder::new(), Recorder::new()],
            spare_ns: spare.as_nanos() as i64,
            unrested_ns: 0,
            rehearsing: true,
        }
    }

    /// Lets the cell's competitors work, and all others rest.
    fn set_the_scene(&mut self, at: &Cell) -> Result<(), Failure> {
        for (index, crowd) in self.crowds.iter_mut().enumerate() {
            let wanted = if at.spec == Some(index) { at.competitors } else { 0 };
            match crowd {
                Ok(crowd) => crowd.set_working(wanted)?,
                Err(failure) if wanted > 0 => return Err(failure.clone()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn crowd(&mut self, at: &Cell) -> Option<&mut Crowd> {
        self.crowds.get_mut(at.spec?)?.as_mut().ok()
    }

    /// The pilot: as many calls as fit into a few milliseconds, because three calls of some nanoseconds show nothing.
    /// The elapsed time it reports is scaled to `operations` calls.
    fn rehearse(&mut self, at: &Cell, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let operations = operations.max(1);
        let mut n = operations;
        loop {
            let used = self.measure(at, n, into)?.0;
            let each = (used.elapsed_ns / n).max(1);
            if used.elapsed_ns >= REHEARSAL_NS {
                return Ok(Usage { elapsed_ns: each * operations, ..used });
            }
            n = (2 * REHEARSAL_NS / each).clamp(n + 1, n.saturating_mul(64));
        }
    }

    /// The stretches of one batch.
    fn measure(&mut self, at: &Cell, operations: u64, into: &mut Recorder) -> Result<(Usage, Sums, Vec<f64>), Failure> {
        let (mut total, mut sums, mut bare) = (Sum::default(), Sums::default(), Vec::new());
        let warmup = self.plan.request.warmup.into();
        ready(&mut self.yielders[at.method])?.repeat(warmup);
        let (mut to_go, mut stretch) = (operations, 1);
        while to_go > 0 {
            let n = stretch.min(to_go);
            if at.competitors == 0 {
                repeat(ready(&mut self.yielders[at.method])?, n, &mut bare, &mut sums)?;
            }
            let used = self.stretch(at, n, into, &mut sums)?;
            stretch = next_stretch(n, used.elapsed_ns);
            total.add(used);
            to_go -= n;
        }
        if at.competitors > 0 && !self.rehearsing {
            self.go_on(at, stretch, &mut sums)?;
        }
        Ok((total.usage(), sums, bare))
    }

    /// Few calls may fit into one time slice: then either side has the whole CPU. Further calls make several slices of it.
    fn go_on(&mut self, at: &Cell, mut stretch: u64, sums: &mut Sums) -> Result<(), Failure> {
        while !sums.shares.show(at.competitors + 1) && self.spare_ns > 0 {
            let before_ns = sums.shares.elapsed_ns;
            let crowd = at.spec.and_then(|spec| self.crowds.get(spec)).and_then(|crowd| crowd.as_ref().ok());
            self.further.iter_mut().for_each(Recorder::clear);
            let [calls, away] = &mut self.further;
            let used = timed(ready(&mut self.yielders[at.method])?, stretch, crowd, (calls, away), sums)?;
            self.rest(at, used)?;
            stretch = next_stretch(stretch, used.elapsed_ns);
            self.spare_ns -= sums.shares.elapsed_ns - before_ns;
        }
        Ok(())
    }

    fn stretch(&mut self, at: &Cell, n: u64, into: &mut Recorder, sums: &mut Sums) -> Result<Usage, Failure> {
        let crowd = at.spec.and_then(|spec| self.crowds.get(spec)).and_then(|crowd| crowd.as_ref().ok());
        let used = timed(ready(&mut self.yielders[at.method])?, n, crowd, (into, &mut self.away), sums)?;
        self.rest(at, used)?;
        Ok(used)
    }

    /// If caller or competitors are real-time threads, lets others have the CPU: a break of 5 % after each 50 ms.
    /// [`punctual::RtThrottle`] does the same for one thread; this is for caller and competitors together.
    fn rest(&mut self, at: &Cell, used: Usage) -> Result<(), Failure> {
        let theirs =
            at.spec.is_some_and(|spec| self.plan.specs[spec].policy.as_ref().is_some_and(Policy::is_real_time));
        if !theirs && !self.plan.request.variants[at.variant].is_real_time() {
            return Ok(());
        }
        self.unrested_ns += if theirs { used.elapsed_ns } else { used.cpu_ns.unwrap_or(used.elapsed_ns) };
        if self.unrested_ns < REST_AFTER_NS {
            return Ok(());
        }
        if theirs {
            self.set_the_scene(&Cell { spec: None, competitors: 0, ..*at })?;
        }
        std::thread::sleep(Duration::from_nanos(self.unrested_ns / 20));
        self.unrested_ns = 0;
        if theirs { self.set_the_scene(at) } else { Ok(()) }
    }
}

impl Bench for YieldBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let against = match cell.competitors {
            0 => "alone".to_owned(),
            1 => "with 1 competitor".to_owned(),
            n => format!("with {n} competitors"),
        };
        format!(
            "{} {against} ({})",
            self.plan.methods[cell.method].name, self.plan.request.variants[cell.variant].label
        )
    }

    fn begin(&mut self) {
        self.rehearsing = false;
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let at = self.plan.cells[cell];
        self.away.clear();
        self.set_the_scene(&at)?;
        if self.rehearsing {
            let learnt = self.rehearse(&at, operations, into);
            self.set_the_scene(&Cell { spec: None, competitors: 0, ..at })?;
            return learnt;
        }
        let measured = self.measure(&at, operations, into);
        // A competitor that died in between makes the figures those of another case.
        let alive = self.crowd(&at).map_or(Ok(()), Crowd::all_alive);
        let members = self.crowd(&at).map(|crowd| crowd.process_ids()).unwrap_or_default();
        let label = &self.plan.request.variants[at.variant].label;
        let moved = moved_away(label, &members, self.plan.cpu, "a competitor");
        self.set_the_scene(&Cell { spec: None, competitors: 0, ..at })?;
        if !moved.is_empty() && !matches!(measured, Err(Failure::Stopped)) {
            return Err(Failure::Lost(moved));
        }
        let (usage, mut sums, bare) = measured?;
        alive?;
        sums.calls = into.count();
        sums.calls_with_competitor = self.away.count();
        // Only the later half of the slices, the long ones: the first slices are single calls with cold caches.
        self.last = Some((sums, median(&bare[bare.len() / 2..])));
        Ok(usage)
    }

    fn keep(&mut self, _: usize, (round, started_ns): (u32, u64), extra: &mut Extra) {
        let Some((sums, bare_ns)) = self.last.take() else { return };
        extra.away.add_round(round, started_ns, &self.away, Usage::default());
        extra.bare_ns.extend(bare_ns);
        extra.shares.push(sums.shares);
        extra.sums.add(&sums);
    }
}

/// The bare loop: `n` calls in slices, each between two clock readings. Adds the cost of a call in each slice, ns.
fn repeat(yielder: &mut dyn Yielder, n: u64, costs: &mut Vec<f64>, sums: &mut Sums) -> Result<(), Failure> {
    let slice = costs.last().map_or(1, |ns| (SLICE_NS / ns.max(0.1)) as u64).max(1);
    let before = thread_cpu_clocks().ok();
    let mut to_go = n;
    while to_go > 0 {
        let calls = slice.min(to_go);
        let before = now_ns(Clock::Monotonic);
        yielder.repeat(calls);
        let took = now_ns(Clock::Monotonic) - before;
        costs.push(took as f64 / calls as f64);
        to_go -= calls;
    }
    if let Some(clocks) = before.zip(thread_cpu_clocks().ok()) {
        sums.account(n, clocks);
    }
    if punctual_linux::stop::requested() { Err(Failure::Stopped) } else { Ok(()) }
}

/// `n` calls, each timed, and the usage of the caller and its competitors meanwhile.
///
/// The CPU clocks are read within the span of the wall clock. All belong to one CPU: their sum cannot exceed it.
fn timed(
    yielder: &mut dyn Yielder,
    n: u64,
    crowd: Option<&Crowd>,
    (calls, away): (&mut Recorder, &mut Recorder),
    sums: &mut Sums,
) -> Result<Usage, Failure> {
    let lines = crowd.map_or(&[][..], Crowd::lines);
    let competitors_ns = || crowd.map_or(Ok(0), Crowd::cpu_ns);
    let begin = now_ns(Clock::Monotonic);
    let own = now_ns(Clock::ThreadCpu);
    let theirs = competitors_ns()?;
    let meter = Meter::start();
    let flow = yielder.timed(n, &mut Probe { competitors: lines, calls, away });
    let used = meter.stop();
    sums.shares.competitors_ns += competitors_ns()? - theirs;
    sums.shares.own_ns += now_ns(Clock::ThreadCpu) - own;
    sums.shares.elapsed_ns += now_ns(Clock::Monotonic) - begin;
    if flow.is_break() { Err(Failure::Stopped) } else { Ok(used) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_linux::clock::thread_usage;
    use punctual_record::experiment::yielding::{CompetitorKind, Rank};

    use super::*;
    use crate::frame::tests::{made_up_report, made_up_tally};
    use crate::frame::{Amount, Request as Frame};
    use methods;

    #[test]
    fn user_and_system_time_need_enough_ticks() {
        let share = |user: i64, ticks: i64| {
            user_share(CpuClocks { exact_ns: 0, user_ns: user * 4_000_000, sampled_ns: ticks * 4_000_000 }, 4_000_000)
        };
        assert_eq!((share(0, 0), share(1, 2), share(5, 10), share(0, 4)), (None, None, None, None));
        // The same number of ticks says more of a share near 0 or 1.
        assert_eq!((share(0, 8), share(8, 8), share(20, 40)), (Some(0.0), Some(1.0), Some(0.5)));
    }

    #[test]
    fn a_series_says_who_had_the_cpu() {
        let plan = Plan::new(Request {
            methods: vec![methods::find("sched_yield").unwrap()],
            competitors: vec![0, 2],
            kinds: vec![CompetitorKind::Thread],
            competitor_policies: vec![CompetitorPolicy::AsFound],
            competitor_nice: None,
            frame: Frame::as_found(Amount::Time(Duration::from_secs(1)), 3),
        });
        let plan = Plan { observed: vec!["sched_yield".into()], ..plan.unwrap() };
        let shares = Shares { elapsed_ns: 100_000_000, own_ns: 60_000_000, competitors_ns: 30_000_000 };
        let sums = Sums { calls: 4, calls_with_competitor: 1, shares, ..Sums::default() };
        let with_others = Extra { sums, away: made_up_tally(&[7]), shares: vec![shares], ..Extra::default() };
        let alone = Extra { bare_ns: vec![9.0, 5.0, 6.0], ..Extra::default() };
        let extras = [alone, with_others];
        let report = made_up_report(&plan, 0, &[10], &extras);
        let typed = report.series[0].experiment.yields().unwrap();
        assert_eq!((typed.parameters.competitors, typed.parameters.competitor_kind), (0, None));
        assert_eq!((typed.metrics.bare_ns, typed.metrics.yielded_share, report.series.len()), (Some(6.0), None, 1));
        let report = made_up_report(&plan, 1, &[10], &extras);
        let typed = report.series[0].experiment.yields().unwrap();
        assert_eq!(typed.parameters.competitor_kind, Some(CompetitorKind::Thread));
        assert_eq!(typed.parameters.competitor_rank, Some(Rank::Same));
        assert_eq!(typed.parameters.competitor_policy.as_deref(), Some("as found"));
        let metrics = &typed.metrics;
        assert_eq!(
            (metrics.yielded_share, metrics.competitor_cpu_share, metrics.own_cpu_share),
            (Some(0.25), Some(0.3), Some(0.6))
        );
        assert_eq!((metrics.user_ns_per_op, metrics.observed.as_deref()), (None, Some("sched_yield")));
        assert_eq!(report.series[1].quantity, Quantity::Away);
        let round = &report.series[0].rounds[0];
        assert_eq!((round.competitor_cpu_share, round.own_cpu_share), (Some(0.3), Some(0.6)));
    }

    /// The kernel brings `getrusage` up to date when the thread is switched out, and at ticks. A loop shorter than a tick,
    /// right after a sleep, therefore looked like no time at all.
    #[test]
    fn the_cpu_time_of_short_loops_adds_up() {
        let mut yielder = (methods::find("poll0").unwrap().open)().unwrap();
        let spent = |usage: punctual_linux::clock::Usage| usage.user_ns + usage.system_ns;
        let mut ratios: Vec<f64> = (0..100)
            .map(|_| {
                let mut sums = Sums::default();
                std::thread::sleep(Duration::from_micros(100));
                let before = spent(thread_usage().unwrap());
                repeat(yielder.as_mut(), 10_000, &mut Vec::new(), &mut sums).unwrap();
                // Switched out: now its usage is up to date.
                std::thread::sleep(Duration::from_micros(100));
                sums.bare_cpu.exact_ns as f64 / (spent(thread_usage().unwrap()) - before) as f64
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        // The rest is the sleeps' own: a few microseconds a loop. It is more on a busy machine or where a virtual machine stood still.
        // Usage that is not up to date lacks nearly everything of most loops.
        assert!((0.5..=1.1).contains(&ratios[50]), "of the CPU time was accounted: {ratios:?}");
    }
}

//! The measuring loop of `yield`.

use std::time::Duration;

use punctual::Policy;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::usage::{CpuClocks, thread_cpu_clocks};
use punctual_record::statistics::median;
use punctual_record::{Recorder, SeriesTally, Usage};

use super::plan::{Cell, Plan};
use crate::crowd::{Crowd, shows_shares};
use crate::frame::breaks::moved_away;
use crate::frame::error::{Opened, ready};
use crate::frame::figures::{Meter, Sum, next_stretch};
use crate::frame::{Amount, Bench, Failure};
use crate::ways::yielding::{Probe, Yielder};

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
    pub(super) away: SeriesTally,
    /// Cost of a call in the bare loop, ns, for each round.
    pub(super) bare_ns: Vec<f64>,
    /// Who had the CPU, for each round.
    pub(super) shares: Vec<Shares>,
    pub(super) sums: Sums,
}

/// Who had the CPU in a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares {
    pub(super) competitors: Option<f64>,
    /// Absent where the round was shorter than some time slices.
    pub(super) own: Option<f64>,
}

impl Shares {
    fn from_sums(sums: &Sums, competitors: u32) -> Self {
        let share = |ns: i64| Some(ns as f64 / sums.elapsed_ns as f64).filter(|share| share.is_finite());
        let own = share(sums.own_cpu_ns).filter(|_| shows_shares(sums.elapsed_ns, competitors + 1));
        Self { competitors: share(sums.competitors_cpu_ns), own }
    }
}

/// Sums over all rounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) calls_with_competitor: u64,
    pub(super) elapsed_ns: i64,
    pub(super) own_cpu_ns: i64,
    pub(super) competitors_cpu_ns: i64,
    /// Calls in bare loops, and the CPU time of these loops.
    pub(super) bare_calls: u64,
    pub(super) bare_cpu: CpuClocks,
}

impl Sums {
    /// Adds a batch to the ones before.
    fn add(&mut self, batch: &Self) {
        self.calls += batch.calls;
        self.calls_with_competitor += batch.calls_with_competitor;
        self.elapsed_ns += batch.elapsed_ns;
        self.own_cpu_ns += batch.own_cpu_ns;
        self.competitors_cpu_ns += batch.competitors_cpu_ns;
        self.account(batch.bare_calls, batch.bare_cpu);
    }

    /// Adds the CPU time of a bare loop.
    fn account(&mut self, calls: u64, cpu: CpuClocks) {
        self.bare_calls += calls;
        self.bare_cpu.exact_ns += cpu.exact_ns;
        self.bare_cpu.user_ns += cpu.user_ns;
        self.bare_cpu.sampled_ns += cpu.sampled_ns;
    }
}

/// The ways to yield, opened on the measuring thread, and their competitors.
pub(super) struct YieldBench<'a> {
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
    pub(super) fn open(plan: &'a Plan, crowds: Vec<Result<Crowd, Failure>>) -> Self {
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
        while !shows_shares(sums.elapsed_ns, at.competitors + 1) && self.spare_ns > 0 {
            let before_ns = sums.elapsed_ns;
            let crowd = at.spec.and_then(|spec| self.crowds.get(spec)).and_then(|crowd| crowd.as_ref().ok());
            self.further.iter_mut().for_each(Recorder::clear);
            let [calls, away] = &mut self.further;
            let used = timed(ready(&mut self.yielders[at.method])?, stretch, crowd, (calls, away), sums)?;
            self.rest(at, used)?;
            stretch = next_stretch(stretch, used.elapsed_ns);
            self.spare_ns -= sums.elapsed_ns - before_ns;
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

    fn keep(&mut self, cell: usize, (round, started_ns): (u32, u64), extra: &mut Extra) {
        let Some((sums, bare_ns)) = self.last.take() else { return };
        extra.away.add_round(round, started_ns, &self.away, Usage::default());
        extra.bare_ns.extend(bare_ns);
        extra.shares.push(Shares::from_sums(&sums, self.plan.cells[cell].competitors));
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
    if let Some((before, after)) = before.zip(thread_cpu_clocks().ok()) {
        let spent = CpuClocks {
            exact_ns: after.exact_ns - before.exact_ns,
            user_ns: after.user_ns - before.user_ns,
            sampled_ns: after.sampled_ns - before.sampled_ns,
        };
        sums.account(n, spent);
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
    sums.competitors_cpu_ns += competitors_ns()? - theirs;
    sums.own_cpu_ns += now_ns(Clock::ThreadCpu) - own;
    sums.elapsed_ns += now_ns(Clock::Monotonic) - begin;
    if flow.is_break() { Err(Failure::Stopped) } else { Ok(used) }
}

#[cfg(test)]
mod tests {
    use punctual_linux::usage::thread_usage;

    use super::*;
    use crate::families::yielding::methods;

    /// Within a slice either side has the whole CPU: such a round says nothing of shares.
    #[test]
    fn a_round_shorter_than_some_slices_has_no_shares() {
        let of = |ms: i64, competitors| {
            let sums = Sums {
                elapsed_ns: ms * 1_000_000,
                own_cpu_ns: ms * 250_000,
                competitors_cpu_ns: ms * 500_000,
                ..Sums::default()
            };
            let Shares { own, competitors } = Shares::from_sums(&sums, competitors);
            (own, competitors)
        };
        assert_eq!(of(40, 1), (Some(0.25), Some(0.5)));
        assert_eq!((of(39, 1), of(40, 2), of(60, 2)), ((None, Some(0.5)), (None, Some(0.5)), (Some(0.25), Some(0.5))));
        assert_eq!(of(0, 1), (None, None));
    }

    /// The kernel brings `getrusage` up to date when the thread is switched out, and at ticks. A loop shorter than a tick,
    /// right after a sleep, therefore looked like no time at all.
    #[test]
    fn the_cpu_time_of_short_loops_adds_up() {
        let mut yielder = (methods::find("poll0").unwrap().open)().unwrap();
        let spent = |usage: punctual_linux::usage::Usage| usage.user_ns + usage.system_ns;
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

//! The measuring loop of `yield`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::Policy;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::usage::thread_usage;
use punctual_record::{Recorder, SeriesTally, Usage};

use super::method::{Probe, Unavailable, Yielder};
use super::plan::{Cell, Plan};
use crate::crowd::Crowd;
use crate::hold;
use crate::rounds::{Bench, Failure};
use crate::usage::{Meter, Sum};

/// Longest stretch of calls between two looks at whether others need the CPU: a fifth of what a terminal user notices.
const STRETCH: Duration = Duration::from_millis(20);

/// The bare loop of a stretch is timed in slices of so many nanoseconds, the median of which is not moved by a few interruptions; two
/// clock readings are less than a thousandth of it.
const SLICE_NS: f64 = 200_000.0;

/// A real-time load rests after so much CPU time: what [`punctual::Breather`] does.
const REST_AFTER_NS: u64 = 50_000_000;

/// How long the pilot of a cell calls at least.
const REHEARSAL_NS: u64 = 2_000_000;

/// What a cell yields besides the durations of its calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Extra {
    /// Durations of the calls during which a competitor ran.
    pub(super) away: SeriesTally,
    /// Cost of a call in the bare loop, ns, round by round.
    pub(super) bare_ns: Vec<f64>,
    pub(super) sums: Sums,
}

/// Sums over all rounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) rounds: u32,
    pub(super) calls: u64,
    pub(super) calls_with_competitor: u64,
    pub(super) elapsed_ns: i64,
    pub(super) own_cpu_ns: i64,
    pub(super) competitors_cpu_ns: i64,
    /// Calls over which user and system time were taken.
    pub(super) accounted_calls: u64,
    pub(super) user_ns: i64,
    pub(super) system_ns: i64,
}

impl Sums {
    /// Of one batch to those before.
    fn add(&mut self, batch: &Self) {
        self.rounds += 1;
        self.calls += batch.calls;
        self.calls_with_competitor += batch.calls_with_competitor;
        self.elapsed_ns += batch.elapsed_ns;
        self.own_cpu_ns += batch.own_cpu_ns;
        self.competitors_cpu_ns += batch.competitors_cpu_ns;
        self.accounted_calls += batch.accounted_calls;
        self.user_ns += batch.user_ns;
        self.system_ns += batch.system_ns;
    }
}

/// The extras of all cells, seen by two threads.
pub(super) type SharedExtras = Arc<Mutex<Vec<Extra>>>;

pub(super) fn lock(extras: &SharedExtras) -> MutexGuard<'_, Vec<Extra>> {
    extras.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ways to yield, opened on the measuring thread, and their competitors.
pub(super) struct YieldBench<'a> {
    plan: &'a Plan,
    yielders: Vec<Result<Box<dyn Yielder>, Unavailable>>,
    /// By [`Plan::sorts`].
    crowds: Vec<Result<Crowd, Failure>>,
    extras: SharedExtras,
    /// What the last batch brought beside its samples, until it is known to count.
    last: Option<(Sums, Option<f64>)>,
    away: Recorder,
    /// CPU time of caller and competitors since the last rest.
    unrested_ns: u64,
    /// Still in the pilot round.
    rehearsing: bool,
}

impl<'a> YieldBench<'a> {
    /// Opens every method of the plan on the calling thread.
    pub(super) fn open(plan: &'a Plan, crowds: Vec<Result<Crowd, Failure>>, extras: SharedExtras) -> Self {
        let yielders = plan.methods.iter().map(|m| (m.open)()).collect();
        Self { plan, yielders, crowds, extras, last: None, away: Recorder::new(), unrested_ns: 0, rehearsing: true }
    }

    /// Lets the cell's competitors work, and all others rest.
    fn set_the_scene(&mut self, at: &Cell) -> Result<(), Failure> {
        for (index, crowd) in self.crowds.iter_mut().enumerate() {
            let wanted = if at.sort == Some(index) { at.competitors } else { 0 };
            match crowd {
                Ok(crowd) => crowd.set_working(wanted)?,
                Err(failure) if wanted > 0 => return Err(failure.clone()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn crowd(&mut self, at: &Cell) -> Option<&mut Crowd> {
        self.crowds.get_mut(at.sort?)?.as_mut().ok()
    }

    /// The pilot: as many calls as fit into a few milliseconds, since three of them tell nothing of a call that takes nanoseconds. What they
    /// used is told as for `operations` of them.
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
        let warmup = self.plan.warmup.into();
        self.yielder(at)?.repeat(warmup);
        let (mut to_go, mut stretch) = (operations, 1);
        while to_go > 0 {
            let n = stretch.min(to_go);
            if at.competitors == 0 {
                repeat(self.yielder(at)?, n, &mut bare, &mut sums)?;
            }
            let used = self.stretch(at, n, into, &mut sums)?;
            self.rest(at, used)?;
            let each = (used.elapsed_ns / n).max(1);
            stretch = (STRETCH.as_nanos() as u64 / each).clamp(1, n.saturating_mul(8));
            total.add(used);
            to_go -= n;
        }
        Ok((total.usage(), sums, bare))
    }

    fn yielder(&mut self, at: &Cell) -> Result<&mut dyn Yielder, Failure> {
        match &mut self.yielders[at.method] {
            Ok(yielder) => Ok(yielder.as_mut()),
            Err(no) => Err(Failure::Impossible { why: no.why.clone(), remedy: no.remedy.clone() }),
        }
    }

    fn stretch(&mut self, at: &Cell, n: u64, into: &mut Recorder, sums: &mut Sums) -> Result<Usage, Failure> {
        let crowd = at.sort.and_then(|sort| self.crowds.get(sort)).and_then(|crowd| crowd.as_ref().ok());
        match &mut self.yielders[at.method] {
            Ok(yielder) => timed(yielder.as_mut(), n, crowd, (into, &mut self.away), sums),
            Err(no) => Err(Failure::Impossible { why: no.why.clone(), remedy: no.remedy.clone() }),
        }
    }

    /// Where caller or competitors are real-time threads, lets all others have the CPU for a while: a break of 5 % after each 50 ms, as
    /// [`punctual::Breather`] does, but for caller and competitors together.
    fn rest(&mut self, at: &Cell, used: Usage) -> Result<(), Failure> {
        let theirs =
            at.sort.is_some_and(|sort| self.plan.sorts[sort].policy.as_ref().is_some_and(Policy::is_real_time));
        if !theirs && !self.plan.variants[at.variant].is_real_time() {
            return Ok(());
        }
        self.unrested_ns += if theirs { used.elapsed_ns } else { used.cpu_ns.unwrap_or(used.elapsed_ns) };
        if self.unrested_ns < REST_AFTER_NS {
            return Ok(());
        }
        if theirs {
            self.set_the_scene(&Cell { sort: None, competitors: 0, ..*at })?;
        }
        std::thread::sleep(Duration::from_nanos(self.unrested_ns / 20));
        self.unrested_ns = 0;
        if theirs { self.set_the_scene(at) } else { Ok(()) }
    }
}

impl Bench for YieldBench<'_> {
    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let against = match cell.competitors {
            0 => "alone".to_owned(),
            1 => "with 1 competitor".to_owned(),
            n => format!("with {n} competitors"),
        };
        format!("{} {against} ({})", self.plan.methods[cell.method].name, self.plan.variants[cell.variant].label)
    }

    fn variant(&self, cell: usize) -> usize {
        self.plan.cells[cell].variant
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
            self.set_the_scene(&Cell { sort: None, competitors: 0, ..at })?;
            return learnt;
        }
        let measured = self.measure(&at, operations, into);
        // A competitor that died in between makes the figures those of another case.
        let alive = self.crowd(&at).map_or(Ok(()), Crowd::all_alive);
        let members = self.crowd(&at).map(|crowd| crowd.process_ids()).unwrap_or_default();
        let moved = hold::moved(&members, self.plan.cpu, "a competitor");
        self.set_the_scene(&Cell { sort: None, competitors: 0, ..at })?;
        if !moved.is_empty() && !matches!(measured, Err(Failure::Stopped)) {
            return Err(Failure::Lost(moved));
        }
        let (usage, mut sums, mut bare) = measured?;
        alive?;
        sums.calls = into.count();
        sums.calls_with_competitor = self.away.count();
        self.last = Some((sums, median(&mut bare)));
        Ok(usage)
    }

    fn keep(&mut self, cell: usize) {
        let Some((sums, bare_ns)) = self.last.take() else { return };
        let extra = &mut lock(&self.extras)[cell];
        let round = extra.sums.rounds;
        extra.away.add_round(round, 0, &self.away, Usage::default());
        extra.bare_ns.extend(bare_ns);
        extra.sums.add(&sums);
    }
}

/// The bare loop: `n` calls, slice by slice between two clock readings. Adds what one call of each slice cost, in ns.
fn repeat(yielder: &mut dyn Yielder, n: u64, costs: &mut Vec<f64>, sums: &mut Sums) -> Result<(), Failure> {
    let slice = costs.last().map_or(1, |ns| (SLICE_NS / ns.max(0.1)) as u64).max(1);
    let usage = thread_usage().ok();
    let mut to_go = n;
    while to_go > 0 {
        let calls = slice.min(to_go);
        let before = now_ns(Clock::Monotonic);
        yielder.repeat(calls);
        let took = now_ns(Clock::Monotonic) - before;
        costs.push(took as f64 / calls as f64);
        to_go -= calls;
    }
    account(usage, n, sums);
    if punctual_linux::stop::requested() { Err(Failure::Stopped) } else { Ok(()) }
}

fn account(before: Option<punctual_linux::usage::Usage>, n: u64, sums: &mut Sums) {
    if let Some((before, after)) = before.zip(thread_usage().ok()) {
        sums.accounted_calls += n;
        sums.user_ns += after.user_ns - before.user_ns;
        sums.system_ns += after.system_ns - before.system_ns;
    }
}

/// `n` calls, each timed, and what was used meanwhile by the caller and its competitors.
///
/// The CPU clocks are read within the span of the wall clock, and all of them belong to one CPU: together they cannot exceed
/// it.
fn timed(
    yielder: &mut dyn Yielder,
    n: u64,
    crowd: Option<&Crowd>,
    (calls, away): (&mut Recorder, &mut Recorder),
    sums: &mut Sums,
) -> Result<Usage, Failure> {
    let lines = crowd.map_or(&[][..], Crowd::lines);
    let competitors_ns = || crowd.map_or(Ok(0), Crowd::cpu_ns);
    let usage = crowd.and_then(|_| thread_usage().ok());
    let begin = now_ns(Clock::Monotonic);
    let own = now_ns(Clock::ThreadCpu);
    let theirs = competitors_ns()?;
    let meter = Meter::start();
    let flow = yielder.timed(n, &mut Probe { competitors: lines, calls, away });
    let used = meter.stop();
    sums.competitors_cpu_ns += competitors_ns()? - theirs;
    sums.own_cpu_ns += now_ns(Clock::ThreadCpu) - own;
    sums.elapsed_ns += now_ns(Clock::Monotonic) - begin;
    if crowd.is_some() {
        account(usage, n, sums);
    }
    if flow.is_break() { Err(Failure::Stopped) } else { Ok(used) }
}

/// Of the later half of the slices, which are the long ones: the first of them are single calls with cold caches.
fn median(slices: &mut Vec<f64>) -> Option<f64> {
    let mut later = slices.split_off(slices.len() / 2);
    later.sort_by(f64::total_cmp);
    later.get(later.len() / 2).copied()
}

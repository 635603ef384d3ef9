//! Watching the measuring thread and its children: why they wake up late ([`Watching`]), and the CPU on which that can be seen ([`Sight`]).
//!
//! Figures come from rounds that are not watched, causes from rounds that are. Two rounds make a pair. The order within
//! a pair alternates, so that drift does not look like an effect of watching. A watched batch is performed in pieces,
//! and the thread itself reads the kernel's rings in between: no other thread runs while the clock does. Pieces are
//! small, since small rings stay in the CPU's cache: the events of a wake-up then cost a third less.
//!
//! A [`Tracer`], such as the writer of a trace, sees the events of the watched rounds too.
//!
//! A CPU that was offline may hide the events of its idle thread (a kernel's static calls are patched on online CPUs only). There, no
//! wake-up can be split, since it is not known when the CPU left its idle state.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use punctual_linux::clock::thread_run_delay_ns;
use punctual_linux::{child, sched};
use punctual_record::{CauseSource, Causes, Notice, Program, Recorder, Usage};
use punctual_trace::{Batch, Error, Level, Room, Target, Watch};

use super::error::{Failure, WAKE_UPS, without};
use super::figures::{Sum, watch_effect};
use super::plan::Watched;

/// Most operations of a piece: of ten to twenty events each, a third of a ring.
const PIECE: u64 = 64;
/// Longest piece: others fill the rings too.
const PIECE_NS: f64 = 2e7;
/// Most pieces of a batch: its causes need no more wake-ups.
const PIECES: u64 = 80;

/// Longest time for opening and closing the events. Closing one waits until all CPUs have left it
/// (tracepoint_synchronize_unregister). That takes some 50 ms on a busy machine, and 0.7 s on an emulated one with
/// PREEMPT_RT.
const AROUND: Duration = Duration::from_secs(60);

/// The watch over the measuring thread, if it is watched.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    wanted: Watched,
    /// `None` until the pilot is over.
    watch: Option<Result<Watch, Error>>,
    /// Sees the events too.
    tracer: Option<Box<dyn Tracer>>,
    /// By cell: the first round of a pair and its p50.
    halves: BTreeMap<usize, (u32, f64)>,
    /// Watched p50 less unwatched p50 of a pair, ns.
    differences: Vec<f64>,
    /// The scheduler's account of the measuring thread in the watched rounds, and its time of waiting for a CPU.
    own: Sum,
    run_delay_ns: Option<u64>,
}

impl Watching {
    pub(crate) fn new(wanted: Watched, tracer: Option<Box<dyn Tracer>>) -> Self {
        Self { wanted, tracer, ..Self::default() }
    }

    fn is_wanted(&self) -> bool {
        self.wanted != Watched::Never
    }

    /// Whether nothing that is wanted can be found out.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.wanted == Watched::ForCauses && matches!(self.watch, Some(Err(_)))
    }

    /// The time by which it prolongs a run.
    pub(crate) fn takes(&self) -> Duration {
        if self.is_wanted() { AROUND } else { Duration::ZERO }
    }

    /// Opens the events of the calling thread, and of the processes and threads that it has started.
    pub(crate) fn open(&mut self) {
        if self.is_wanted() {
            let target = Target { tids: family(), with_children: true };
            let watch = Watch::open(&target, Level::Causes, Room::Small);
            if let (Ok(_), Some(tracer)) = (&watch, &mut self.tracer) {
                tracer.begin(&target);
            }
            self.watch = Some(watch);
        }
    }

    /// Whether this round is watched.
    pub(crate) fn is_due(&self, round: u32) -> bool {
        self.watch.is_some() && matches!(round % 4, 1 | 2)
    }

    /// The number of this round among those that are not watched.
    pub(crate) fn figures_of(&self, round: u32) -> u32 {
        if self.is_wanted() { round / 2 } else { round }
    }

    /// Most operations of a batch of this round.
    pub(crate) fn most(&self, round: u32, cost_ns: f64) -> u64 {
        if self.is_due(round) { piece(cost_ns) * PIECES } else { u64::MAX }
    }

    /// Performs a batch, watched if its round is.
    pub(crate) fn batch(
        &mut self,
        (round, nominal_ns): (u32, Option<u64>),
        (operations, cost_ns): (u64, f64),
        perform: &mut dyn FnMut(u64) -> Result<Usage, Failure>,
    ) -> Result<Usage, Failure> {
        if !self.is_due(round) {
            return perform(operations);
        }
        self.switch(true, nominal_ns);
        let done = self.pieces(operations, cost_ns, perform);
        self.switch(false, nominal_ns);
        done
    }

    fn pieces(
        &mut self,
        operations: u64,
        cost_ns: f64,
        perform: &mut dyn FnMut(u64) -> Result<Usage, Failure>,
    ) -> Result<Usage, Failure> {
        let (mut sum, mut left) = (Sum::default(), operations);
        while left > 0 {
            let n = left.min(piece(cost_ns));
            let before = thread_run_delay_ns();
            let used = perform(n)?;
            let waited = before.zip(thread_run_delay_ns()).map(|(before, after)| after.saturating_sub(before));
            self.run_delay_ns = waited.map(|more| self.run_delay_ns.unwrap_or(0) + more).or(self.run_delay_ns);
            self.own.add(used);
            self.read();
            sum.add(used);
            left -= n;
        }
        Ok(sum.usage())
    }

    /// Takes in what the rings hold.
    fn read(&mut self) {
        let Self { watch: Some(Ok(watch)), tracer, .. } = self else { return };
        if let Err(error) = watch.pump(Duration::ZERO, &mut |batch| trace(tracer, batch)) {
            self.watch = Some(Err(error));
        }
    }

    fn switch(&mut self, on: bool, nominal_ns: Option<u64>) {
        let Self { watch: Some(Ok(watch)), tracer, .. } = self else { return };
        if on {
            watch.mark(nominal_ns);
        }
        if let Err(error) = watch.switch_and(on, &mut |batch| trace(tracer, batch)) {
            self.watch = Some(Err(error));
        }
    }

    /// Enters what a batch measured. Calls that do not give up the CPU wake nobody: they say nothing of the effect.
    pub(crate) fn compare(&mut self, cell: usize, round: u32, recorder: &Recorder, usage: Usage) {
        let count = recorder.count();
        let gave_up = usage.voluntary.is_some_and(|switches| switches * 2 > count);
        let Some(p50) = recorder.value_at_rank(count.div_ceil(2)).filter(|_| self.watch.is_some() && gave_up) else {
            return;
        };
        match self.halves.remove(&cell) {
            Some((before, first)) if before / 2 == round / 2 => {
                let difference = if self.is_due(round) { p50 as f64 - first } else { first - p50 as f64 };
                self.differences.push(difference);
            }
            _ => drop(self.halves.insert(cell, (round, p50 as f64))),
        }
    }

    /// The causes, and the notice of a refusal.
    pub(crate) fn end(self) -> (Option<Causes>, Option<Notice>) {
        match self.watch {
            None => (None, None),
            Some(Ok(mut watch)) => (Some(Causes { effect: watch_effect(&self.differences), ..watch.causes() }), None),
            Some(Err(error)) if self.wanted == Watched::ForCauses => {
                (None, Some(Notice::Unseen(without("causes of late wake-ups", &error))))
            }
            Some(Err(error)) => {
                let (missing, own) = (without(WAKE_UPS, &error), self.own.usage());
                let program = Program {
                    name: "punctual".into(),
                    pid: std::process::id(),
                    threads: 1,
                    cpu_ns: Some(own.cpu_ns.unwrap_or(0)),
                    run_delay_ns: self.run_delay_ns,
                    status: None,
                };
                let causes = Causes {
                    program: Some(program),
                    source: CauseSource::RunDelay,
                    watched_ns: own.elapsed_ns,
                    wake_ups: own.voluntary.unwrap_or(0),
                    missing: vec![missing.clone()],
                    ..Causes::default()
                };
                (Some(causes), Some(Notice::Unseen(missing)))
            }
        }
    }
}

fn trace(tracer: &mut Option<Box<dyn Tracer>>, batch: &Batch) {
    tracer.iter_mut().for_each(|tracer| tracer.take(batch));
}

/// Operations of a piece.
fn piece(cost_ns: f64) -> u64 {
    (PIECE_NS / cost_ns.max(1.0)).clamp(1.0, PIECE as f64) as u64
}

/// The calling thread, the threads that this process started after it, and the threads of its children.
fn family() -> Vec<i32> {
    let own = sched::current_thread_id();
    let mut family = sched::threads_of(std::process::id().cast_signed());
    family.retain(|tid| *tid >= own);
    family.extend(child::ids().into_iter().flat_map(sched::threads_of));
    if !family.contains(&own) {
        family.push(own);
    }
    family
}

/// Takes events on the measuring thread, while no clock runs.
pub trait Tracer: fmt::Debug + Send {
    /// These threads are watched from now on.
    fn begin(&mut self, target: &Target);

    /// The records since the last call.
    fn take(&mut self, batch: &Batch);
}

/// Most CPUs that are looked at.
const CPUS: usize = 8;
/// Sleeps until a CPU has shown its idle thread, or not, and how often that is looked at.
const SLEEPS: u32 = 20;
const LOOKS: u32 = 5;
const SLEEP: Duration = Duration::from_micros(200);

/// The result of a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// The CPU to watch on.
    pub cpu: usize,
    /// Those that were looked at and hide their idle thread.
    pub hidden: Vec<usize>,
}

/// Looks at the CPUs that this process may use, from the last one: the first ones serve most interrupts. `None`: the kernel shows no
/// events, no thread can be started, or all CPUs hide their idle thread. The CPUs that hide it may differ with the room. Own waits
/// (`Small`) and other programs (`Large`) are recorded in different ways.
#[must_use]
pub fn sight(room: Room) -> Option<Sight> {
    // A thread of its own: it moves from CPU to CPU.
    std::thread::Builder::new().spawn(move || look(room)).ok()?.join().ok()?
}

fn look(room: Room) -> Option<Sight> {
    let allowed = sched::affinity(0).ok()?;
    let own = Target { tids: vec![sched::current_thread_id()], with_children: false };
    let mut watch = Watch::open(&own, Level::Core, room).ok()?;
    let (mut hidden, mut busy) = (Vec::new(), None);
    for cpu in allowed.into_iter().rev().take(CPUS) {
        sched::set_affinity(0, &[cpu]).ok()?;
        for _ in 0..LOOKS {
            watch.switch(true).ok()?;
            (0..SLEEPS).for_each(|_| std::thread::sleep(SLEEP));
            watch.switch(false).ok()?;
            if watch.shows_idle(cpu).is_some() {
                break;
            }
        }
        match watch.shows_idle(cpu) {
            Some(true) => return Some(Sight { cpu, hidden }),
            Some(false) => hidden.push(cpu),
            None => busy = busy.or(Some(cpu)),
        }
    }
    // Of a CPU that is never idle nothing is hidden.
    Some(Sight { cpu: busy?, hidden })
}

#[cfg(test)]
mod tests {
    use punctual_record::Unseen;

    use super::*;

    #[test]
    fn each_pair_of_rounds_has_one_that_is_watched() {
        let off = Watching::new(Watched::Never, None);
        let on = Watching { watch: Some(Err(Error::Namespace)), ..Watching::new(Watched::Half, None) };
        assert!((0..8).all(|round| !off.is_due(round) && off.figures_of(round) == round));
        let due: Vec<u32> = (0..8).filter(|round| on.is_due(*round)).collect();
        assert_eq!(due, [1, 2, 5, 6]);
        let figures: Vec<u32> = (0..8).filter(|round| !on.is_due(*round)).map(|round| on.figures_of(round)).collect();
        assert_eq!(figures, [0, 1, 2, 3]);
    }

    #[test]
    fn the_effect_is_that_of_watching_in_either_order() {
        let mut watching = Watching { watch: Some(Err(Error::Namespace)), ..Watching::new(Watched::Half, None) };
        let usage = Usage { voluntary: Some(100), ..Usage::default() };
        for round in 0..16 {
            let mut recorder = Recorder::new();
            let late = if watching.is_due(round) { 52_000 } else { 50_000 };
            (0..100).for_each(|_| recorder.record(late));
            watching.compare(0, round, &recorder, usage);
            // Never gives up the CPU: it must not dilute the effect.
            watching.compare(1, round, &recorder, Usage { voluntary: Some(0), ..usage });
        }
        assert_eq!(watching.differences.len(), 8);
        let effect = watch_effect(&watching.differences).unwrap();
        assert_eq!(effect.pairs, 8);
        assert!((1_900.0..=2_100.0).contains(&effect.p50_ns), "{effect:?}");
        assert!(watch_effect(&[1.0; 5]).is_none(), "five pairs give no interval");
    }

    #[test]
    fn where_causes_alone_are_wanted_a_refusal_ends_the_run() {
        let refused = || Watching { watch: Some(Err(Error::Namespace)), ..Watching::new(Watched::ForCauses, None) };
        assert!(refused().is_in_vain());
        assert!(!Watching { wanted: Watched::Half, ..refused() }.is_in_vain(), "figures are wanted too");
        assert!(!Watching::new(Watched::ForCauses, None).is_in_vain(), "not tried yet");
        let (causes, notice) = refused().end();
        let Some(Notice::Unseen(unseen)) = notice else { panic!("{notice:?}") };
        assert!(causes.is_none() && unseen.remedy.is_some() && unseen.what == "causes of late wake-ups", "{unseen:?}");
        assert!(unseen.why.starts_with("this process runs"), "{unseen:?}");
    }

    #[test]
    fn a_refusal_leaves_the_run_delay_and_a_notice_with_the_remedy() {
        let mut watching = Watching { watch: Some(Err(Error::Namespace)), ..Watching::new(Watched::Half, None) };
        let mut batches = Vec::new();
        let done = watching.batch((1, None), (150, 1e3), &mut |n| {
            batches.push(n);
            Ok(Usage { elapsed_ns: 1_000, voluntary: Some(n), cpu_ns: Some(10), ..Usage::default() })
        });
        assert_eq!((done.unwrap().voluntary, batches.as_slice()), (Some(150), &[64, 64, 22][..]));
        let (causes, notice) = watching.end();
        let causes = causes.unwrap();
        assert_eq!((causes.source, causes.wake_ups, causes.effect), (CauseSource::RunDelay, 150, None));
        assert_eq!((causes.watched_ns, causes.missing[0].remedy.is_some()), (3_000, true));
        assert!(matches!(notice, Some(Notice::Unseen(Unseen { remedy: Some(_), .. }))), "{notice:?}");
        assert_eq!(Watching::new(Watched::Never, None).end(), (None, None));
    }

    #[test]
    fn a_cpu_of_this_process_is_found_or_none_is_seen() {
        let allowed = sched::affinity(0).unwrap();
        let Some(sight) = sight(Room::Small) else { return punctual_testing::lacks(punctual_testing::Lack::Events) };
        assert!(allowed.contains(&sight.cpu) && !sight.hidden.contains(&sight.cpu), "{sight:?}");
        assert!(sight.hidden.iter().all(|cpu| allowed.contains(cpu)), "{sight:?}");
        assert_eq!(sched::affinity(0).unwrap(), allowed, "the caller stays");
    }
}

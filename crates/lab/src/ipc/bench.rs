//! The bench of `ipc`: a batch is one trip or, where it must not hold the CPUs for long, several.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::Breather;
use punctual::backoff::{Limits, Profile};
use punctual::conditions::{Condition, Conditions, Policy, Refused};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::interrupt::{Interrupter, Interruptible};
use punctual_record::{Recorder, Usage};

use super::block::{Block, Blocks};
use super::integrity::Integrity;
use super::keeper::{Keeper, NoKeeper};
use super::mechanism::Receive;
use super::peer::Job;
use super::plan::{Cell, Plan};
use super::traffic::Mode;
use super::trip::{Broken, Passed, Trip};
use crate::rounds::{Bench, Failure};
use crate::stage::Stage;
use crate::usage::Sum;

/// Longest time that two real-time processes may poll without a break.
const LONGEST_HOLD_NS: f64 = 4e8;
/// Messages under way where the kernel sets no sensible bound.
const USUAL_WINDOW: u64 = 10;

/// What is known of a cell beside its latencies.
#[derive(Debug, Clone, Default)]
pub(super) struct Extra {
    /// The measuring process, all batches together.
    pub(super) own: Sum,
    /// The other process.
    pub(super) peer: Sum,
    /// Messages that counted.
    pub(super) messages: u64,
    /// Those of them that arrived, in ping-pong: that came back in time.
    pub(super) delivered: u64,
    /// Messages sent late.
    pub(super) late: u64,
    /// What went wrong with messages.
    pub(super) integrity: Integrity,
    /// The other process ended in the middle.
    pub(super) peer_ended: Option<PeerEnded>,
}

impl Extra {
    /// Adds a trip.
    fn add(&mut self, passed: &Passed, (messages, delivered): (u64, u64)) {
        self.own.add(passed.usage);
        self.peer.add(passed.account.usage);
        self.messages += messages;
        self.delivered += delivered;
        self.late += passed.account.late;
        self.integrity = self.integrity.plus(passed.integrity);
    }
}

/// How the other process ended in the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PeerEnded {
    /// For instance `was killed by signal 9`.
    pub(super) how: String,
    /// When that was noticed, on CLOCK_MONOTONIC.
    pub(super) at_ns: i64,
}

/// Seen by the measuring thread and by whoever reports.
pub(super) type Extras = Arc<Mutex<Vec<Extra>>>;

/// Everything that a bench needs, opened on the measuring thread.
pub(super) struct IpcBench<'a> {
    plan: &'a Plan,
    base: Conditions,
    stage: &'a Stage,
    extras: Extras,
    keeper: Keeper,
    interruptible: Interruptible,
    cpus: Vec<usize>,
    limits: Limits,
    /// The same where both processes are known to share one CPU.
    limits_on_one_cpu: Limits,
    breather: Breather,
    blocks: Vec<Option<Blocks>>,
    expected_ns: Vec<f64>,
    /// The cell's account with the last batch, until that is known to count.
    last: Option<(Extra, Option<Blocks>)>,
}

/// The bench could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum NoBench {
    /// No keeper.
    #[error(transparent)]
    Keeper(#[from] NoKeeper),
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] linux::Error),
}

/// The conditions of a run that were granted.
fn without(base: &Conditions, refused: &[Refused]) -> Conditions {
    let mut granted = base.clone();
    for refused in refused {
        match refused.condition {
            Condition::LockMemory => granted.lock_memory = false,
            Condition::Nice => granted.nice = None,
            Condition::Cpus => granted.cpus = None,
            Condition::DmaLatency => granted.dma_latency = None,
            // These belong to a variant.
            Condition::Policy | Condition::TimerSlack => {}
        }
    }
    granted
}

impl<'a> IpcBench<'a> {
    /// Opens it.
    /// `refused`: conditions of the run that the measuring thread has not; nor is the other process asked for them.
    pub(super) fn open(plan: &'a Plan, stage: &'a Stage, extras: Extras, refused: &[Refused]) -> Result<Self, NoBench> {
        // Measures with a second thread, so it must be done before there are other processes.
        let backs_off = plan.cells.iter().any(|cell| cell.receive == Receive::Backoff);
        let profile = backs_off.then(|| *Profile::of_this_machine());
        let limits = profile.map_or(Limits::PARK, |profile| profile.limits());
        let limits_on_one_cpu = profile.map_or(Limits::PARK, |profile| Profile { cpus: 1, ..profile }.limits());
        let blocks = plan.cells.iter().map(|_| plan.blocks.map(Blocks::of)).collect();
        Ok(Self {
            plan,
            base: without(&plan.base, refused),
            stage,
            extras,
            keeper: Keeper::start()?,
            interruptible: Interruptible::this_thread()?,
            cpus: linux::affinity::affinity(0)?,
            limits,
            limits_on_one_cpu,
            breather: Breather::new(),
            blocks,
            expected_ns: vec![f64::INFINITY; plan.cells.len()],
            last: None,
        })
    }

    fn interrupter(&self) -> Interrupter {
        self.interruptible.interrupter()
    }

    /// Whether this thread was to be under the policy too, and is not: then the other process is not asked for it.
    fn refused_here(&self, cell: &Cell, policy: Policy) -> bool {
        let wanted = self.plan.variants[cell.variant].conditions.policy;
        wanted == Some(policy) && Conditions::inspect().policy != wanted
    }

    fn trip(&self, cell: &Cell, messages: u64) -> Trip<'_> {
        let plan = self.plan;
        let mechanism = plan.mechanisms[cell.mechanism];
        let ping = cell.mode == Mode::PingPong;
        let (here, there) = match ping {
            true => (cell.place.sender, cell.place.receiver),
            false => (cell.place.receiver, cell.place.sender),
        };
        // What holds for the whole machine the measuring process sees to.
        let conditions = Conditions {
            policy: plan.peers[cell.variant].filter(|policy| !self.refused_here(cell, *policy)),
            dma_latency: None,
            ..plan.variants[cell.variant].over(&self.base)
        };
        Trip {
            mechanism,
            job: Job {
                size: cell.size,
                warmup: plan.warmup_of(cell),
                messages,
                mode: cell.mode,
                verify: plan.verifies(cell),
                lossy: !mechanism.reliable,
                window: Job::window_of(mechanism.queue, plan.depth, USUAL_WINDOW).filter(|_| !ping),
                cpu: there,
                same_cpu: cell.place.is_same(),
                conditions,
            },
            depth: plan.depth,
            receive: cell.receive,
            cpu: here,
            limits: if cell.place.is_same() { self.limits_on_one_cpu } else { self.limits },
            keeper: &self.keeper,
            interrupter: self.interrupter(),
            cpus: &self.cpus,
        }
    }

    /// Messages of one trip: as many as are asked for, or as many as two busy real-time processes may pass without a break.
    fn stretch(&self, index: usize, to_go: u64) -> u64 {
        let cell = &self.plan.cells[index];
        if !self.plan.is_real_time(cell) || cell.mode.interval().is_some() {
            return to_go;
        }
        let each = self.expected_ns[index];
        // What a message takes is not known at first: a few will show.
        let most = if each.is_finite() { (LONGEST_HOLD_NS / each.max(1.0)) as u64 } else { 100 };
        to_go.min(most.max(1))
    }

    fn tell_blocks(&mut self, cell: usize) {
        let name = self.doing(cell);
        let blocks = self.blocks[cell].as_mut().map(Blocks::take).unwrap_or_default();
        for block in blocks {
            self.stage.say(line(&name, &block));
        }
    }
}

/// A block, as the note of 2011 had it: smallest, largest, mean.
fn line(name: &str, block: &Block) -> String {
    let us = |ns: f64| format!("{:.2} us", ns / 1000.0);
    let Block { number, messages, min_ns, max_ns, mean_ns } = *block;
    format!(
        "{name}: block {number} of {messages} messages: min {}, max {}, mean {}",
        us(min_ns as f64),
        us(max_ns as f64),
        us(mean_ns)
    )
}

impl Bench for IpcBench<'_> {
    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let name = &self.plan.mechanisms[cell.mechanism].name;
        let label = &self.plan.variants[cell.variant].label;
        format!("{name} {} B, {}, {} ({label})", cell.size, cell.mode, cell.place.name())
    }

    fn variant(&self, cell: usize) -> usize {
        self.plan.cells[cell].variant
    }

    fn batch(&mut self, index: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let mut total = Sum::default();
        let mut to_go = operations;
        let mut extra = self.extras.lock().unwrap_or_else(PoisonError::into_inner)[index].clone();
        let mut blocks = self.blocks[index].clone();
        while to_go > 0 {
            let messages = self.stretch(index, to_go);
            let before = into.count();
            let passed = self.trip(&self.plan.cells[index], messages).make(into, blocks.as_mut());
            let passed = passed.map_err(|broken| self.failure(index, broken))?;
            self.expected_ns[index] = passed.usage.elapsed_ns as f64 / messages as f64;
            extra.add(&passed, (messages, into.count() - before));
            total.add(passed.usage);
            to_go -= messages;
            if self.plan.is_real_time(&self.plan.cells[index]) {
                self.breather.after(Duration::from_nanos(passed.usage.elapsed_ns));
            }
        }
        self.last = Some((extra, blocks));
        Ok(total.usage())
    }

    fn keep(&mut self, index: usize) {
        let Some((extra, blocks)) = self.last.take() else { return };
        self.extras.lock().unwrap_or_else(PoisonError::into_inner)[index] = extra;
        self.blocks[index] = blocks;
        self.tell_blocks(index);
    }
}

impl IpcBench<'_> {
    fn failure(&self, cell: usize, broken: Broken) -> Failure {
        match broken {
            Broken::Stopped => Failure::Stopped,
            Broken::Lost(lost) => Failure::Lost(lost),
            Broken::Unavailable(no) => Failure::Impossible { why: no.why, remedy: no.remedy },
            Broken::PeerEnded(how) => {
                let mut extras = self.extras.lock().unwrap_or_else(PoisonError::into_inner);
                extras[cell].peer_ended = Some(PeerEnded { how, at_ns: now_ns(Clock::Monotonic) });
                // A process that somebody kills is no property of the mechanism: the run ends, and says so.
                Failure::Stopped
            }
        }
    }
}

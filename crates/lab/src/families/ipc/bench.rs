//! The bench of `ipc`: a batch is one trip, or several if one would hold the CPUs for too long.

use std::time::Duration;

use punctual::backoff::{Limits, Profile};
use punctual::conditions::{Condition, Conditions, Refused, Scope};
use punctual::{Policy, RtThrottle};
use punctual_linux as linux;
use punctual_linux::own_signal::{Interrupter, Interruptible};
use punctual_record::experiment::ipc::Block;
use punctual_record::{Recorder, Usage};

use super::mechanism::Receive;
use super::message::{Blocks, Integrity, MOST_BLOCKS};
use super::peer::Job;
use super::plan::{Cell, Mode, Plan};
use super::trip::{Passed, Trip};
use crate::frame::figures::Sum;
use crate::frame::stage::Stage;
use crate::frame::{Bench, Error, Failure};
use crate::keeper::Keeper;

/// Longest time that two real-time processes may poll without a break.
const LONGEST_HOLD_NS: f64 = 4e8;
/// Messages in flight if the kernel sets no sensible limit.
const USUAL_WINDOW: u64 = 10;

/// A cell's results beside its latencies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    /// The usage of the measuring process in all batches.
    pub(super) own: Sum,
    /// The usage of the other process.
    pub(super) peer: Sum,
    /// Number of messages that counted.
    pub(super) messages: u64,
    /// Number of those that arrived; in ping-pong, that returned in time.
    pub(super) delivered: u64,
    /// Number of messages sent late.
    pub(super) late: u64,
    /// Errors with messages.
    pub(super) integrity: Integrity,
    /// Blocks of messages.
    pub(super) blocks: Vec<Block>,
}

impl Extra {
    fn plus(&mut self, batch: &Self) {
        self.own.add(batch.own.usage());
        self.peer.add(batch.peer.usage());
        self.messages += batch.messages;
        self.delivered += batch.delivered;
        self.late += batch.late;
        self.integrity = self.integrity.plus(batch.integrity);
    }
    fn add(&mut self, passed: &Passed, (messages, delivered): (u64, u64)) {
        self.own.add(passed.usage);
        self.peer.add(passed.account.usage);
        self.messages += messages;
        self.delivered += delivered;
        self.late += passed.account.late;
        self.integrity = self.integrity.plus(passed.integrity);
    }
}

/// All resources of a bench, opened on the measuring thread.
pub(super) struct IpcBench<'a> {
    plan: &'a Plan,
    base: Conditions,
    stage: &'a Stage,
    keeper: Keeper,
    interruptible: Interruptible,
    cpus: Vec<usize>,
    limits: Limits,
    /// The same if both processes are known to share one CPU.
    limits_on_one_cpu: Limits,
    throttle: RtThrottle,
    blocks: Vec<Option<Blocks>>,
    expected_ns: Vec<f64>,
    /// The last batch's results, until it counts.
    last: Option<(Extra, Option<Blocks>)>,
}

/// The granted conditions of a run.
fn without(base: &Conditions, refused: &[Refused]) -> Conditions {
    refused.iter().fold(base.clone(), |granted, refused| granted.without(refused.condition))
}

impl<'a> IpcBench<'a> {
    /// `refused`: the run's conditions that the measuring thread lacks. The other process does not request them
    /// either.
    pub(super) fn open(plan: &'a Plan, stage: &'a Stage, refused: &[Refused]) -> Result<Self, Error> {
        // It measures with a second thread, so it precedes all other processes.
        let backs_off = plan.cells.iter().any(|cell| cell.receive == Receive::Backoff);
        let profile = backs_off.then(|| *Profile::of_this_machine());
        let limits = profile.map_or(Limits::PARK, |profile| profile.limits());
        let limits_on_one_cpu = profile.map_or(Limits::PARK, |profile| Profile { cpus: 1, ..profile }.limits());
        let blocks = plan.cells.iter().map(|_| plan.blocks.map(Blocks::new)).collect();
        Ok(Self {
            plan,
            base: without(&plan.request.base, refused),
            stage,
            keeper: Keeper::start()?,
            interruptible: Interruptible::this_thread()?,
            cpus: linux::sched::affinity(0)?,
            limits,
            limits_on_one_cpu,
            throttle: RtThrottle::new(),
            blocks,
            expected_ns: vec![f64::INFINITY; plan.cells.len()],
            last: None,
        })
    }

    fn interrupter(&self) -> Interrupter {
        self.interruptible.interrupter()
    }

    /// Whether this thread was refused the policy: then the other process does not request it.
    fn refused_here(&self, cell: &Cell, policy: Policy) -> bool {
        let wanted = self.plan.request.variants[cell.variant].conditions.get_policy();
        wanted == Some(policy) && Conditions::inspect().get_policy() != wanted
    }

    fn trip(&self, cell: &Cell, messages: u64) -> Trip<'_> {
        let plan = self.plan;
        let mechanism = plan.mechanisms[cell.mechanism];
        let ping = cell.mode == Mode::PingPong;
        let (here, there) = match ping {
            true => (cell.place.sender, cell.place.receiver),
            false => (cell.place.receiver, cell.place.sender),
        };
        // The measuring process applies the conditions of the whole machine.
        let both = plan.request.variants[cell.variant].over(&self.base).without(Condition::POLICY);
        let policy = plan.peers[cell.variant].filter(|policy| !self.refused_here(cell, *policy));
        let conditions = both.only(&[Scope::Thread, Scope::Process]).maybe(policy, Conditions::policy);
        Trip {
            mechanism,
            label: &plan.request.variants[cell.variant].label,
            job: Job {
                size: cell.size,
                warmup: plan.warmup_of(cell),
                messages,
                mode: cell.mode,
                verify: plan.verifies(cell),
                lossy: !mechanism.reliable,
                window: Job::window_of(mechanism.in_flight, plan.depth, USUAL_WINDOW).filter(|_| !ping),
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

    /// Messages of one trip: the requested number, or the most that two busy real-time processes may pass
    /// without a break.
    fn stretch(&self, index: usize, to_go: u64) -> u64 {
        let cell = &self.plan.cells[index];
        if !self.plan.is_real_time(cell) || cell.mode.interval().is_some() {
            return to_go;
        }
        let each = self.expected_ns[index];
        // A message's duration is unknown at first: a few messages show it.
        let most = if each.is_finite() { (LONGEST_HOLD_NS / each.max(1.0)) as u64 } else { 100 };
        to_go.min(most.max(1))
    }

    /// Shows the blocks of a batch, a line each, and keeps them.
    fn keep_blocks(&mut self, cell: usize, kept: &mut Vec<Block>) {
        let name = self.doing(cell);
        let Some((blocks, messages)) = self.blocks[cell].as_mut().zip(self.plan.blocks) else { return };
        let new = blocks.take();
        for (number, block) in (kept.len() + 1..).zip(&new) {
            self.stage.say(format!("{name}: block {number} of {messages} messages: {}", line(block)));
        }
        kept.extend(new);
        kept.truncate(MOST_BLOCKS);
    }
}

/// A block, as the note of 2011 had it: smallest, largest, mean.
fn line(block: &Block) -> String {
    let us = |ns: f64| format!("{:.2} us", ns / 1000.0);
    let Block { min_ns, mean_ns, max_ns } = *block;
    format!("min {}, max {}, mean {}", us(min_ns as f64), us(max_ns as f64), us(mean_ns))
}

impl Bench for IpcBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let name = &self.plan.mechanisms[cell.mechanism].name;
        let label = &self.plan.request.variants[cell.variant].label;
        format!("{name} {} B, {}, {} ({label})", cell.size, cell.mode, cell.place.kind())
    }

    fn batch(&mut self, index: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let mut total = Sum::default();
        let mut to_go = operations;
        let mut extra = Extra::default();
        let mut blocks = self.blocks[index].clone();
        while to_go > 0 {
            let messages = self.stretch(index, to_go);
            let before = into.count();
            let passed = self.trip(&self.plan.cells[index], messages).make(into, blocks.as_mut())?;
            self.expected_ns[index] = passed.usage.elapsed_ns as f64 / messages as f64;
            extra.add(&passed, (messages, into.count() - before));
            total.add(passed.usage);
            to_go -= messages;
            if self.plan.is_real_time(&self.plan.cells[index]) {
                self.throttle.after(Duration::from_nanos(passed.usage.elapsed_ns));
            }
        }
        self.last = Some((extra, blocks));
        Ok(total.usage())
    }

    fn keep(&mut self, index: usize, _: (u32, u64), extra: &mut Extra) {
        let Some((last, blocks)) = self.last.take() else { return };
        extra.plus(&last);
        self.blocks[index] = blocks;
        self.keep_blocks(index, &mut extra.blocks);
    }
}

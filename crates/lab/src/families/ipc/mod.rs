//! `ipc`: how long a message takes from one process to another, and its cost for both.
//!
//! The input is a [`Plan`]. The [`Session`] receives a series per mechanism, size, mode, place, method of receiving
//! and variant of conditions. For a missing one it receives the reason. The quantity is `one_way`, or `round_trip`
//! in ping-pong, which is never halved.
//!
//! The measuring process receives. A child of it sends, or answers in ping-pong. Both ends are opened before the
//! fork, and names are removed at once, so that none remains. For objects that must stay longer see
//! `Keeper`. A batch is one trip, or several if one would hold the CPUs for too long.

mod keeper;
mod mechanism;
mod memory;
mod message;
mod peer;
mod plan;
mod queues;
mod semaphores;
mod streams;
#[cfg(test)]
mod tests;
mod trip;

use std::sync::LazyLock;
use std::time::Duration;

use punctual::backoff::{Limits, Profile};
use punctual::conditions::{Condition, Conditions, Refused, Scope};
use punctual::{Policy, RtThrottle};
use punctual_linux as linux;
use punctual_linux::signal::Interruptible;
use punctual_record::experiment::ipc::{self, Block};
use punctual_record::{About, Ask, Experiment, Notice, Quantity, Recorder, Typed, Usage};

use crate::frame::{
    self, Bench, CellCost, CellId, Error, Failure, Family, Gathered, Layout, Measured, Place, Report, Scene, Schedule,
    Session, Stage, Sum, Unavailable, more_time, names,
};
use keeper::Keeper;
use mechanism::Halt;
pub use mechanism::{Mechanism, Receive};
pub use message::SHORTEST;
use message::{Blocks, Integrity, MOST_BLOCKS};
use peer::Job;
use plan::{Cell, Relation, cost_ns};
pub use plan::{Mode, Places, Plan, Request, Topology};
use trip::{Passed, Trip};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::IPC;

static MECHANISMS: LazyLock<Vec<Mechanism>> = LazyLock::new(|| {
    let mut all = vec![memory::ring()];
    all.extend(memory::shared());
    all.extend(queues::queues());
    all.extend(streams::pipes());
    all.extend(streams::sockets());
    all.extend(queues::notices());
    all.push(memory::written());
    all
});

/// All mechanisms, in the order of `--list`.
pub fn mechanisms() -> impl Iterator<Item = &'static Mechanism> {
    MECHANISMS.iter()
}

/// The mechanism of this name.
#[must_use]
pub fn mechanism_named(name: &str) -> Option<&'static Mechanism> {
    mechanisms().find(|mechanism| mechanism.name == name)
}

/// Runs the plan and enters its measurements in the session. Errors of messages or of the other process are
/// returned as text: the run has figures, but failed.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    enter_cores(&plan, session);
    frame::run(plan, session).map(|done| done.wrong)
}

/// Opens and closes a mechanism with the shortest message it carries, to check that it works here.
pub fn try_open(mechanism: &Mechanism) -> Result<(), Unavailable> {
    let keeper = Keeper::start()?;
    let asked = mechanism::Asked {
        size: SHORTEST,
        depth: None,
        both_ways: true,
        receive: Receive::Block,
        keeper: &keeper,
        halt: &Halt::default(),
    };
    (mechanism.open)(&asked).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    const REASON_NAMES: &'static [&'static str] = names!(ipc::Parameters: size, mode, place);

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.asked.frame, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        let cell = &self.cells[cell];
        let mechanism = self.asked.mechanisms[cell.mechanism];
        let (kind, call) = (Some(mechanism.kind.to_owned()), Some(mechanism.call.clone()));
        CellId {
            subject: mechanism.name.clone(),
            about: About { kind, call, ..About::default() },
            experiment: Experiment::Ipc(Typed::asked(parameters(self, cell))),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| CellCost { ideal_ns: cost_ns(cell).min(1e6), expected_ns: cost_ns(cell) };
        Schedule::new(self.asked.frame.amount, self.asked.frame.rounds, self.cells.iter().map(cost))
    }

    /// The CPUs of all cells, where each cell names its own.
    fn place(&self) -> Place {
        let real_time = self.cells.iter().any(|cell| self.is_real_time(cell));
        Place { cpus: self.cells.iter().flat_map(|cell| [cell.place.sender, cell.place.receiver]).collect(), real_time }
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        let cell = &self.cells[cell];
        let mechanism = self.asked.mechanisms[cell.mechanism];
        let limit = (mechanism.largest)();
        if limit.bytes.is_some_and(|bytes| cell.size as u64 > bytes) {
            let (size, carried, from) = (cell.size, limit.bytes.unwrap_or(0), limit.from);
            let why = format!("{size} bytes are more than it carries: {carried} by {from}");
            return Some(Unavailable { why, remedy: limit.remedy });
        }
        let holds = cell.place.is_same() && cell.receive == Receive::Poll && self.is_real_time(cell);
        match cell.receive {
            Receive::Block if mechanism.only_polls => {
                Some(Unavailable::but("it has no way to wait in the kernel", "receive by polling or by backing off"))
            }
            Receive::Backoff if mechanism.only_polls => {
                Some(Unavailable::but("it cannot sleep, so it cannot back off", Ask::Polling))
            }
            _ => holds.then(|| {
                Unavailable::but(
                    "a receiver that polls under a real-time policy keeps the sender on the same CPU from ever sending",
                    "use two CPUs, or receive by blocking",
                )
            }),
        }
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("its share of the time is too short for one message", more_time())
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Extra> {
        Ok(Box::new(move |scene| Ok(Box::new(IpcBench::open(self, scene.stage, &scene.refused)?))))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let cell = &self.cells[cell];
        let (parameters, metrics) = (parameters(self, cell), delivery(self, cell, measured.extra));
        let quantity = if cell.mode == Mode::PingPong { Quantity::RoundTrip } else { Quantity::OneWay };
        let series = measured.series(measured.tally, quantity, Experiment::Ipc(Typed { parameters, metrics }));
        let mechanism = self.asked.mechanisms[cell.mechanism];
        let broken = mechanism.reliable && !measured.extra.integrity.is_whole();
        let wrong = broken.then(|| broken_promise(&mechanism.name, cell, measured.extra));
        Report { wrong, ..Report::with_series(vec![series]) }
    }
}

/// Adds a notice of the CPUs that share a core or may share one. That changes the meaning of the figures.
fn enter_cores(plan: &Plan, session: &mut Session<'_>) {
    let pairs = |relation| {
        let pairs = plan.pairs(relation).into_iter();
        pairs.map(|(a, b)| [a, b].map(|cpu| u32::try_from(cpu).unwrap_or(u32::MAX))).collect::<Vec<_>>()
    };
    let (siblings, unknown) = (pairs(Relation::Siblings), pairs(Relation::Unknown));
    if !siblings.is_empty() {
        session.notice(Notice::SameCore { pairs: siblings });
    }
    if !unknown.is_empty() {
        session.notice(Notice::CoresUnknown { pairs: unknown });
    }
}

fn broken_promise(name: &str, cell: &Cell, extra: &Extra) -> String {
    let i = &extra.integrity;
    format!(
        "{name}, {} bytes, {}: of {} messages {} were lost, {} duplicated, {} torn and {} out of order, and it promises none of that",
        cell.size, cell.mode, extra.messages, i.lost, i.duplicates, i.torn, i.reordered
    )
}

fn parameters(plan: &Plan, cell: &Cell) -> ipc::Parameters {
    ipc::Parameters {
        size: cell.size as u64,
        mode: cell.mode.kind(),
        place: cell.place.kind(),
        receive: cell.receive,
        sender_cpu: u32::try_from(cell.place.sender).ok(),
        receiver_cpu: u32::try_from(cell.place.receiver).ok(),
        interval_ns: cell.mode.interval().map(|interval| interval.as_nanos() as i64),
        depth: plan.asked.depth.map(|depth| depth as u64),
    }
}

/// Metrics beside the latencies: messages per second, the other process's usage, and integrity.
fn delivery(plan: &Plan, cell: &Cell, extra: &Extra) -> ipc::Metrics {
    let messages = extra.messages as f64;
    let (own, peer): (Usage, Usage) = (extra.own.usage(), extra.peer.usage());
    let per = |total: Option<u64>| total.filter(|_| extra.messages > 0).map(|total| total as f64 / messages);
    let integrity = &extra.integrity;
    ipc::Metrics {
        per_second: (own.elapsed_ns > 0).then(|| extra.delivered as f64 * 1e9 / own.elapsed_ns as f64),
        peer_cpu_ns: per(peer.cpu_ns),
        peer_voluntary_switches: per(peer.voluntary),
        peer_involuntary_switches: per(peer.involuntary),
        late_sends: cell.mode.interval().map(|_| extra.late),
        verified: Some(plan.verifies(cell)),
        lost: Some(integrity.lost),
        duplicates: Some(integrity.duplicates),
        torn: Some(integrity.torn),
        reordered: Some(integrity.reordered),
        block_messages: plan.asked.blocks.filter(|_| cell.mode != Mode::PingPong),
        blocks: (!extra.blocks.is_empty()).then(|| extra.blocks.clone()),
    }
}

/// Longest time that two real-time processes may poll without a break.
const LONGEST_HOLD_NS: f64 = 4e8;

/// A cell's results beside its latencies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    /// The usage of the measuring process in all batches.
    own: Sum,
    /// The usage of the other process.
    peer: Sum,
    /// Number of messages that counted.
    messages: u64,
    /// Number of those that arrived; in ping-pong, that returned in time.
    delivered: u64,
    /// Number of messages sent late.
    late: u64,
    /// Errors with messages.
    integrity: Integrity,
    /// Blocks of messages.
    blocks: Vec<Block>,
}

impl Extra {
    fn add(&mut self, (passed, messages, delivered): &Counted) {
        self.own.add(passed.usage);
        self.peer.add(passed.account.usage);
        self.messages += messages;
        self.delivered += delivered;
        self.late += passed.account.late;
        self.integrity = self.integrity.plus(passed.integrity);
    }
}

/// A trip, the messages of it that counted, and those that were delivered.
type Counted = (Passed, u64, u64);

/// All resources of a bench, opened on the measuring thread.
struct IpcBench<'a> {
    plan: &'a Plan,
    /// The granted conditions of the run.
    base: Conditions,
    stage: &'a Stage,
    keeper: Keeper,
    interruptible: Interruptible,
    cpus: Vec<usize>,
    /// How this machine backs off, if a receiver does.
    profile: Option<Profile>,
    throttle: RtThrottle,
    blocks: Vec<Option<Blocks>>,
    expected_ns: Vec<f64>,
    /// The trips of the last batch, and its blocks, until it counts.
    last: Option<(Vec<Counted>, Option<Blocks>)>,
}

impl<'a> IpcBench<'a> {
    /// `refused`: the run's conditions that the measuring thread lacks. The other process does not request them
    /// either.
    fn open(plan: &'a Plan, stage: &'a Stage, refused: &[Refused]) -> Result<Self, Error> {
        // It measures with a second thread, so it precedes all other processes.
        let backs_off = plan.cells.iter().any(|cell| cell.receive == Receive::Backoff);
        let profile = backs_off.then(|| *Profile::of_this_machine());
        let blocks = plan.cells.iter().map(|_| plan.asked.blocks.map(Blocks::new)).collect();
        Ok(Self {
            plan,
            base: refused.iter().fold(plan.asked.frame.base.clone(), |all, refused| all.without(refused.condition)),
            stage,
            keeper: Keeper::start()?,
            interruptible: Interruptible::this_thread()?,
            cpus: linux::sched::affinity(0)?,
            profile,
            throttle: RtThrottle::new(),
            blocks,
            expected_ns: vec![f64::INFINITY; plan.cells.len()],
            last: None,
        })
    }

    /// Whether this thread was refused the policy: then the other process does not request it.
    fn refused_here(&self, cell: &Cell, policy: Policy) -> bool {
        let wanted = self.plan.asked.frame.variants[cell.variant].conditions.get_policy();
        wanted == Some(policy) && Conditions::inspect().get_policy() != wanted
    }

    fn trip(&self, cell: &Cell, messages: u64) -> Trip<'_> {
        let plan = self.plan;
        let mechanism = plan.asked.mechanisms[cell.mechanism];
        let ping = cell.mode == Mode::PingPong;
        let on_its_cpus = |all: Profile| if cell.place.is_same() { Profile { cpus: 1, ..all } } else { all };
        let (here, there) = match ping {
            true => (cell.place.sender, cell.place.receiver),
            false => (cell.place.receiver, cell.place.sender),
        };
        // The measuring process applies the conditions of the whole machine.
        let both = plan.asked.frame.variants[cell.variant].over(&self.base).without(Condition::POLICY);
        let policy = plan.peers[cell.variant].filter(|policy| !self.refused_here(cell, *policy));
        let conditions = both.only(&[Scope::Thread, Scope::Process]).maybe(policy, Conditions::policy);
        Trip {
            mechanism,
            label: &plan.asked.frame.variants[cell.variant].label,
            job: Job {
                size: cell.size,
                warmup: plan.warmup_of(cell),
                messages,
                mode: cell.mode,
                verify: plan.verifies(cell),
                lossy: !mechanism.reliable,
                window: Job::window_of(mechanism.in_flight, plan.asked.depth).filter(|_| !ping),
                cpu: Some(there),
                same_cpu: cell.place.is_same(),
                conditions,
            },
            depth: plan.asked.depth,
            receive: cell.receive,
            cpu: Some(here),
            limits: self.profile.map_or(Limits::PARK, |all| on_its_cpus(all).limits()),
            keeper: &self.keeper,
            interrupter: self.interruptible.interrupter(),
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
        let Some((blocks, messages)) = self.blocks[cell].as_mut().zip(self.plan.asked.blocks) else { return };
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
        let name = &self.plan.asked.mechanisms[cell.mechanism].name;
        let label = &self.plan.asked.frame.variants[cell.variant].label;
        format!("{name} {} B, {}, {} ({label})", cell.size, cell.mode, cell.place.kind())
    }

    fn batch(&mut self, index: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let mut total = Sum::default();
        let mut to_go = operations;
        let mut trips = Vec::new();
        let mut blocks = self.blocks[index].clone();
        while to_go > 0 {
            let messages = self.stretch(index, to_go);
            let before = into.count();
            let passed = self.trip(&self.plan.cells[index], messages).make(into, blocks.as_mut())?;
            self.expected_ns[index] = passed.usage.elapsed_ns as f64 / messages as f64;
            trips.push((passed, messages, into.count() - before));
            total.add(passed.usage);
            to_go -= messages;
            if self.plan.is_real_time(&self.plan.cells[index]) {
                self.throttle.after(Duration::from_nanos(passed.usage.elapsed_ns));
            }
        }
        self.last = Some((trips, blocks));
        Ok(total.usage())
    }

    fn keep(&mut self, index: usize, _: (u32, u64), extra: &mut Extra) {
        let Some((trips, blocks)) = self.last.take() else { return };
        trips.iter().for_each(|trip| extra.add(trip));
        self.blocks[index] = blocks;
        self.keep_blocks(index, &mut extra.blocks);
    }
}

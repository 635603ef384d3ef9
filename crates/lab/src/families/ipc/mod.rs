//! `ipc`: how long a message takes from one process to another, and its cost for both.
//!
//! The input is a [`Plan`]. The [`Session`] receives a series per mechanism, size, mode, place, method of receiving
//! and variant of conditions. For a missing one it receives the reason. The quantity is `one_way`, or `round_trip`
//! in ping-pong, which is never halved.
//!
//! The measuring process receives. A child of it sends, or answers in ping-pong. Both ends are opened before the
//! fork, and names are removed at once, so that none remains. For objects that must stay longer see
//! [`Keeper`](crate::keeper::Keeper).

mod bench;
mod control;
mod halt;
pub mod mechanism;
mod memory;
mod message;
mod notices;
mod peer;
pub mod plan;
mod queues;
mod semaphores;
mod streams;
#[cfg(test)]
mod tests;
mod trip;

use std::sync::LazyLock;

use punctual_record::experiment::ipc;
use punctual_record::{About, Ask, Experiment, Notice, Quantity, Typed, Usage};

use crate::frame::error::more_time;
use crate::frame::schedule::{CellCost, Schedule};
use crate::frame::{
    self, Bench, CellId, Error, Failure, Family, Layout, Measured, Place, Report, Scene, Session, Unavailable, names,
};
use crate::keeper::Keeper;
use bench::{Extra, IpcBench};
use mechanism::{Mechanism, Receive};
pub use message::SHORTEST;
use plan::{Cell, Relation, cost_ns};
pub use plan::{Mode, Plan, Request};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::IPC;

static MECHANISMS: LazyLock<Vec<Mechanism>> = LazyLock::new(|| {
    let mut all = vec![memory::ring()];
    all.extend(memory::shared());
    all.extend(queues::queues());
    all.extend(streams::all());
    all.extend(notices::notices());
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
        halt: halt::Halt::default(),
    };
    (mechanism.open)(&asked).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    type Company = ();
    const REASON_NAMES: &'static [&'static str] = names!(ipc::Parameters: size, mode, place);

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        let cell = &self.cells[cell];
        let mechanism = self.mechanisms[cell.mechanism];
        let (kind, call) = (Some(mechanism.kind.name().to_owned()), Some(mechanism.call.clone()));
        CellId {
            subject: mechanism.name.clone(),
            about: About { kind, call, ..About::default() },
            experiment: Experiment::Ipc(Typed::asked(parameters(self, cell))),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| CellCost { ideal_ns: cost_ns(cell).min(1e6), expected_ns: cost_ns(cell) };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    /// The CPUs of all cells, where each cell names its own.
    fn place(&self) -> Place {
        let real_time = self.cells.iter().any(|cell| self.is_real_time(cell));
        let cpus = self.cells.iter().map(|cell| Some([cell.place.sender?, cell.place.receiver?]));
        match cpus.collect::<Option<Vec<_>>>() {
            Some(named) => Place { cpus: named.into_iter().flatten().collect(), real_time },
            None => Place::on(self.request.base.get_cpus().as_ref(), real_time),
        }
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        let cell = &self.cells[cell];
        let mechanism = self.mechanisms[cell.mechanism];
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

    fn gather(&self, _: &Scene<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn open<'a>(&'a self, (): (), scene: &Scene<'a>) -> Result<Box<dyn Bench<Extra = Extra> + 'a>, Error> {
        Ok(Box::new(IpcBench::open(self, scene.stage, &scene.refused)?))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let cell = &self.cells[cell];
        let (parameters, metrics) = (parameters(self, cell), delivery(self, cell, measured.extra));
        let quantity = if cell.mode == Mode::PingPong { Quantity::RoundTrip } else { Quantity::OneWay };
        let series = measured.series(measured.tally, quantity, Experiment::Ipc(Typed { parameters, metrics }));
        let mechanism = self.mechanisms[cell.mechanism];
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
    let number = |cpu: Option<usize>| cpu.and_then(|cpu| u32::try_from(cpu).ok());
    ipc::Parameters {
        size: cell.size as u64,
        mode: cell.mode.kind(),
        place: cell.place.kind(),
        receive: cell.receive,
        sender_cpu: number(cell.place.sender),
        receiver_cpu: number(cell.place.receiver),
        interval_ns: cell.mode.interval().map(|interval| interval.as_nanos() as i64),
        depth: plan.depth.map(|depth| depth as u64),
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
        block_messages: plan.blocks.filter(|_| cell.mode != Mode::PingPong),
        blocks: (!extra.blocks.is_empty()).then(|| extra.blocks.clone()),
    }
}

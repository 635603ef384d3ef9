//! The frame's view of an `ipc` plan, and its results.

use punctual_record::experiment::ipc;
use punctual_record::{About, Experiment, Notice, Quantity, Typed, Usage};

use super::Mode;
use super::bench::{Extra, IpcBench};
use super::mechanism::Receive;
use super::plan::{Cell, Plan, cost_ns};
use super::topology::Relation;
use crate::frame::error::MORE_TIME;
use crate::frame::schedule::{CellCost, Schedule};
use crate::frame::{
    Asked, Bench, Error, Failure, Family, Layout, Measured, Place, Report, Scene, Session, Unavailable, names,
};

impl Family for Plan {
    type Extra = Extra;
    type Company = ();
    const PECULIAR: &'static [&'static str] = names!(ipc::Parameters: size, mode, place);

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn asked(&self, cell: usize) -> Asked {
        let cell = &self.cells[cell];
        let mechanism = self.mechanisms[cell.mechanism];
        let (kind, call) = (Some(mechanism.kind.name().to_owned()), Some(mechanism.call.clone()));
        Asked {
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
                Some(Unavailable::but("it cannot sleep, so it cannot back off", "receive by polling"))
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
        Unavailable::but("its share of the time is too short for one message", MORE_TIME)
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
pub(super) fn cores(plan: &Plan, session: &mut Session<'_>) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_record::experiment::ipc::{Mode as Kind, Placement, Receive};

    use super::super::integrity::Integrity;
    use super::super::{Request, mechanisms, place, topology};
    use super::*;
    use crate::frame::Amount;
    use crate::frame::Request as Frame;
    use crate::frame::figures::Sum;
    use crate::frame::tests::made_up_report;

    fn plan(modes: Vec<Mode>) -> Plan {
        let request = Request {
            mechanisms: vec![mechanisms::find("pipe").unwrap()],
            sizes: vec![64],
            modes,
            places: place::Places::Same,
            cpus: vec![0],
            topology: topology::Topology::default(),
            receive: vec![Receive::Backoff],
            sender_policies: Vec::new(),
            receiver_policies: Vec::new(),
            depth: Some(7),
            verify: None,
            blocks: None,
            frame: Frame::as_found(Amount::Time(Duration::from_secs(1)), 3),
        };
        Plan::new(request).unwrap()
    }

    fn extra(integrity: Integrity) -> Extra {
        let mut extra = Extra { messages: 4, delivered: 3, late: 2, integrity, ..Extra::default() };
        let used = |elapsed_ns, cpu_ns| Usage { elapsed_ns, cpu_ns: Some(cpu_ns), ..Usage::default() };
        extra.own = Sum::default();
        extra.own.add(used(1_000_000_000, 8));
        extra.peer.add(used(1_000_000_000, 20));
        extra
    }

    #[test]
    fn a_series_says_how_messages_were_sent_and_how_they_arrived() {
        let plan = plan(vec![Mode::Rate { per_second: 1_000.0 }, Mode::PingPong]);
        let whole = [extra(Integrity::default()), extra(Integrity::default())];
        let report = made_up_report(&plan, 0, &[5], &whole);
        let typed = report.series[0].experiment.ipc().unwrap();
        let asked = &typed.parameters;
        assert_eq!((asked.size, asked.mode, asked.place), (64, Kind::Rate, Placement::SameCpu));
        assert_eq!((asked.receive, asked.interval_ns, asked.depth), (Receive::Backoff, Some(1_000_000), Some(7)));
        assert_eq!((asked.sender_cpu, asked.receiver_cpu), (Some(0), Some(0)));
        let metrics = &typed.metrics;
        assert_eq!((metrics.per_second, metrics.peer_cpu_ns), (Some(3.0), Some(5.0)));
        assert_eq!((metrics.late_sends, metrics.verified, metrics.lost), (Some(2), Some(true), Some(0)));
        assert_eq!((report.series[0].quantity, report.wrong), (Quantity::OneWay, None));
        let there_and_back = made_up_report(&plan, 1, &[5], &whole);
        assert_eq!(there_and_back.series[0].quantity, Quantity::RoundTrip);
        let typed = there_and_back.series[0].experiment.ipc().unwrap();
        assert_eq!((typed.parameters.interval_ns, typed.metrics.late_sends), (None, None));
    }

    #[test]
    fn blocks_are_kept_with_their_length() {
        let block = ipc::Block { min_ns: 1, mean_ns: 3.0, max_ns: 5 };
        let plan = Plan { blocks: Some(2), ..plan(vec![Mode::Saturated, Mode::PingPong]) };
        let metrics = |cell, blocks: &[ipc::Block]| {
            let extra = Extra { blocks: blocks.to_vec(), ..extra(Integrity::default()) };
            let report = made_up_report(&plan, cell, &[5], &[extra.clone(), extra]);
            report.series[0].experiment.ipc().unwrap().metrics.clone()
        };
        let saturated = metrics(0, &[block]);
        assert_eq!((saturated.block_messages, saturated.blocks), (Some(2), Some(vec![block])));
        let round_trips = metrics(1, &[]);
        assert_eq!((round_trips.block_messages, round_trips.blocks), (None, None));
    }

    #[test]
    fn a_broken_promise_is_told_beside_the_figures() {
        let plan = plan(vec![Mode::Saturated]);
        let report = made_up_report(&plan, 0, &[5], &[extra(Integrity { lost: 1, ..Integrity::default() })]);
        let wrong = report.wrong.unwrap();
        assert!(wrong.starts_with("pipe, 64 bytes, saturated: of 4 messages 1 were lost"), "{wrong}");
        assert_eq!(report.series.len(), 1);
    }
}

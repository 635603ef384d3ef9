//! What came of a run: a series for each cell that has samples, a reason for each that has none.

use std::collections::BTreeMap;

use punctual_record::{NotMeasured, Notice, Param, Quantity, SeriesId, Usage};

use super::bench::{Extra, PeerEnded};
use super::plan::{Cell, Plan};
use super::topology::Relation;
use super::{EXPERIMENT, Mode};
use crate::Session;
use crate::family::{self, Judge};
use crate::rounds::{Failure, Ledger};

/// Enters series and reasons; tells what went wrong with messages and processes.
pub(super) fn cells(plan: &Plan, ledger: Ledger, extras: &[Extra], session: &mut Session<'_>) -> Vec<String> {
    let mut judge = Judge::default();
    let mut wrong = Vec::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        let (tally, extra) = (&ledger.tallies[index], &extras[index]);
        let mechanism = plan.mechanisms[cell.mechanism];
        if let Some(PeerEnded { how, at_ns }) = &extra.peer_ended {
            let subject = format!("{}, {} bytes, {}", mechanism.name, cell.size, cell.mode);
            let why = format!("the other process {how} in the middle");
            wrong.push(format!("{subject}: {why}"));
            session.add_not_measured(not_measured(plan, cell, why, None));
            session.cut_short(Notice::PeerEnded { subject, how: how.clone(), after_ns: session.time_of(*at_ns) });
        }
        if tally.count() == 0 {
            let left_out = ledger.held[cell.variant].as_ref().is_some_and(|h| h.left_out);
            let reason = why_not(&ledger.failures[index], session.stopped());
            if let (false, true, Some((why, remedy))) = (left_out, extra.peer_ended.is_none(), reason) {
                session.add_not_measured(not_measured(plan, cell, why, remedy));
            }
            continue;
        }
        let mut series = tally.to_series(identity(plan, cell));
        series.outcome = delivery(plan, cell, extra);
        judge.look_at(&series);
        if mechanism.reliable && !extra.integrity.is_whole() {
            wrong.push(broken_promise(&mechanism.name, cell, extra));
        }
        session.add_series(series);
    }
    judge.say(session);
    family::close(ledger, session);
    wrong
}

/// Says which CPUs share a core, and of which that is not known: the figures mean something else then.
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
        "{name}, {} bytes, {}: of {} messages {} were lost, {} doubled, {} torn and {} out of order, and it promises none of that",
        cell.size, cell.mode, extra.messages, i.lost, i.doubled, i.torn, i.reordered
    )
}

fn identity(plan: &Plan, cell: &Cell) -> SeriesId {
    let mechanism = plan.mechanisms[cell.mechanism];
    SeriesId {
        experiment: EXPERIMENT.into(),
        subject: mechanism.name.clone(),
        conditions: plan.variants[cell.variant].label.clone(),
        parameters: parameters(plan, cell),
        quantity: if cell.mode == Mode::PingPong { Quantity::RoundTrip } else { Quantity::OneWay },
    }
}

fn parameters(plan: &Plan, cell: &Cell) -> BTreeMap<String, Param> {
    let mechanism = plan.mechanisms[cell.mechanism];
    let mut all = BTreeMap::from([
        ("size".to_owned(), Param::Int(cell.size as i64)),
        ("mode".to_owned(), Param::Text(cell.mode.name().into())),
        ("place".to_owned(), Param::Text(cell.place.name().into())),
        ("receive".to_owned(), Param::Text(cell.receive.name().into())),
        ("call".to_owned(), Param::Text(mechanism.call.clone())),
        ("kind".to_owned(), Param::Text(mechanism.kind.name().into())),
    ]);
    let cpus = [("sender_cpu", cell.place.sender), ("receiver_cpu", cell.place.receiver)];
    all.extend(cpus.into_iter().filter_map(|(name, cpu)| Some((name.to_owned(), Param::Int(cpu? as i64)))));
    if let Some(interval) = cell.mode.interval() {
        all.insert("interval_ns".into(), Param::Int(interval.as_nanos() as i64));
    }
    if let Some(depth) = plan.depth {
        all.insert("depth".into(), Param::Int(depth as i64));
    }
    all
}

/// What the latencies do not tell: messages a second, the other process's costs, and whether all arrived as they were sent.
fn delivery(plan: &Plan, cell: &Cell, extra: &Extra) -> BTreeMap<String, Param> {
    let messages = extra.messages as f64;
    let (own, peer): (Usage, Usage) = (extra.own.usage(), extra.peer.usage());
    let per = |total: Option<u64>| total.filter(|_| extra.messages > 0).map(|t| Param::Real(t as f64 / messages));
    let per_second = (own.elapsed_ns > 0).then(|| Param::Real(extra.delivered as f64 * 1e9 / own.elapsed_ns as f64));
    let count = |n: u64| Some(Param::Int(n as i64));
    let integrity = &extra.integrity;
    let all = [
        ("per_second", per_second),
        ("peer_cpu_ns", per(peer.cpu_ns)),
        ("peer_voluntary_switches", per(peer.voluntary)),
        ("peer_involuntary_switches", per(peer.involuntary)),
        ("late_sends", cell.mode.interval().and_then(|_| count(extra.late))),
        ("verified", Some(Param::Flag(plan.verifies(cell)))),
        ("lost", count(integrity.lost)),
        ("doubled", count(integrity.doubled)),
        ("torn", count(integrity.torn)),
        ("reordered", count(integrity.reordered)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn not_measured(plan: &Plan, cell: &Cell, why: String, remedy: Option<String>) -> NotMeasured {
    let mut parameters = parameters(plan, cell);
    parameters.retain(|name, _| name == "size" || name == "mode" || name == "place");
    NotMeasured {
        experiment: EXPERIMENT.into(),
        subject: plan.mechanisms[cell.mechanism].name.clone(),
        conditions: None,
        parameters,
        why,
        remedy,
    }
}

/// Why a cell has no samples.
fn why_not(failure: &Option<Failure>, stopped: bool) -> Option<(String, Option<String>)> {
    match failure {
        Some(Failure::Impossible { why, remedy }) => Some((why.clone(), remedy.clone())),
        _ if stopped => None,
        _ => Some((
            "its share of the time is too short for one message".into(),
            Some("give more time (--duration), ask for a number (--samples), or name fewer mechanisms".into()),
        )),
    }
}

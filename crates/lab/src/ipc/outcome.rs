//! What came of a run: a series for each cell that has samples, a reason for each that has none.

use std::collections::BTreeMap;

use punctual::conditions::Refused;
use punctual_record::{
    ConditionSet, Delivery, NotMeasured, Notice, Param, Quantity, SeriesId, Steadiness, Usage,
};

use super::bench::Extra;
use super::plan::{Cell, Plan};
use super::{EXPERIMENT, Error, Mode};
use crate::Session;
use crate::rounds::{Failure, Ledger};
use crate::session;

/// What was asked of each variant, what held, what was refused.
pub(super) fn conditions(
    plan: &Plan,
    ledger: &Ledger,
    base_refused: &[Refused],
    session: &mut Session<'_>,
) -> Result<(), Error> {
    for (variant, held) in plan.variants.iter().zip(&ledger.held) {
        let Some(held) = held else { continue };
        let refusals: Vec<_> = held.refused.iter().chain(base_refused).map(session::refusal).collect();
        if let (true, Some(r)) = (plan.require, refusals.first().cloned()) {
            return Err(Error::Refused { condition: r.condition, asked: r.asked, why: r.why, remedy: r.remedy });
        }
        for refusal in &refusals {
            let (conditions, refusal) = (variant.label.clone(), refusal.clone());
            session.notice(match held.left_out {
                true => Notice::ConditionsSkipped { conditions, refusal },
                false => Notice::ConditionRefused { conditions, refusal },
            });
        }
        let (asked, applied) = (session::asked(&variant.over(&plan.base)), session::applied(&held.applied));
        session.add_conditions(ConditionSet { label: variant.label.clone(), asked, applied, refused: refusals });
    }
    if let (true, Some(r)) = (plan.require, base_refused.first().map(session::refusal)) {
        return Err(Error::Refused { condition: r.condition, asked: r.asked, why: r.why, remedy: r.remedy });
    }
    Ok(())
}

/// Enters series and reasons; tells what went wrong with messages and processes.
pub(super) fn cells(plan: &Plan, ledger: Ledger, extras: &[Extra], session: &mut Session<'_>) -> Vec<String> {
    let (mut judged, mut unsteady) = (0, 0);
    let mut wrong = Vec::new();
    for (index, cell) in plan.cells.iter().enumerate() {
        let (tally, extra) = (&ledger.tallies[index], &extras[index]);
        let mechanism = plan.mechanisms[cell.mechanism];
        if let Some(how) = &extra.peer_ended {
            let what = format!("{}, {} bytes, {}: the other process {how} in the middle", mechanism.name, cell.size, cell.mode);
            let why = format!("the other process {how} in the middle");
            session.add_not_measured(not_measured(plan, cell, why, None));
            wrong.push(what);
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
        series.delivery = Some(delivery(plan, cell, extra));
        if let Some(steadiness) = Steadiness::of(&series) {
            judged += 1;
            unsteady += u32::from(steadiness.is_unsteady());
        }
        if mechanism.reliable && !extra.integrity.is_whole() {
            wrong.push(broken_promise(&mechanism.name, cell, extra));
        }
        session.add_series(series);
    }
    // By chance alone one series in a hundred is called unsteady: it is said only when clearly more are.
    if unsteady > 1 && unsteady * 20 > judged {
        session.notice(Notice::Unsteady { series: unsteady, judged });
    }
    session.add_usage(ledger.own.usage());
    for notice in ledger.notices {
        session.notice(notice);
    }
    wrong
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

fn delivery(plan: &Plan, cell: &Cell, extra: &Extra) -> Delivery {
    let per = |total: Option<u64>| total.filter(|_| extra.messages > 0).map(|t| t as f64 / extra.messages as f64);
    let (own, peer): (Usage, Usage) = (extra.own.usage(), extra.peer.usage());
    let per_second = (own.elapsed_ns > 0).then(|| extra.messages as f64 * 1e9 / own.elapsed_ns as f64);
    Delivery {
        per_second,
        peer_cpu_ns_per_op: per(peer.cpu_ns),
        peer_voluntary_switches_per_op: per(peer.voluntary),
        peer_involuntary_switches_per_op: per(peer.involuntary),
        late_sends: cell.mode.interval().map(|_| extra.late),
        verified: plan.verifies(cell),
        integrity: extra.integrity,
    }
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

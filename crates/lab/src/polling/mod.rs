//! How often to poll before yielding: the latency of a message, and what others get of the CPU meanwhile.
//!
//! In goes a [`Plan`]; a receiver on one CPU waits for messages that a sender process on another sends at random moments. It polls
//! so many times, yields, polls again; or it never yields, or blocks, or backs off. With and without a busy program on its CPU. The
//! figures go into the [`Session`]: for each way a series `one_way` and a series `round_trip`, and, where the busy program
//! runs, the shares of the CPU while no message comes.

mod bench;
mod mailbox;
pub mod plan;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual::conditions::{Conditions, CpuSet};
use punctual_linux::child::Child;
use punctual_record::{NotMeasured, Param, Quantity, SeriesId};

use crate::breaks::Look;
use crate::crowd::{Crowd, Kind, Restraint, child_under};
use crate::family::{self, Judge};
use crate::rounds::{self, Failure, Ledger, Rounds, SharedLedger, open};
use crate::stage::Stage;
use crate::yielding::method::Method;
use crate::yielding::{Error, methods};
use crate::{Place, Session, Variant};
use bench::{Extra, PollBench, SharedExtras, lock};
use mailbox::Mailbox;
pub use plan::{MOST_POLLS, Plan, PlanError, Wanted, Way};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "polls";

/// The yields of the MPICH study.
#[must_use]
pub fn usual_methods() -> Vec<&'static Method> {
    ["sched_yield", "usleep0"].iter().filter_map(|name| methods::find(name)).collect()
}

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(session, plan.cells.len(), plan.variants.len());
    let extras = Arc::new(Mutex::new(vec![Extra::default(); plan.cells.len()]));
    for (index, cell) in plan.cells.iter().enumerate() {
        if let Some((why, remedy)) = plan.forbidden(cell) {
            open(&ledger).failures[index] = Some(Failure::Impossible { why, remedy: Some(remedy) });
        }
    }
    // The sender, on the other CPU, is under no real-time policy: a supervisor that sleeps there takes nothing from it.
    let place = Place::on_cpu(Some(plan.cpu), plan.variants.iter().any(Variant::is_real_time));
    let performed = session.perform(place, {
        let (plan, ledger, extras) = (Arc::clone(&plan), Arc::clone(&ledger), Arc::clone(&extras));
        move |stage| perform(&plan, &ledger, extras, stage)
    })?;
    let ledger = std::mem::take(&mut *open(&ledger));
    let refused = performed.unwrap_or_default();
    let met = family::report_conditions(&plan.variants, &plan.base, plan.require, &ledger, &refused, session);
    let extras = std::mem::take(&mut *lock(&extras));
    report_cells(&plan, ledger, extras, session);
    Ok(met?)
}

/// On the stage. What was refused of the base conditions.
fn perform(
    plan: &Plan,
    ledger: &SharedLedger,
    extras: SharedExtras,
    stage: &Stage,
) -> Vec<punctual::conditions::Refused> {
    stage.announce(plan.schedule().at_most());
    // Before anything is applied: the others' conditions are their own, not the receiver's.
    let pinned = |cpu| Conditions { cpus: Some(CpuSet::of([cpu])), ..Conditions::default() };
    let sender = send_from(plan, &pinned(plan.sender_cpu));
    let busy = Crowd::gather(Kind::Process, 1, &pinned(plan.cpu), Restraint::None);
    // The thread ends with the experiment: what cannot be put back ends with it.
    let mut guard = Conditions { one_way: true, ..plan.base.clone() }.apply();
    let refused = guard.refused().to_vec();
    match sender {
        Err(failure) => open(ledger).failures.fill(Some(failure)),
        Ok(_) if plan.require && !refused.is_empty() => {}
        Ok(sender) => {
            let bench = PollBench::open(plan, sender, busy, extras);
            let (rounds, require, variants) = (plan.rounds, plan.require, plan.variants.as_slice());
            let (schedule, ledger, base, look) = (plan.schedule(), Arc::clone(ledger), &mut guard, Look::now);
            Rounds { bench, schedule, variants, rounds, require, ledger, stage, base, look }.perform();
        }
    }
    family::put_back(guard, ledger);
    refused
}

/// The sender, in a process of its own.
fn send_from(plan: &Plan, conditions: &Conditions) -> Result<(Mailbox, Child), Failure> {
    let failed = |error: punctual_linux::Error| Failure::Impossible {
        why: format!("starting the sender: {error}"),
        remedy: Some("raise ulimit -u or the cgroup's pids.max".into()),
    };
    let mailbox = Mailbox::new().map_err(failed)?;
    let (theirs, own_cpu) = (mailbox.clone(), !plan.shares_cpu());
    let parent = std::process::id();
    let lives = move || std::os::unix::process::parent_id() == parent && !punctual_linux::deadline::passed();
    let sender = child_under("punctual-send", conditions, move || theirs.send_all(own_cpu, lives));
    Ok((mailbox, sender.map_err(failed)??))
}

/// Two series for each cell that has samples, a reason for each that has none.
fn report_cells(plan: &Plan, ledger: Ledger, extras: Vec<Extra>, session: &mut Session<'_>) {
    let mut judge = Judge::default();
    for (index, cell) in plan.cells.iter().enumerate() {
        let tally = &ledger.tallies[index];
        if tally.count() == 0 {
            let left_out = ledger.held[cell.variant].as_ref().is_some_and(|h| h.left_out);
            let reason = why_not(&ledger.failures[index], session.stopped());
            if let (false, Some((why, remedy))) = (left_out, reason) {
                session.add_not_measured(not_measured(plan, index, why, remedy));
            }
            continue;
        }
        let extra = &extras[index];
        let mut series = tally.to_series(identity(plan, index, Quantity::OneWay));
        series.outcome = outcome(extra);
        judge.look_at(&series);
        session.add_series(series);
        if extra.round_trips.count() > 0 {
            session.add_series(extra.round_trips.to_series(identity(plan, index, Quantity::RoundTrip)));
        }
    }
    judge.say(session);
    family::close(ledger, session);
}

/// The name of a way in the record.
fn subject(plan: &Plan, way: Way) -> &'static str {
    match way {
        Way::Spin => "never_yields",
        Way::Yield { method, .. } => plan.methods[method].name,
        Way::Block => "futex_wait",
        Way::Backoff => "backoff",
    }
}

fn parameters(plan: &Plan, index: usize) -> BTreeMap<String, Param> {
    let cell = &plan.cells[index];
    let place = if plan.shares_cpu() { "same CPU" } else { "other CPU" };
    let mut parameters = BTreeMap::from([
        ("load".to_owned(), Param::Text(if cell.busy { "busy" } else { "idle" }.into())),
        ("sender".to_owned(), Param::Text(place.into())),
    ]);
    match cell.way {
        Way::Spin => drop(parameters.insert("polls".into(), Param::Int(0))),
        Way::Yield { polls, .. } => drop(parameters.insert("polls".into(), Param::Int(polls.into()))),
        Way::Block | Way::Backoff => {}
    }
    parameters
}

fn identity(plan: &Plan, index: usize, quantity: Quantity) -> SeriesId {
    let cell = &plan.cells[index];
    SeriesId {
        experiment: EXPERIMENT.into(),
        subject: subject(plan, cell.way).into(),
        conditions: plan.variants[cell.variant].label.clone(),
        parameters: parameters(plan, index),
        quantity,
    }
}

/// The shares of the CPU while no message came.
fn outcome(extra: &Extra) -> BTreeMap<String, Param> {
    let silence = &extra.silence;
    if silence.elapsed_ns == 0 {
        return BTreeMap::new();
    }
    let share = |ns: i64| Param::Real(ns as f64 / silence.elapsed_ns as f64);
    BTreeMap::from([
        ("competitor_cpu_share".to_owned(), share(silence.competitor_ns)),
        ("own_cpu_share".to_owned(), share(silence.own_ns)),
    ])
}

fn not_measured(plan: &Plan, index: usize, why: String, remedy: Option<String>) -> NotMeasured {
    let cell = &plan.cells[index];
    NotMeasured {
        experiment: EXPERIMENT.into(),
        subject: subject(plan, cell.way).into(),
        conditions: Some(plan.variants[cell.variant].label.clone()),
        parameters: parameters(plan, index),
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
            "its share of the time did not pay for one message".into(),
            Some("give more time (--duration), ask for a number (--samples), or compare fewer settings".into()),
        )),
    }
}

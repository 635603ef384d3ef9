//! What each way of giving up the CPU costs, and who gains by it.
//!
//! In goes a [`Plan`]; the figures go into the [`Session`]: for each method, situation (alone, or with so many competitors on the
//! same CPU) and variant of conditions a series `call_cost` (each call between two clock readings), a series `away` (those calls during
//! which a competitor ran), and with the former the results that are no distribution: the cost in a bare loop, user and system time,
//! how many calls let a competitor run, and who had which share of the CPU.
//!
//! That a competitor ran is proved by its own progress, not by the caller's clock: see [`crate::crowd`].

mod bench;
pub mod method;
pub mod methods;
pub mod observed;
pub mod plan;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use punctual::conditions::{Conditions, Policy};
use punctual_record::{NotMeasured, Param, Quantity, SeriesId};

use crate::breaks::Look;
use crate::crowd::Crowd;
use crate::family::{self, Judge, Unmet};
use crate::rounds::{self, Failure, Ledger, Rounds, open};
use crate::{Place, Session, Variant};
use bench::{Extra, YieldBench, lock};
use method::Method;
use plan::Sort;
pub use plan::{Against, Plan, PlanError, Wanted};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "yield";

/// Why the experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No thread could be started.
    #[error("starting the measuring thread: {0}; {remedy}", remedy = crate::no_thread::remedy())]
    Thread(#[from] std::io::Error),
    /// A condition was refused or lost, and the caller insists on it.
    #[error(transparent)]
    Unmet(#[from] Unmet),
}

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(session, plan.cells.len(), plan.variants.len());
    let extras = Arc::new(Mutex::new(vec![Extra::default(); plan.cells.len()]));
    let observed: Vec<String> = plan.methods.iter().map(|m| observed::in_words(m)).collect();
    let competes = |sort: &Sort| sort.policy.as_ref().is_some_and(Policy::is_real_time);
    let real_time = plan.variants.iter().any(Variant::is_real_time) || plan.sorts.iter().any(competes);
    let place = Place::on_cpu(Some(plan.cpu), real_time);
    let performed = session.perform(place, {
        let (plan, ledger, extras) = (Arc::clone(&plan), Arc::clone(&ledger), Arc::clone(&extras));
        move |stage| {
            stage.announce(plan.schedule().at_most());
            // Gathered before anything is applied: the competitors' conditions are their own, not the caller's.
            let crowds: Vec<_> = plan
                .sorts
                .iter()
                .enumerate()
                .map(|(index, sort)| {
                    Crowd::gather(sort.kind, plan.most_of(index), &sort.conditions(plan.cpu), sort.restraint())
                })
                .collect();
            // The thread ends with the experiment: what cannot be put back ends with it.
            let mut guard = Conditions { one_way: true, ..plan.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            if !plan.require || refused.is_empty() {
                let bench = YieldBench::open(&plan, crowds, extras);
                let (rounds, require, variants) = (plan.rounds, plan.require, plan.variants.as_slice());
                let schedule = plan.schedule();
                let (ledger, base, look) = (Arc::clone(&ledger), &mut guard, Look::now);
                Rounds { bench, schedule, variants, rounds, require, ledger, stage, base, look }.perform();
            }
            family::put_back(guard, &ledger);
            refused
        }
    })?;
    let ledger = std::mem::take(&mut *open(&ledger));
    let refused = performed.unwrap_or_default();
    let met = family::report_conditions(&plan.variants, &plan.base, plan.require, &ledger, &refused, session);
    let extras = std::mem::take(&mut *lock(&extras));
    report_cells(&plan, ledger, extras, &observed, session);
    Ok(met?)
}

/// A series for each cell that has samples, a reason for each that has none.
fn report_cells(plan: &Plan, ledger: Ledger, extras: Vec<Extra>, observed: &[String], session: &mut Session<'_>) {
    let mut judge = Judge::default();
    for (index, cell) in plan.cells.iter().enumerate() {
        let method = plan.methods[cell.method];
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
        let mut series = tally.to_series(identity(plan, index, method, Quantity::CallCost));
        series.outcome = outcome(cell.competitors, extra, &observed[cell.method]);
        judge.look_at(&series);
        session.add_series(series);
        if extra.away.count() > 0 {
            session.add_series(extra.away.to_series(identity(plan, index, method, Quantity::Away)));
        }
    }
    judge.say(session);
    family::close(ledger, session);
}

fn identity(plan: &Plan, index: usize, method: &Method, quantity: Quantity) -> SeriesId {
    let cell = &plan.cells[index];
    SeriesId {
        experiment: EXPERIMENT.into(),
        subject: method.name.into(),
        conditions: plan.variants[cell.variant].label.clone(),
        parameters: parameters(plan, index),
        quantity,
    }
}

fn parameters(plan: &Plan, index: usize) -> BTreeMap<String, Param> {
    let cell = &plan.cells[index];
    let mut parameters = BTreeMap::from([
        ("call".to_owned(), Param::Text(plan.methods[cell.method].call.into())),
        ("competitors".to_owned(), Param::Int(cell.competitors.into())),
    ]);
    if let Some(sort) = cell.sort.map(|sort| &plan.sorts[sort]) {
        parameters.insert("competitor_kind".into(), Param::Text(sort.kind.name().into()));
        parameters.insert("competitor_policy".into(), Param::Text(sort.label()));
        parameters.insert("competitor_rank".into(), Param::Text(sort.rank.name().into()));
    }
    parameters
}

/// What is no distribution.
fn outcome(competitors: u32, extra: &Extra, observed: &str) -> BTreeMap<String, Param> {
    let sums = &extra.sums;
    let mut outcome = BTreeMap::from([("observed".to_owned(), Param::Text(observed.to_owned()))]);
    let mut put = |name: &str, value: f64| {
        if value.is_finite() {
            outcome.insert(name.to_owned(), Param::Real(value));
        }
    };
    let mut bare = extra.bare_ns.clone();
    bare.sort_by(f64::total_cmp);
    if let Some(median) = bare.get(bare.len() / 2) {
        put("bare_ns", *median);
    }
    put("user_ns_per_op", sums.user_ns as f64 / sums.accounted_calls as f64);
    put("system_ns_per_op", sums.system_ns as f64 / sums.accounted_calls as f64);
    if competitors > 0 {
        put("yielded_share", sums.calls_with_competitor as f64 / sums.calls as f64);
        put("competitor_cpu_share", sums.competitors_cpu_ns as f64 / sums.elapsed_ns as f64);
        put("own_cpu_share", sums.own_cpu_ns as f64 / sums.elapsed_ns as f64);
    }
    outcome
}

fn not_measured(plan: &Plan, index: usize, why: String, remedy: Option<String>) -> NotMeasured {
    let cell = &plan.cells[index];
    let mut parameters = parameters(plan, index);
    parameters.remove("call");
    NotMeasured {
        experiment: EXPERIMENT.into(),
        subject: plan.methods[cell.method].name.into(),
        conditions: Some(plan.variants[cell.variant].label.clone()),
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
            "its share of the time did not pay for one call".into(),
            Some("give more time (--duration), ask for a number (--samples), or name fewer methods".into()),
        )),
    }
}

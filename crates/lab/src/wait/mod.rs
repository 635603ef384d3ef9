//! How late each way of waiting wakes up, and what CPU time it costs.
//!
//! In goes a [`Plan`]; the figures go into the [`Session`]: a series per method, duration and variant of conditions (`overshoot` for
//! calls that take a duration, `lateness` for those that take a deadline), or the reason why there is none.

mod bench;
pub mod method;
pub mod methods;
pub mod observed;
pub mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual::conditions::Conditions;
use punctual::format_duration;
use punctual_record::{NotMeasured, Notice, Param, Quantity, SeriesId};

use crate::breaks::Look;
use crate::family::{self, Judge, Unmet};
use crate::rounds::{self, Failure, Ledger, Rounds, open};
use crate::{Place, Session, Variant};
use bench::WaitBench;
use method::Method;
pub(crate) use plan::rough;
pub use plan::{Plan, PlanError, Wanted};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "wait";

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
    for (index, cell) in plan.cells.iter().enumerate() {
        if let Some((why, remedy)) = plan.forbidden(cell) {
            open(&ledger).failures[index] = Some(Failure::Impossible { why, remedy: Some(remedy) });
        }
    }
    let hz = session.host().hz;
    let place = Place::on(plan.base.cpus.as_ref(), plan.variants.iter().any(Variant::is_real_time));
    let base = session.perform(place, {
        let (plan, ledger) = (Arc::clone(&plan), Arc::clone(&ledger));
        move |stage| {
            stage.announce(plan.schedule(hz).at_most());
            // The thread ends with the experiment: what cannot be put back ends with it.
            let mut guard = Conditions { one_way: true, ..plan.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            if !plan.require || refused.is_empty() {
                let bench = WaitBench::open(&plan);
                let schedule = plan.schedule(hz);
                let (rounds, require, variants) = (plan.rounds, plan.require, plan.variants.as_slice());
                let (ledger, base, look) = (Arc::clone(&ledger), &mut guard, Look::now);
                Rounds { bench, schedule, variants, rounds, require, ledger, stage, base, look }.perform();
            }
            family::put_back(guard, &ledger);
            refused
        }
    })?;
    let ledger = std::mem::take(&mut *open(&ledger));
    let refused = base.unwrap_or_default();
    let met = family::report_conditions(&plan.variants, &plan.base, plan.require, &ledger, &refused, session);
    report_cells(&plan, ledger, hz, session);
    Ok(met?)
}

/// A series for each cell that has samples, a reason for each that has none.
fn report_cells(plan: &Plan, ledger: Ledger, hz: Option<u32>, session: &mut Session<'_>) {
    let schedule = plan.schedule(hz);
    let mut judge = Judge::default();
    for (index, cell) in plan.cells.iter().enumerate() {
        let method = plan.methods[cell.method];
        let asked_ns = cell.asked.as_nanos() as i64;
        let effective_ns = method.effective_ns(asked_ns, hz);
        let tally = &ledger.tallies[index];
        if tally.count() == 0 {
            let left_out = ledger.held[cell.variant].as_ref().is_some_and(|h| h.left_out);
            let reason = why_not(&ledger.failures[index], session.stopped(), schedule.share(index), effective_ns);
            if let (false, Some((why, remedy))) = (left_out, reason) {
                session.add_not_measured(not_measured(plan, index, why, remedy));
            }
            continue;
        }
        let series = tally.to_series(identity(plan, index, effective_ns));
        judge.look_at(&series);
        if series.summary.negative > 0 {
            let (subject, count) = (method.name.to_owned(), series.summary.negative);
            session.notice(Notice::Early { subject, count, min_ns: series.summary.min.unwrap_or(0) });
        }
        session.add_series(series);
    }
    judge.say(session);
    family::close(ledger, session);
}

fn identity(plan: &Plan, index: usize, effective_ns: i64) -> SeriesId {
    let cell = &plan.cells[index];
    let method = plan.methods[cell.method];
    SeriesId {
        experiment: plan.experiment.into(),
        subject: method.name.into(),
        conditions: plan.variants[cell.variant].label.clone(),
        parameters: BTreeMap::from([
            ("asked_ns".to_owned(), Param::Int(cell.asked.as_nanos() as i64)),
            ("effective_ns".to_owned(), Param::Int(effective_ns)),
            ("call".to_owned(), Param::Text(method.call.into())),
            ("kind".to_owned(), Param::Text(method.kind.name().into())),
        ]),
        quantity: if method.absolute { Quantity::Lateness } else { Quantity::Overshoot },
    }
}

fn not_measured(plan: &Plan, index: usize, why: String, remedy: Option<String>) -> NotMeasured {
    let cell = &plan.cells[index];
    let method: &Method = plan.methods[cell.method];
    NotMeasured {
        experiment: plan.experiment.into(),
        subject: method.name.into(),
        conditions: None,
        parameters: BTreeMap::new(),
        why,
        remedy,
    }
}

/// Why a cell has no samples.
fn why_not(
    failure: &Option<Failure>,
    stopped: bool,
    share: Duration,
    effective_ns: i64,
) -> Option<(String, Option<String>)> {
    match failure {
        Some(Failure::Impossible { why, remedy }) => Some((why.clone(), remedy.clone())),
        _ if stopped => None,
        _ => {
            let effective = Duration::from_nanos(effective_ns.unsigned_abs());
            let why = match effective > share {
                true => format!(
                    "the call makes {} of it, longer than its share of the time ({})",
                    format_duration(effective),
                    rough(share)
                ),
                false => format!("the machine left no time for a wait within its share of the time ({})", rough(share)),
            };
            Some((why, Some("give more time (--duration), ask for a number (--samples), or name fewer methods".into())))
        }
    }
}

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

use punctual::conditions::{Conditions, Guard};
use punctual::format_duration;
use punctual_record::{ConditionSet, NotMeasured, Notice, Param, Quantity, SeriesId, Steadiness};

use crate::rounds::{self, Failure, Ledger, Rounds, open};
use crate::session;
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
    #[error("starting the measuring thread: {0}; the limit may be RLIMIT_NPROC (ulimit -u) or the cgroup's pids.max")]
    Thread(#[from] std::io::Error),
    /// A condition was refused, and the caller insists on it.
    #[error("{condition} {asked} was refused: {why}; {remedy}")]
    Refused {
        /// Which condition.
        condition: String,
        /// What was asked.
        asked: String,
        /// Why not.
        why: String,
        /// What would make it work.
        remedy: String,
    },
}

/// Runs the plan and puts what it measured into the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(plan.cells.len(), plan.variants.len());
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
            let guard = Conditions { one_way: true, ..plan.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            if !plan.require || refused.is_empty() {
                let bench = WaitBench::open(&plan);
                let schedule = plan.schedule(hz);
                let (rounds, require, variants) = (plan.rounds, plan.require, plan.variants.as_slice());
                Rounds { bench, schedule, variants, rounds, require, ledger: Arc::clone(&ledger), stage }.perform();
            }
            put_back(guard, &ledger);
            refused
        }
    })?;
    let ledger = std::mem::take(&mut *open(&ledger));
    report_conditions(&plan, &ledger, base.as_deref().unwrap_or_default(), session)?;
    report_cells(&plan, ledger, hz, session);
    Ok(())
}

fn put_back(guard: Guard, ledger: &rounds::SharedLedger) {
    for left in guard.restore() {
        open(ledger).notices.push(session::not_restored(&left));
    }
}

/// What was asked of each variant, what held, what was refused.
fn report_conditions(
    plan: &Plan,
    ledger: &Ledger,
    base_refused: &[punctual::conditions::Refused],
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

/// A series for each cell that has samples, a reason for each that has none.
fn report_cells(plan: &Plan, ledger: Ledger, hz: Option<u32>, session: &mut Session<'_>) {
    let schedule = plan.schedule(hz);
    let (mut judged, mut unsteady) = (0, 0);
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
        if let Some(steadiness) = Steadiness::of(&series) {
            judged += 1;
            unsteady += u32::from(steadiness.is_unsteady());
        }
        if series.summary.negative > 0 {
            let (subject, count) = (method.name.to_owned(), series.summary.negative);
            session.notice(Notice::Early { subject, count, min_ns: series.summary.min.unwrap_or(0) });
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
            let effective = format_duration(Duration::from_nanos(effective_ns.unsigned_abs()));
            Some((
                format!("the call makes {effective} of it, longer than its share of the time ({})", rough(share)),
                Some("give more time (--duration), ask for a number (--samples), or name fewer methods".into()),
            ))
        }
    }
}

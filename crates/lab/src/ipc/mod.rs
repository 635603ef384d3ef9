//! How long a message takes from one process to another, and what it costs both.
//!
//! In goes a [`Plan`]; the figures go into the [`Session`]: a series per mechanism, size, mode, place, way of receiving and variant of conditions
//! (`one_way`, or `round_trip` in ping-pong, which is never halved), or the reason why there is none.
//!
//! The process that measures receives; a child of it sends (in ping-pong: answers). Both ends are opened before the fork and names are taken
//! away at once, so that nothing can be left behind; see [`keeper`] for what must stay a while.

mod bench;
mod block;
mod control;
mod halt;
mod integrity;
pub mod keeper;
pub mod mechanism;
pub mod mechanisms;
mod message;
mod outcome;
mod peer;
pub mod place;
pub mod plan;
#[cfg(test)]
mod tests;
pub mod topology;
mod traffic;
mod trip;
mod waiter;
mod watcher;

use std::sync::{Arc, Mutex, PoisonError};

use punctual::conditions::Conditions;

use crate::breaks::Look;
use crate::family::{self, Unmet};
use crate::rounds::{self, Failure, Rounds, open};
use crate::{Place, Session};
pub use bench::NoBench;
use bench::{Extra, IpcBench};
pub use message::SHORTEST;
pub use plan::{Plan, PlanError, Wanted};
pub use traffic::Mode;

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "ipc";

/// Why the experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No thread could be started.
    #[error("starting the measuring thread: {0}; {remedy}", remedy = crate::no_thread::remedy())]
    Thread(#[from] std::io::Error),
    /// What every trip needs could not be had.
    #[error(transparent)]
    Bench(#[from] NoBench),
    /// A condition was refused or lost, and the caller insists on it.
    #[error(transparent)]
    Unmet(#[from] Unmet),
}

/// Runs the plan and puts what it measured into the session. What went wrong with the messages or with the other process, which makes the
/// run a failure though it has figures, is returned in words.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<Vec<String>, Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(session, plan.cells.len(), plan.variants.len());
    let extras = Arc::new(Mutex::new(vec![Extra::default(); plan.cells.len()]));
    for (index, cell) in plan.cells.iter().enumerate() {
        if let Some((why, remedy)) = plan.forbidden(cell) {
            open(&ledger).failures[index] = Some(Failure::Impossible { why, remedy });
        }
    }
    let base = session.perform(place_of(&plan), {
        let (plan, ledger, extras) = (Arc::clone(&plan), Arc::clone(&ledger), Arc::clone(&extras));
        move |stage| {
            stage.announce(plan.schedule().at_most());
            // The thread ends with the experiment: what cannot be put back ends with it.
            let mut guard = Conditions { one_way: true, ..plan.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            if !plan.require || refused.is_empty() {
                let bench = IpcBench::open(&plan, stage, extras, &refused)?;
                let schedule = plan.schedule();
                let (rounds, require, variants) = (plan.rounds, plan.require, plan.variants.as_slice());
                let (ledger, base, look) = (Arc::clone(&ledger), &mut guard, Look::now);
                Rounds { bench, schedule, variants, rounds, require, ledger, stage, base, look }.perform();
            }
            family::put_back(guard, &ledger);
            Ok::<_, NoBench>(refused)
        }
    })?;
    let base_refused = base.transpose()?.unwrap_or_default();
    let ledger = std::mem::take(&mut *open(&ledger));
    let extras = std::mem::take(&mut *extras.lock().unwrap_or_else(PoisonError::into_inner));
    let met = family::report_conditions(&plan.variants, &plan.base, plan.require, &ledger, &base_refused, session);
    outcome::cores(&plan, session);
    let wrong = outcome::cells(&plan, ledger, &extras, session);
    met?;
    Ok(wrong)
}

/// The CPUs of all cells, where each cell names its own.
fn place_of(plan: &Plan) -> Place {
    let real_time = plan.cells.iter().any(|cell| plan.is_real_time(cell));
    let cpus = plan.cells.iter().map(|cell| Some([cell.place.sender?, cell.place.receiver?]));
    match cpus.collect::<Option<Vec<_>>>() {
        Some(named) => Place { cpus: named.into_iter().flatten().collect(), real_time },
        None => Place::on(plan.base.cpus.as_ref(), real_time),
    }
}

/// Opens and closes a mechanism, to see whether it works here; with the shortest message it carries.
pub fn try_open(mechanism: &mechanism::Mechanism) -> Result<(), mechanism::Unavailable> {
    let no_keeper = |e: keeper::NoKeeper| mechanism::Unavailable { why: e.to_string(), remedy: None };
    let keeper = keeper::Keeper::start().map_err(no_keeper)?;
    let asked = mechanism::Asked {
        size: SHORTEST,
        depth: None,
        both_ways: true,
        receive: mechanism::Receive::Block,
        keeper: &keeper,
        halt: mechanism::Halt::default(),
    };
    (mechanism.open)(&asked).map(drop)
}

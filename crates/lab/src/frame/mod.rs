//! The frame in which every family of experiments runs, written once. It has the request ([`Request`]), the turns
//! (`rounds`), the conditions (`conditions`, `hold`) and the results (`outcome`). It also has the batches that do
//! not count ([`left_out`]).
//!
//! A `Family` names its cells, performs a batch of one (`Bench`), and makes the record of it. `run` does the rest. It
//! applies the conditions on the measuring thread, lets the cells take turns and restores everything. It enters
//! series, reasons and notices in the [`Session`].
//!
//! No module here knows a family.

pub mod breaks;
pub(crate) mod clock_cost;
pub(crate) mod conditions;
mod course;
pub mod error;
mod family;
pub(crate) mod hold;
pub(crate) mod ledger;
pub mod left_out;
#[cfg(test)]
pub(crate) mod made;
pub(crate) mod no_thread;
pub(crate) mod outcome;
pub mod place;
pub mod plan;
pub mod progress;
pub(crate) mod report;
pub mod request;
pub(crate) mod robust;
pub(crate) mod rounds;
pub mod schedule;
pub mod session;
pub(crate) mod settings;
pub mod stage;
pub(crate) mod stop;
#[cfg(test)]
mod tests;
mod tracer;
pub(crate) mod unavailable;
pub(crate) mod unseen;
pub(crate) mod usage;
pub mod variant;
pub(crate) mod warden;
pub(crate) mod watching;

use std::sync::Arc;

use breaks::Look;
pub use error::{Error, Failure};
pub(crate) use family::{Family, Layout, Scene, names};
pub(crate) use ledger::{Ledger, Shared};
pub(crate) use place::Place;
pub use plan::{Input, PlanError};
pub(crate) use progress::Portion;
pub use progress::{Observer, Progress, Silent};
pub(crate) use report::{Asked, Measured, Report};
pub use request::{Amount, Request, Watched};
use rounds::kept::Kept;
pub(crate) use rounds::{Bench, Rounds};
pub use session::Session;
pub use settings::condition_set;
pub use stage::Stop;
pub use tracer::Tracer;
pub use unavailable::Unavailable;
pub use variant::{BadVariant, Variant};

use punctual::conditions::Refused;
use stage::Stage;
use watching::Watching;

/// The results of a family after its run.
pub(crate) struct Done<X> {
    /// The results of each cell beside its samples.
    pub(crate) extras: Vec<X>,
    /// Errors of a run that has figures, in words.
    pub(crate) wrong: Vec<String>,
}

/// Runs a family and enters its measurements in the session.
pub(crate) fn run<F: Family>(family: F, session: &mut Session<'_>) -> Result<Done<F::Extra>, Error> {
    let Performed { family, mut ledger, extras, refused } = performed(family, session)?;
    ledger.causes.take().into_iter().for_each(|causes| session.set_causes(causes));
    let met = conditions::report(family.request(), &ledger, &refused, session);
    let wrong = outcome::cells(&*family, ledger, (&extras, &refused), session);
    met?;
    Ok(Done { extras, wrong })
}

/// Runs a family for the causes of its late wake-ups alone ([`Watched::ForCauses`]): its figures are not entered.
pub(crate) fn causes<F: Family>(family: F, session: &mut Session<'_>) -> Result<(), Error> {
    let ledger = performed(family, session)?.ledger;
    session.add_usage(ledger.own.usage());
    ledger.causes.into_iter().for_each(|causes| session.set_causes(causes));
    ledger.notices.into_iter().for_each(|notice| session.notice(notice));
    Ok(())
}

/// The results of a family's time on the stage.
struct Performed<F: Family> {
    family: Arc<F>,
    ledger: Ledger,
    extras: Vec<F::Extra>,
    refused: Vec<Refused>,
}

fn performed<F: Family>(mut family: F, session: &mut Session<'_>) -> Result<Performed<F>, Error> {
    family.prepare(session)?;
    let family = Arc::new(family);
    let ledger = Ledger::new(session, family.cells(), family.request().variants.len());
    for cell in 0..family.cells() {
        ledger.open().failures[cell] = family.forbidden(cell).map(Failure::Impossible);
    }
    let extras = Shared::new((0..family.cells()).map(|_| F::Extra::default()).collect::<Vec<_>>());
    let watching = Watching::new(family.request().watch, session.take_tracer());
    let refused = session.perform(family.place(), {
        let (family, ledger, extras) = (Arc::clone(&family), ledger.clone(), extras.clone());
        move |stage| perform(&*family, &ledger, &extras, stage, watching)
    })?;
    let refused = refused.transpose()?.unwrap_or_default();
    Ok(Performed { family, ledger: ledger.take(), extras: extras.take(), refused })
}

/// Runs on the stage. Returns the refused base conditions.
fn perform<F: Family>(
    family: &F,
    ledger: &Shared<Ledger>,
    extras: &Shared<Vec<F::Extra>>,
    stage: &Stage,
    watching: Watching,
) -> Result<Vec<Refused>, Error> {
    let (request, schedule) = (family.request(), family.schedule());
    stage.announce(schedule.at_most());
    let mut scene = Scene { stage, ledger, refused: Vec::new() };
    let company = family.gather(&scene);
    let mut base = conditions::apply(&request.base, ledger);
    scene.refused = base.refused().to_vec();
    match company {
        Err(failure) => ledger.open().failures.fill(Some(failure)),
        Ok(_) if request.require && !scene.refused.is_empty() => {}
        Ok(company) => {
            let mut bench = family.open(company, &scene)?;
            let variant_of = (0..family.cells()).map(|cell| family.variant(cell)).collect();
            let mut kept = Kept { bench: &mut *bench, extras: extras.clone() };
            let (bench, ledger, base, look) = (&mut kept, ledger.clone(), &mut base, Look::now);
            Rounds { bench, schedule, request, variant_of, ledger, stage, base, look, watching }.perform();
        }
    }
    conditions::put_back(base, ledger);
    Ok(scene.refused)
}

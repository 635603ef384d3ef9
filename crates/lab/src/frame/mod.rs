//! The frame in which every family of experiments runs, written once: the request ([`plan`]), the turns (`rounds`), the
//! batches that do not count ([`breaks`]) and the results (`ledger`).
//!
//! A `Family` names its cells, performs a batch of one (`Bench`), and makes the record of it. `run` does the rest. It
//! applies the conditions on the measuring thread, lets the cells take turns and restores everything. It enters a series
//! for each cell with samples, a reason for each cell without, and the notices in the [`Session`].
//!
//! No module here knows a family.

pub(crate) mod breaks;
pub(crate) mod error;
mod family;
pub(crate) mod figures;
pub(crate) mod ledger;
pub(crate) mod places;
pub(crate) mod plan;
pub(crate) mod rounds;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod stage;
#[cfg(test)]
pub(crate) mod tests;
mod watch;

use std::sync::Arc;

use punctual::conditions::{Applied, Refused};
use punctual_record::{ConditionSet, NotMeasured, Notice, Run, Series, SeriesTally};

use breaks::Look;
pub(crate) use breaks::{NotKept, moved_away};
pub use error::Error;
pub(crate) use error::{Failure, Opened, Unavailable, more_time, no_thread_remedy, ready};
use family::WithExtras;
pub(crate) use family::{Bench, CellId, Family, Gathered, Layout, Measured, Report, Scene, names};
pub(crate) use figures::{Meter, Sum, next_stretch};
pub(crate) use ledger::Ledger;
pub use ledger::condition_set;
pub(crate) use places::Place;
pub use places::one_cpu;
pub use plan::{BadVariant, Input, PlanError, Request, Variant, Watched};
pub(crate) use plan::{MethodCell, at_least_one, place_of, rough};
use rounds::Rounds;
pub use schedule::Amount;
pub(crate) use schedule::{CellCost, Schedule};
pub use session::Session;
pub use stage::{Observer, Progress, Silent, Stop};
pub(crate) use stage::{Portion, Shared, Stage, go_on};
use watch::Watching;
pub use watch::{Sight, Tracer, sight};

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
    let met = ledger.report(family.request(), &refused, session);
    let wrong = enter_cells(&*family, ledger, (&extras, &refused), session);
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
    let (cells, variants) = (family.cells(), family.request().variants.len());
    let ledger = Ledger::new(session, cells, variants);
    for cell in 0..cells {
        ledger.open().failures[cell] = family.forbidden(cell).map(Failure::Impossible);
    }
    let no_extras = || (0..cells).map(|_| F::Extra::default()).collect::<Vec<_>>();
    let extras = Shared::new(no_extras());
    let watching = Watching::new(family.request().watch, session.take_tracer());
    let so_far = |run: &mut Run| enter_so_far(&*family, &ledger.open(), &extras.open(), run);
    let refused = session.perform_shown(family.place(), &so_far, {
        let (family, ledger, extras) = (Arc::clone(&family), ledger.clone(), extras.clone());
        move |stage| perform(&*family, &ledger, &extras, stage, watching)
    })?;
    let refused = refused.transpose()?.unwrap_or_default();
    let (ledger, extras) = (ledger.replace(Ledger::empty(cells, variants)), extras.replace(no_extras()));
    Ok(Performed { family, ledger, extras, refused })
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
    let gathered = family.gather(&scene);
    let Applied { guard: mut base, refused } = ledger.apply(&request.base);
    scene.refused = refused;
    match gathered {
        Err(failure) => ledger.open().failures.fill(Some(failure)),
        Ok(_) if request.require && !scene.refused.is_empty() => {}
        Ok(open) => {
            let mut bench = open(&scene)?;
            let variant_of = (0..family.cells()).map(|cell| family.variant(cell)).collect();
            let mut bench = WithExtras { bench: &mut *bench, extras: extras.clone() };
            let (bench, ledger, base, look) = (&mut bench, ledger.clone(), &mut base, Look::now);
            Rounds { bench, schedule, request, variant_of, ledger, stage, base, look, watching }.perform();
        }
    }
    ledger.put_back(base);
    Ok(scene.refused)
}

/// Enters series and reasons, then all notices. Returns the errors.
fn enter_cells<F: Family>(
    family: &F,
    ledger: Ledger,
    (extras, base_refused): (&[F::Extra], &[Refused]),
    session: &mut Session<'_>,
) -> Vec<String> {
    let (mut judge, mut wrong) = (Judge::default(), Vec::new());
    for cell in 0..extras.len() {
        if let Some(Failure::PeerEnded { subject, how }) = &ledger.failures[cell] {
            let (subject, how) = (subject.clone(), how.clone());
            wrong.push(format!("{subject}: the other process {how} in the middle"));
            session.cut_short(Notice::PeerEnded { subject, how, after_ns: session.time_of(ledger.ended_ns) });
        }
        let tally = &ledger.tallies[cell];
        let reason = reason(family, cell, &ledger, session.stopped());
        // It failed later: it has figures, but fewer than requested.
        if tally.count() == 0 || ledger.failures[cell].is_some() {
            reason.into_iter().for_each(|no| session.add_not_measured(not_measured(family, cell, no)));
        }
        if tally.count() == 0 {
            continue;
        }
        let report = {
            let refused = refused(&ledger, family.variant(cell), base_refused);
            family.report(cell, &measured(family, cell, tally, (extras, &refused)))
        };
        for (subject, no) in report.missing {
            session.add_not_measured(NotMeasured { subject, ..not_measured(family, cell, no) });
        }
        report.notices.into_iter().for_each(|notice| session.notice(notice));
        wrong.extend(report.wrong);
        report.series.first().into_iter().for_each(|series| judge.look_at(series));
        report.series.into_iter().for_each(|series| session.add_series(series));
    }
    judge.say(session);
    close(ledger, session);
    wrong
}

/// Enters the conditions that held so far, and a series for each cell with samples.
fn enter_so_far<F: Family>(family: &F, ledger: &Ledger, extras: &[F::Extra], run: &mut Run) {
    for (variant, held) in family.request().variants.iter().zip(&ledger.held) {
        let new = !run.conditions.iter().any(|set| set.label == variant.label);
        if let Some(held) = held.as_ref().filter(|_| new) {
            let set = condition_set(&variant.over(&family.request().base), &held.applied, &held.refused);
            run.conditions.push(ConditionSet { label: variant.label.clone(), ..set });
        }
    }
    for cell in (0..extras.len()).filter(|cell| ledger.tallies[*cell].count() > 0) {
        let refused = refused(ledger, family.variant(cell), &[]);
        let report = family.report(cell, &measured(family, cell, &ledger.tallies[cell], (extras, &refused)));
        run.series.extend(report.series);
    }
}

/// The measurements of a cell of this family.
fn measured<'a, F: Family>(
    family: &'a F,
    cell: usize,
    tally: &'a SeriesTally,
    (extras, refused): (&'a [F::Extra], &'a [Refused]),
) -> Measured<'a, F::Extra> {
    let conditions = &family.request().variants[family.variant(cell)].label;
    Measured { tally, extra: &extras[cell], extras, refused, identity: family.identity(cell), conditions }
}

/// The refused conditions of a variant and of the run.
fn refused(ledger: &Ledger, variant: usize, base: &[Refused]) -> Vec<Refused> {
    ledger.held[variant].iter().flat_map(|held| &held.refused).chain(base).cloned().collect()
}

/// Why a cell has no samples. `None`: the run ended before, or its variant was left out and reported elsewhere.
fn reason<F: Family>(family: &F, cell: usize, ledger: &Ledger, stopped: bool) -> Option<Unavailable> {
    if ledger.held[family.variant(cell)].as_ref().is_some_and(|held| held.left_out) {
        return None;
    }
    match &ledger.failures[cell] {
        Some(Failure::Impossible(no)) => Some(no.clone()),
        Some(Failure::PeerEnded { how, .. }) => {
            Some(Unavailable::because(format!("the other process {how} in the middle")))
        }
        _ if stopped => None,
        _ => Some(family.too_short(cell)),
    }
}

fn not_measured<F: Family>(family: &F, cell: usize, no: Unavailable) -> NotMeasured {
    let CellId { subject, experiment, .. } = family.identity(cell);
    let mut parameters = experiment.parameters();
    parameters.retain(|name, _| F::REASON_NAMES.contains(&name.as_str()));
    let label = || family.request().variants[family.variant(cell)].label.clone();
    NotMeasured {
        experiment: experiment.name().to_owned(),
        subject,
        conditions: F::REASON_NAMES_CONDITIONS.then(label),
        parameters,
        why: no.why,
        remedy: no.remedy,
    }
}

/// Enters the notices and the usage of the measuring thread in the session.
pub(crate) fn close(ledger: Ledger, session: &mut Session<'_>) {
    session.add_usage(ledger.own.usage());
    for notice in ledger.notices {
        session.notice(notice);
    }
    ledger.left_out.tell(session);
}

/// Counts the series with rounds that differ more than their samples explain.
#[derive(Debug, Default)]
struct Judge {
    judged: u32,
    unsteady: u32,
}

impl Judge {
    fn look_at(&mut self, series: &Series) {
        if let Some(steadiness) = series.steadiness() {
            self.judged += 1;
            self.unsteady += u32::from(steadiness.is_unsteady());
        }
    }

    /// By chance alone, one series in a hundred is called unsteady. The notice needs clearly more than that.
    fn say(&self, session: &mut Session<'_>) {
        if self.unsteady > 1 && self.unsteady * 20 > self.judged {
            session.notice(Notice::Unsteady { series: self.unsteady, judged: self.judged });
        }
    }
}

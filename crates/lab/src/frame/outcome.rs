//! The results of a run: series for each cell with samples, and a reason for each cell without.

use punctual::conditions::Refused;
use punctual_record::{NotMeasured, Notice, Series, SeriesTally};

use super::error::Failure;
use super::family::Family;
use super::ledger::Ledger;
use super::report::{Asked, Measured};
use super::session::Session;
use super::unavailable::Unavailable;

/// Enters series and reasons, then all notices. Returns the errors.
pub(crate) fn cells<F: Family>(
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

/// The measurements of a cell of this family.
pub(crate) fn measured<'a, F: Family>(
    family: &'a F,
    cell: usize,
    tally: &'a SeriesTally,
    (extras, refused): (&'a [F::Extra], &'a [Refused]),
) -> Measured<'a, F::Extra> {
    let conditions = &family.request().variants[family.variant(cell)].label;
    Measured { tally, extra: &extras[cell], extras, refused, asked: family.asked(cell), conditions }
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
    let Asked { subject, experiment, .. } = family.asked(cell);
    let mut parameters = experiment.parameters();
    parameters.retain(|name, _| F::PECULIAR.contains(&name.as_str()));
    let label = || family.request().variants[family.variant(cell)].label.clone();
    NotMeasured {
        experiment: experiment.name().to_owned(),
        subject,
        conditions: F::PER_VARIANT.then(label),
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

//! The remedies for what a sleep adds: compensation, the library's sleeper, other conditions, other calls.

use punctual_record::experiment::calibrate::Figure;
use punctual_record::{Experiment, Run, Series};

use crate::family::figures::Figures;
use crate::family::shared::measured;
use crate::family::wait::candidates::conditions;
use crate::format::{sanitize, spoken, units};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

use crate::family::calibrate::proof::{Calibrated, Judgement, Proof, beside};

/// Those of all methods and conditions.
pub(in crate::family) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let series = measured(series, Experiment::calibrate);
    let plain: Vec<Calibrated<'a>> = series.iter().copied().filter(|s| s.parameters.figure == Figure::Plain).collect();
    let Some((first, others)) = plain.split_first() else { return Vec::new() };
    let mut all: Vec<Candidate<'a>> =
        [compensation(&series, first), sleeper(&series, first)].into_iter().flatten().collect();
    let like = others.iter().filter(|other| other.conditions == first.conditions);
    all.extend(like.filter_map(|other| {
        let name = sanitize(&other.subject);
        candidate(&format!("{name} instead of {}", first.subject), &name, first, other)
    }));
    let asked = first.parameters.asked_ns.unwrap_or_default();
    let rows: Vec<&'a Series> = plain.iter().map(|s| s.series).collect();
    all.extend(conditions(&Figures::of(run, asked, &rows)));
    all
}

fn candidate<'a>(id: &str, what: &str, before: &Calibrated<'a>, after: &Calibrated<'a>) -> Option<Candidate<'a>> {
    let case = before.parameters.asked_ns?;
    Some(Candidate {
        id: id.to_owned(),
        goal: Goal::WakeOnTime,
        cause: id.to_owned(),
        what: what.to_owned(),
        instead_of: sanitize(&before.subject),
        trials: vec![Trial { case, name: units::exact, before: before.series, after: after.series }],
        price: Price::default(),
        code: Code::default(),
    })
}

/// The way that is shown to work: TN measured again before each batch, or TN as fitted. Early waits are no gain.
fn compensation<'a>(all: &[Calibrated<'a>], plain: &Calibrated<'a>) -> Option<Candidate<'a>> {
    let works = |figure: Figure| {
        let its = beside(all, plain.series, figure)?;
        let proof = Proof::of(its.series)?;
        (proof.judgement() == Judgement::Works).then_some((its, proof.early))
    };
    let name = sanitize(&plain.subject);
    let again = works(Figure::Remeasured).map(|its| (its, format!("{name} shortened by TN measured again")));
    let ((its, early), what) =
        again.or_else(|| Some((works(Figure::Compensated)?, format!("{name} shortened by TN"))))?;
    let program = Some(format!("{} of the waits end early", spoken::share(early)));
    Some(Candidate { price: Price { program, ..Price::default() }, ..candidate("compensation", &what, plain, &its)? })
}

fn sleeper<'a>(all: &[Calibrated<'a>], plain: &Calibrated<'a>) -> Option<Candidate<'a>> {
    let its = beside(all, plain.series, Figure::CompensatedSleeper)?;
    let rust = Some("SleeperOptions::new().strategy(Strategy::Compensated).build()".to_owned());
    let what = "punctual::Sleeper, compensated";
    Some(Candidate { code: Code { rust, ..Code::default() }, ..candidate("sleeper", what, plain, &its)? })
}

//! What a boost is worth, with its price: the answer, and the remedies that a run can judge.

use punctual_record::{Experiment, Run, Series};

use crate::evidence::Outcome;
use crate::format::{listed, sanitize, spoken, unbroken, units};
use crate::naming::AS_FOUND;
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial};

use super::super::shared::measured;
use super::deadlines::{BOOST, Boost, PERFORMANCE, compared, met};

/// Deadlines with the boost and without, and its price.
pub(super) fn answer(_: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let all = measured(series, Experiment::boost);
    let of = |name: &str| all.iter().find(|series| series.subject == name);
    let Some(found) = of(AS_FOUND) else { return Answer::default() };
    let Some(boost) = of(BOOST) else {
        return Answer::of(vec![format!("No boost could be tried here. As found, {} deadlines are met.", met(found))]);
    };
    let (with, without) = (met(boost), met(found));
    let mut sentences = vec![match compared(found, boost) {
        Outcome::Better => format!("The boost meets more deadlines: {with}, {without} without it."),
        Outcome::Worse => format!("The boost meets fewer deadlines: {with}, {without} without it."),
        Outcome::NoDifference => {
            format!("No difference in deadlines met is shown: {with} with the boost, {without} without it.")
        }
        Outcome::NotTested => {
            format!("Deadlines met: {with} with the boost, {without} without it. Fewer than 5 rounds: not tested.")
        }
    }];
    sentences.extend(of(PERFORMANCE).map(|full| format!("Under performance all the time, {} are met.", met(full))));
    let price = paid(found, boost);
    if !price.is_empty() {
        sentences.push(format!("Price of the boost: {}.", listed(&price, usize::MAX)));
    }
    Answer::of(sentences)
}

/// What a boost costs beside CPU time, as far as the machine counts it.
fn paid(found: &Boost<'_>, boost: &Boost<'_>) -> Vec<String> {
    let raised = boost.metrics.raised_share.map(|share| format!("raised {} of the time", spoken::share(share)));
    let cpu = |series: &Boost<'_>| series.cpu_ns_per_op.map(|ns| ns.round() as i64);
    let cpu = cpu(found).zip(cpu(boost)).map(|(before, after)| {
        format!("{} of CPU time an activation, {} without it", spoken::duration(after), spoken::duration(before))
    });
    raised.into_iter().chain(power(found, boost)).chain(cpu).collect()
}

/// `4.20 W instead of 3.10 W`.
fn power(before: &Boost<'_>, after: &Boost<'_>) -> Option<String> {
    let watts = |mw: i64| unbroken(&format!("{:.2} W", mw as f64 / 1e3));
    let (before, after) = (before.metrics.power_mw?, after.metrics.power_mw?);
    Some(format!("{} instead of {}", watts(after), watts(before)))
}

/// The boost, and full speed all the time, instead of the machine as found.
pub(super) fn candidates<'a>(_: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let all = measured(series, Experiment::boost);
    let of = |name: &str| all.iter().find(|series| series.subject == name).copied();
    let Some(found) = of(AS_FOUND) else { return Vec::new() };
    let one = |after: Boost<'a>, what: &str, price: Price, code: Code| Candidate {
        id: what.to_owned(),
        goal: Goal::SpeedUp,
        cause: "CPU frequency".to_owned(),
        what: what.to_owned(),
        instead_of: found.metrics.governor.as_deref().map_or_else(|| AS_FOUND.to_owned(), sanitize),
        trials: vec![Trial { case: found.parameters.work_ns, name: case, before: found.series, after: after.series }],
        price,
        code,
    };
    let boost = of(BOOST).map(|boost| {
        let price = Price {
            // A clamp of the own thread needs none.
            privilege: (boost.metrics.lever.as_deref() != Some("utilisation clamp")).then(|| "root".to_owned()),
            energy: power(&found, &boost),
            program: boost
                .metrics
                .raised_share
                .map(|share| format!("raises the clock {} of the time", spoken::share(share))),
            ..Price::default()
        };
        let rust = "let activation = boost.wait_until(at)?; /* work */ boost.done(activation, deadline)?;".to_owned();
        one(boost, "punctual::cpufreq::Boost", price, Code { rust: Some(rust), ..Code::default() })
    });
    let full = of(PERFORMANCE).map(|full| {
        let energy = power(&found, &full).unwrap_or_else(|| "costs energy and heat".to_owned());
        let price = Price { privilege: Some("root".to_owned()), energy: Some(energy), ..Price::default() };
        let shell = "sudo punctual run --governor performance -- PROGRAM".to_owned();
        one(full, "governor performance", price, Code { shell: Some(shell), ..Code::default() })
    });
    boost.into_iter().chain(full).collect()
}

fn case(work_ns: i64) -> String {
    format!("for {} of work", units::exact(work_ns))
}

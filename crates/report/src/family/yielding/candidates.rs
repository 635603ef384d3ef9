//! Calls to use instead of the customary ones: to let others run, and to be back soon.

use punctual_record::{Experiment, Run, Series};

use crate::evidence::Outcome;
use crate::evidence::shares::{self, Baseline};
use crate::format::{sanitize, spoken};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

use super::super::shared::measured;
use crate::family::yielding::situation::{Contest, Figure, situations};

pub(in crate::family) fn candidates<'a>(_: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let Some(contest) = Contest::of(&situations(&measured(series, Experiment::yields))) else { return Vec::new() };
    let mut all = let_others_run(&contest);
    all.extend(back_soon(&contest));
    all
}

/// Instead of the habit that leaves others least. A call that does not yield on this kernel is no candidate.
fn let_others_run<'a>(contest: &Contest<'a>) -> Vec<Candidate<'a>> {
    let share = |figure: &Figure<'_>| figure.others_share().unwrap_or(f64::NAN);
    let known = contest.habits().filter(|figure| figure.others_share().is_some());
    let Some(from) = known.min_by(|a, b| share(a).total_cmp(&share(b))) else { return Vec::new() };
    let yields = |to: &&Figure<'a>| to.lets_others_run() && share(to) > contest.fair_share();
    let candidate = |to: &Figure<'a>| {
        let trial = trial(contest, from.calls.series, to.calls.series);
        let price = Price { program: dearer(contest, from, to), ..Price::default() };
        candidate((Goal::LetOthersRun, from, to), trial, price)
    };
    contest.figures.iter().filter(yields).filter(|to| to.name() != from.name()).map(candidate).collect()
}

/// Instead of the habit that is away longest, of those that yield at all.
fn back_soon<'a>(contest: &Contest<'a>) -> Vec<Candidate<'a>> {
    let away = |figure: &Figure<'_>| figure.away.and_then(|away| away.summary.p50);
    // What runs during a call that does not yield was scheduled by the kernel itself.
    let yielding = contest.habits().filter(|figure| figure.lets_others_run() && away(figure).is_some());
    let Some(from) = yielding.max_by_key(|figure| away(figure)) else { return Vec::new() };
    let others: Vec<&Figure<'a>> = contest
        .figures
        .iter()
        .filter(|to| to.lets_others_run() && away(to).is_some() && to.name() != from.name())
        .collect();
    let questions: Vec<_> = others.iter().map(|to| (Baseline::Series(from.calls.series), to.calls.series)).collect();
    let effects = shares::test(&questions);
    let candidate = |(to, effect): (&&Figure<'a>, shares::ShareEffect)| {
        let trial = trial(contest, from.away?.series, to.away?.series);
        let less = effect.outcome == Outcome::Worse;
        let left = effect.after.zip(effect.before).filter(|_| less);
        let price = Price {
            program: dearer(contest, from, to),
            others: left.map(|(after, before)| {
                format!("others get {} of the CPU instead of {}", spoken::share(after), spoken::share(before))
            }),
            ..Price::default()
        };
        Some(candidate((Goal::BackSoon, from, to), trial, price))
    };
    others.iter().zip(effects).filter_map(candidate).collect()
}

fn trial<'a>(contest: &Contest<'a>, before: &'a Series, after: &'a Series) -> Trial<'a> {
    let name = |n: i64| format!("with {n} competitor{}", if n == 1 { "" } else { "s" });
    Trial { case: contest.competitors.into(), name, before, after }
}

fn candidate<'a>((goal, from, to): (Goal, &Figure<'a>, &Figure<'a>), trial: Trial<'a>, price: Price) -> Candidate<'a> {
    let call = |figure: &Figure<'_>| {
        let call = figure.calls.series.about.call.as_deref();
        sanitize(call.unwrap_or(figure.name()))
    };
    Candidate {
        id: format!("{} instead of {}", to.name(), from.name()),
        goal,
        cause: from.name().to_owned(),
        what: call(to),
        instead_of: call(from),
        trials: vec![trial],
        price,
        code: Code::of_series(&to.calls.series.about, Some(format!("{};", call(to)))),
    }
}

/// What a call costs more with no other thread ready, where the intervals of both medians do not overlap.
fn dearer(contest: &Contest<'_>, from: &Figure<'_>, to: &Figure<'_>) -> Option<String> {
    let (from, to) = (contest.alone(from)?, contest.alone(to)?);
    let more = to.calls.summary.ci95.p50?.low > from.calls.summary.ci95.p50?.high;
    more.then_some(format!(
        "a call alone takes {} instead of {}",
        spoken::fine(to.cost_ns()?),
        spoken::fine(from.cost_ns()?)
    ))
}

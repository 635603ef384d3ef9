//! Which call to use to let others run, and which to be back soon.

use punctual_record::{Experiment, Run, Series};

use crate::evidence::rounds::{self, Pair};
use crate::evidence::shares::{self, Baseline};
use crate::evidence::{Figure as What, Outcome};
use crate::format::{listed, unbroken, units};
use crate::verdict::{Advice, Answer};

use super::super::shared::measured;
use crate::family::yielding::situation::{Contest, Figure, YIELDS, situations};

/// Most names of calls that show no difference.
const MOST: usize = 3;

/// A sentence for each goal, and one for each customary call that does not yield here.
pub(in crate::family) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let situations = situations(&measured(series, Experiment::yields));
    let Some(contest) = Contest::of(&situations) else { return Answer::default() };
    let mut sentences = vec![let_others_run(&contest)];
    sentences.extend(idle(&contest));
    sentences.extend(back_soon(run, &contest));
    Answer::of(sentences)
}

fn names(figures: &[&Figure<'_>]) -> String {
    let names: Vec<String> = figures.iter().map(|figure| figure.name().to_owned()).collect();
    match names.as_slice() {
        [one, other] => format!("{one} or {other}"),
        _ => listed(&names, MOST),
    }
}

fn share(share: Option<f64>) -> String {
    unbroken(&share.map_or_else(|| units::ABSENT.to_owned(), units::share))
}

fn rivals(contest: &Contest<'_>) -> String {
    if contest.competitors == 1 { "a competitor".to_owned() } else { format!("{} competitors", contest.competitors) }
}

/// `To let others run: sched_yield. A competitor gets 100 % of the CPU; with usleep0, 81 %.`
fn let_others_run(contest: &Contest<'_>) -> String {
    let questions: Vec<_> =
        contest.figures.iter().map(|f| (Baseline::Share(contest.fair_share()), f.calls.series)).collect();
    let effects = shares::test(&questions);
    let fair = share(Some(contest.fair_share()));
    let gives = |(figure, effect): &(&Figure<'_>, _)| {
        let shares::ShareEffect { outcome, .. } = effect;
        *outcome == Outcome::Better && figure.lets_others_run()
    };
    let mut shown: Vec<&Figure<'_>> =
        contest.figures.iter().zip(effects.clone()).filter(gives).map(|(figure, _)| figure).collect();
    shown.sort_by(|a, b| b.others_share().unwrap_or(0.0).total_cmp(&a.others_share().unwrap_or(0.0)));
    let Some((best, rest)) = shown.split_first() else {
        if let Some(why) = effects.iter().find_map(|effect| effect.why.as_deref()) {
            return format!("Which call lets others run was not tested: {why}.");
        }
        return format!("No call is shown to let others run: to give {} more than {fair} of the CPU.", rivals(contest));
    };
    let questions: Vec<_> =
        rest.iter().map(|figure| (Baseline::Series(figure.calls.series), best.calls.series)).collect();
    let less = shares::test(&questions);
    let mut equal = vec![*best];
    let same = rest.iter().zip(&less).filter(|(_, effect)| effect.outcome == Outcome::NoDifference);
    equal.extend(same.map(|(figure, _)| *figure));
    let cost = |figure: &&Figure<'_>| contest.alone(figure).and_then(Figure::cost_ns).unwrap_or(f64::MAX);
    equal.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let mut text = format!(
        "To let others run: {}. {} gets {} of the CPU",
        names(&equal),
        capital(&rivals(contest)),
        share(equal.first().and_then(|figure| figure.others_share()))
    );
    let worse =
        rest.iter().zip(&less).filter(|(_, effect)| effect.outcome == Outcome::Better).map(|(figure, _)| figure);
    let habit = contest.habits().find(|habit| worse.clone().any(|figure| figure.name() == habit.name()));
    if let Some(habit) = habit {
        text.push_str(&format!("; with {}, {}", habit.name(), share(habit.others_share())));
    }
    text.push('.');
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// `usleep0 does not yield here: it slept in 0.2 % of the calls. A competitor ran in 0.2 % of them and got 50 % of the CPU.`
fn idle(contest: &Contest<'_>) -> Vec<String> {
    let idle = contest.habits().filter(|habit| habit.yielded().is_some() && !habit.lets_others_run());
    let text = |habit: &Figure<'_>| {
        let name = habit.name().to_owned();
        let ran = format!("ran in {}", share(habit.yielded()));
        let got = format!("got {} of the CPU", share(habit.others_share()));
        match habit.slept() {
            Some(slept) if slept < YIELDS => format!(
                "{name} does not yield here: it slept in {} of the calls. {} {ran} of them and {got}.",
                share(Some(slept)),
                capital(&rivals(contest))
            ),
            _ => format!("{name} does not yield here: {} {ran} of the calls and {got}.", rivals(contest)),
        }
    };
    idle.map(text).collect()
}

/// `To be back soon: usleep0 or nanosleep0. Away for 63 µs at p50 with a competitor; with sched_yield, 4 ms.`
fn back_soon(run: &Run, contest: &Contest<'_>) -> Option<String> {
    let away = |figure: &Figure<'_>| figure.away.and_then(|away| away.summary.p50);
    let mut known: Vec<&Figure<'_>> =
        contest.figures.iter().filter(|figure| figure.lets_others_run() && away(figure).is_some()).collect();
    known.sort_by_key(|figure| away(figure));
    let (best, rest) = known.split_first()?;
    let to = best.away?.series;
    let pairs: Vec<Pair<'_>> = rest
        .iter()
        .filter_map(|figure| Some(Pair { before: figure.away?.series, after: to, figure: What::P50 }))
        .collect();
    let effects = rounds::test(run, &pairs);
    let of = |outcome: Outcome| -> Vec<&Figure<'_>> {
        rest.iter().zip(&effects).filter(|(_, effect)| effect.outcome == outcome).map(|(figure, _)| *figure).collect()
    };
    let untested = of(Outcome::NotTested);
    if !rest.is_empty() && untested.len() == rest.len() {
        let why = effects.iter().find_map(|effect| effect.why.as_deref()).unwrap_or("too few rounds");
        return Some(format!("Which call returns first was not tested: {why}."));
    }
    let duration = |figure: &Figure<'_>| unbroken(&away(figure).map_or_else(String::new, units::duration));
    let equal: Vec<&Figure<'_>> = std::iter::once(*best).chain(of(Outcome::NoDifference)).collect();
    let lead = if rest.is_empty() { "To be back soon: only" } else { "To be back soon:" };
    let also = if rest.is_empty() { " yields" } else { "" };
    let mut text =
        format!("{lead} {}{also}. Away for {} at p50 with {}", names(&equal), duration(best), rivals(contest));
    let later = of(Outcome::Better);
    if let Some(habit) = contest.habits().find(|habit| later.iter().any(|figure| figure.name() == habit.name())) {
        text.push_str(&format!("; with {}, {}", habit.name(), duration(habit)));
    }
    text.push('.');
    if !untested.is_empty() {
        text.push_str(&format!(" Not tested: {}.", names(&untested)));
    }
    Some(text)
}

//! How late waits end, what most of it is, what a policy brings, and which sleep is the least late.

use punctual_record::{ConditionSet, POLICY, Run, Series, TIMER_SLACK};

use crate::evidence::rounds::{Pair, test};
use crate::evidence::{self, Effect, Outcome};
use crate::format::{listed, spoken, unbroken, units};
use crate::naming::under;
use crate::verdict::{Advice, Answer};
use crate::words::{self, Figure, Figures};

use super::candidates::privilege;
use super::head;
use super::interrupted;
use super::levers::levers;
use super::picture::picture;
use super::watched;

/// Most policies with a sentence of their own.
const POLICIES: usize = 4;
/// Most names in a sentence.
const NAMES: usize = 3;

/// The answer to: how late does a sleep end here, and why?
pub(in crate::family) fn answer(run: &Run, series: &[&Series], own: &[&Advice]) -> Answer {
    let plain = interrupted::undisturbed(series);
    let all: Vec<Figures<'_>> =
        words::by_asked(&plain).into_iter().map(|(asked, series)| Figures::of(run, asked, &series)).collect();
    let Some(first) = all.first() else {
        let signalled = interrupted::answer(run, series);
        return signalled.map_or_else(Answer::default, |(sentences, table)| Answer {
            sentences,
            table: Some(table),
            ..Answer::default()
        });
    };
    let mut sentences: Vec<String> = lateness(run, first, own).into_iter().collect();
    if !run.is_checkup() {
        sentences.extend(policies(run, &all));
        sentences.extend(least_late(run, first));
    }
    Answer { sentences, table: head::table(run, &all, own), picture: picture(&all, own) }
}

/// `A sleep of 100 µs ends 80 µs late here (p99 120 µs); 52 µs of it is timer slack.`, from waits that are compared. A check-up takes the causes of
/// watched wake-ups where it has them.
fn lateness(run: &Run, figures: &Figures<'_>, own: &[&Advice]) -> Option<String> {
    let asked = spoken::exact(figures.asked_ns);
    let reference = figures.reference();
    let row = reference.or_else(|| words::best(figures.rows.iter()))?;
    let late = spoken::duration(row.p50?);
    let mut text = match row.effective_ns.filter(|&ns| ns > figures.asked_ns) {
        Some(ns) => {
            let effective = spoken::exact(ns);
            format!("{} makes {effective} of {asked}: it ends {late} later than asked", row.subject)
        }
        None if run.is_checkup() && reference.is_some() => format!("A sleep of {asked} ends {late} late here"),
        None => format!("A wait of {asked} by {} ends {late} late here", name(figures, row)),
    };
    if let Some(p99) = row.p99 {
        text.push_str(&format!(" (p99 {})", spoken::duration(p99)));
    }
    let slack = own
        .iter()
        .find(|advice| advice.id.starts_with(TIMER_SLACK))
        .and_then(|advice| advice.cases.iter().find(|case| case.case == units::exact(figures.asked_ns)));
    let slack = slack.map(|case| &case.p50);
    let why = watched::clause(run, figures.asked_ns, row, slack).filter(|_| run.is_checkup());
    text.push_str(&why.unwrap_or_else(|| match slack.and_then(Effect::better) {
        Some(gain) => format!("; {} of it is timer slack.", spoken::duration(gain.ns)),
        None => ".".to_owned(),
    }));
    Some(text)
}

/// `nanosleep under SCHED_RR 40`; without the conditions where there is one set of them.
fn name(figures: &Figures<'_>, row: &Figure<'_>) -> String {
    match figures.many_conditions && !row.conditions.is_empty() {
        true => format!("{} {}", row.subject, unbroken(&under(&row.conditions))),
        false => row.subject.clone(),
    }
}

/// A policy as one sentence: its name, and the durations, each with the same call without it and with it.
type Policy<'a> = (String, Vec<(i64, [&'a Series; 2])>);

/// `SCHED_RR 40 instead of SCHED_OTHER: 55 µs earlier at 1 µs, no difference shown at 1 ms.`
fn policies(run: &Run, all: &[Figures<'_>]) -> Vec<String> {
    let mut policies: Vec<Policy<'_>> = Vec::new();
    for figures in all {
        let levers = levers(figures);
        for lever in levers.iter().filter(|lever| lever.setting.condition == POLICY) {
            let Some((from, to)) = lever.leader() else { continue };
            let (name, case) = (lever.name(), (figures.asked_ns, [from.series, to.series]));
            match policies.iter_mut().find(|(known, _)| *known == name) {
                Some((_, cases)) => cases.push(case),
                None => policies.push((name, vec![case])),
            }
        }
    }
    policies.truncate(POLICIES);
    let pairs = policies.iter().flat_map(|(_, cases)| cases).map(|(_, pair)| *pair);
    let mut effects = tested(run, pairs).into_iter();
    let sentence = |(name, cases): &Policy<'_>| {
        let parts: Vec<String> = cases
            .iter()
            .map(|(asked, _)| {
                let effect = effects.next().map_or_else(|| "not tested".to_owned(), |effect| in_words(&effect));
                format!("{effect} at {}", spoken::exact(*asked))
            })
            .collect();
        format!("{name}: {}.", parts.join(", "))
    };
    policies.iter().map(sentence).collect()
}

fn in_words(effect: &Effect) -> String {
    match (effect.outcome, effect.better(), effect.worse()) {
        (_, Some(gain), _) => format!("{} earlier", spoken::duration(gain.ns)),
        (_, _, Some(loss)) => format!("{} later", spoken::duration(loss.ns)),
        (Outcome::NoDifference, ..) => "no difference shown".to_owned(),
        _ => "not tested".to_owned(),
    }
}

/// The least late of all that sleep, under whatever conditions, with its price. It is tested by rounds against the
/// call that programs use most.
fn least_late(run: &Run, figures: &Figures<'_>) -> Option<String> {
    let from = figures.reference()?;
    // Under refused conditions a call is the same as without them.
    let granted = |row: &&Figure<'_>| row.set.is_none_or(|set| set.refused.is_empty());
    let others = figures.sleeping().filter(|row| row.p50.is_some() && !std::ptr::eq(*row, from)).filter(granted);
    let others: Vec<&Figure<'_>> = others.collect();
    let effects = tested(run, others.iter().map(|row| [from.series, row.series]));
    let earlier = others.iter().zip(&effects).filter(|(_, effect)| effect.better().is_some());
    let Some((best, effect)) = earlier.min_by_key(|(row, _)| row.p50) else {
        let any = effects.iter().any(|effect| effect.outcome != Outcome::NotTested);
        return any.then(|| format!("Of those that sleep, none is shown to end earlier than {}.", name(figures, from)));
    };
    let p99 = best.p99.map_or(String::new(), |p99| format!(" (p99 {})", spoken::duration(p99)));
    let gain = spoken::duration(effect.better()?.ns);
    let (best_name, late) = (name(figures, best), spoken::duration(best.p50?));
    let mut text = format!("Least late of those that sleep: {best_name}, {late}{p99}, {gain} earlier.");
    text.push_str(&price(from, best));
    let rivals: Vec<&Figure<'_>> = others.iter().copied().filter(|row| !std::ptr::eq(*row, *best)).collect();
    let equal =
        |(row, effect): (&&Figure<'_>, Effect)| (effect.outcome == Outcome::NoDifference).then(|| name(figures, row));
    let effects = tested(run, rivals.iter().map(|row| [best.series, row.series]));
    let equal: Vec<String> = rivals.iter().zip(effects).filter_map(equal).collect();
    if !equal.is_empty() {
        text.push_str(&format!(" No difference shown from {}.", listed(&equal, NAMES)));
    }
    Some(text)
}

/// What each change does to p50.
fn tested<'a>(run: &Run, pairs: impl Iterator<Item = [&'a Series; 2]>) -> Vec<Effect> {
    let figure = evidence::Figure::P50;
    let pairs: Vec<Pair<'_>> = pairs.map(|[before, after]| Pair { before, after, figure }).collect();
    test(run, &pairs)
}

/// ` It needs CAP_SYS_NICE and 35 % of a CPU instead of 14 %.`.
fn price(from: &Figure<'_>, to: &Figure<'_>) -> String {
    let asked = |set: &ConditionSet| -> Vec<String> {
        set.settings.iter().filter(|its| its.asked.is_some()).filter_map(|its| privilege(set, &its.condition)).collect()
    };
    let mut needs = to.set.map(asked).unwrap_or_default();
    let before = from.set.map(asked).unwrap_or_default();
    needs.retain(|its| !before.contains(its));
    if let (Some(before), Some(after)) = (from.cpu_share, to.cpu_share)
        // A smaller difference is no price.
        && after - before >= 0.01
    {
        needs.push(format!("{} of a CPU instead of {}", spoken::share(after), spoken::share(before)));
    }
    if needs.is_empty() { String::new() } else { format!(" It needs {}.", listed(&needs, usize::MAX)) }
}

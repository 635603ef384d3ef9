//! How late waits end, what most of it is, what a policy brings, and which sleep is the least late.
//!
//! The answer has a table and a picture for the first screen: what was found, the other calls and conditions, the library's
//! sleeper, and spinning. Where wake-ups were watched, the causes of a typical sleep are set beside its figure and beside
//! the comparisons of the run.

use punctual_record::{Cause, ConditionSet, POLICY, Quantity, Remedy, Run, Series, TIMER_SLACK};

use crate::causes::{self, Share};
use crate::document::{Album, Columns, Table};
use crate::evidence::{Effect, MIN_ROUNDS, Outcome, at_p50, scatter};
use crate::family::figures::{self, Figure, Figures, best, by_asked};
use crate::family::figures::{Lever, SLEEPER, levers};
use crate::family::shared::{ALWAYS, also};
use crate::family::wait::interrupted;
use crate::format::naming::{AS_FOUND, under};
use crate::format::{gathered, listed, spoken, unbroken, units};
use crate::pictures::dots::{self, Dot, Panel};
use crate::verdict::{Advice, Answer, Standing, is_busy};

/// Most policies with a sentence of their own.
const POLICIES: usize = 4;
/// Most names in a sentence.
const NAMES: usize = 3;

/// The answer to: how late does a sleep end here, and why?
pub(in crate::family) fn answer(run: &Run, series: &[&Series], own: &[&Advice]) -> Answer {
    let plain = interrupted::undisturbed(series);
    let all: Vec<Figures<'_>> =
        by_asked(&plain).into_iter().map(|(asked, series)| Figures::new(run, asked, &series)).collect();
    let Some(first) = all.first() else {
        return interrupted::answer(run, series).unwrap_or_default();
    };
    let mut sentences: Vec<String> = lateness(run, first, own).into_iter().collect();
    let mut named: Vec<&Figure<'_>> = first.reference().into_iter().collect();
    if !run.is_checkup() {
        let sleeping = least_late(run, first);
        let any = at_any_price(run, first);
        for (text, row) in sleeping.into_iter().chain(any) {
            sentences.push(text);
            named.extend(row);
        }
        sentences.extend(policies(run, &all));
    }
    Answer { sentences, table: table(run, &all, (own, &named)), picture: picture(&all, own) }
}

/// `A sleep of 100 µs ends 80 µs late here (p99 120 µs); 52 µs of it is timer slack.`, from waits that are compared. A check-up takes the causes of
/// watched wake-ups where it has them.
fn lateness(run: &Run, figures: &Figures<'_>, own: &[&Advice]) -> Option<String> {
    let asked = spoken::exact(figures.asked_ns);
    let reference = figures.reference();
    let row = reference.or_else(|| best(figures.rows.iter()))?;
    let late = spoken::duration(row.summary.p50?);
    let mut text = match row.effective_ns().filter(|&ns| ns > figures.asked_ns) {
        Some(ns) => {
            let effective = spoken::exact(ns);
            format!("{} makes {effective} of {asked}: it ends {late} later than asked", row.subject)
        }
        None if run.is_checkup() && reference.is_some() => format!("A sleep of {asked} ends {late} late here"),
        None => format!("A wait of {asked} by {} ends {late} late here", name(figures, row)),
    };
    text.push_str(&p99(row));
    let slack = own
        .iter()
        .find(|advice| advice.id.starts_with(TIMER_SLACK))
        .and_then(|advice| advice.cases.iter().find(|case| case.case == units::exact(figures.asked_ns)));
    let slack = slack.map(|case| &case.p50);
    let why = clause(run, figures.asked_ns, row, slack).filter(|_| run.is_checkup());
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
fn policies<'a>(run: &Run, all: &[Figures<'a>]) -> Vec<String> {
    let case = |(asked_ns, lever): (i64, Lever<'_, 'a>)| {
        let (from, to) = lever.leader().filter(|_| lever.setting.condition == POLICY)?;
        Some((lever.name(), (asked_ns, [from.series, to.series])))
    };
    let levers = all.iter().flat_map(|figures| levers(figures).into_iter().map(|lever| (figures.asked_ns, lever)));
    let mut policies: Vec<Policy<'_>> = gathered(levers.filter_map(case));
    policies.truncate(POLICIES);
    let pairs = policies.iter().flat_map(|(_, cases)| cases).map(|(_, pair)| *pair);
    let mut effects = at_p50(run, pairs).into_iter();
    let mut sentence = |(name, cases): &Policy<'_>| {
        let outcome = |(asked, _): &(i64, _)| {
            let effect = effects.next().map_or_else(|| "not tested".to_owned(), |effect| in_words(&effect));
            (effect, spoken::exact(*asked))
        };
        let outcomes: Vec<(String, String)> = cases.iter().map(outcome).collect();
        let alike = outcomes.chunk_by(|(one, _), (other, _)| one == other).map(|alike| {
            let cases: Vec<String> = alike.iter().map(|(_, case)| case.clone()).collect();
            format!("{} at {}", alike[0].0, listed(&cases, usize::MAX))
        });
        format!("{name}: {}.", alike.collect::<Vec<_>>().join(", "))
    };
    policies.iter().map(&mut sentence).collect()
}

fn in_words(effect: &Effect) -> String {
    match (effect.outcome, effect.better(), effect.worse()) {
        (_, Some(gain), _) => format!("{} earlier", spoken::duration(gain.ns)),
        (_, _, Some(loss)) => format!("{} later", spoken::duration(loss.ns)),
        (Outcome::NoDifference, ..) => "no difference shown".to_owned(),
        _ => "not tested".to_owned(),
    }
}

/// ` (p99 120 µs)`, where it is known.
fn p99(row: &Figure<'_>) -> String {
    row.summary.p99.map_or(String::new(), |p99| format!(" (p99 {})", spoken::duration(p99)))
}

/// Under refused conditions a call is the same as without them.
fn is_granted(row: &Figure<'_>) -> bool {
    row.set.is_none_or(|set| set.refused.is_empty())
}

/// The least late of all that sleep, under whatever conditions, with its price. It is tested by rounds against the
/// call that programs use most.
fn least_late<'f, 'a>(run: &Run, figures: &'f Figures<'a>) -> Option<(String, Option<&'f Figure<'a>>)> {
    let from = figures.reference()?;
    let others = figures.sleeping().filter(|row| row.slept() && row.summary.p50.is_some() && !std::ptr::eq(*row, from));
    let others: Vec<&Figure<'_>> = others.filter(|row| is_granted(row)).collect();
    let effects = at_p50(run, others.iter().map(|row| [from.series, row.series]));
    let earlier = others.iter().zip(&effects).filter(|(_, effect)| effect.better().is_some());
    let Some((best, effect)) = earlier.min_by_key(|(row, _)| row.summary.p50) else {
        let any = effects.iter().any(|effect| effect.outcome != Outcome::NotTested);
        let none = format!("Of those that sleep, none is shown to end earlier than {}.", name(figures, from));
        return any.then_some((none, None));
    };
    let p99 = p99(best);
    let gain = spoken::duration(effect.better()?.ns);
    let (best_name, late) = (name(figures, best), spoken::duration(best.summary.p50?));
    let mut text = format!("Least late of those that sleep: {best_name}, {late}{p99}, {gain} earlier.");
    text.push_str(&price(run, from, best));
    let rivals: Vec<&Figure<'_>> = others.iter().copied().filter(|row| !std::ptr::eq(*row, *best)).collect();
    let equal =
        |(row, effect): (&&Figure<'_>, Effect)| (effect.outcome == Outcome::NoDifference).then(|| name(figures, row));
    let effects = at_p50(run, rivals.iter().map(|row| [best.series, row.series]));
    let equal: Vec<String> = rivals.iter().zip(effects).filter_map(equal).collect();
    text.push_str(&also([("No difference shown from", equal)], if figures.many_conditions { 2 } else { NAMES }));
    Some((text, Some(*best)))
}

/// The least late of all, where it is one that does not sleep: it is shown to end earlier than the call that programs use most.
fn at_any_price<'f, 'a>(run: &Run, figures: &'f Figures<'a>) -> Option<(String, Option<&'f Figure<'a>>)> {
    let from = figures.reference()?;
    let best = best(figures.exact().filter(|row| is_granted(row)))?;
    if best.sleeps() == Some(true) && best.slept() {
        return None;
    }
    at_p50(run, [[from.series, best.series]]).first()?.better()?;
    let p99 = p99(best);
    let cpu = cpu(run, best).map_or(String::new(), |(figure, unit)| format!(", for {figure} {unit}"));
    let late = spoken::duration(best.summary.p50?);
    Some((format!("Least late at any price: {}, {late}{p99}{cpu}.", name(figures, best)), Some(best)))
}

/// `14 %`, `of a CPU`. On a busy machine others lengthen the waits, and a share would make the dearest look cheap: `101 µs`,
/// `of CPU time a wait`.
fn cpu(run: &Run, row: &Figure<'_>) -> Option<(String, &'static str)> {
    if is_busy(run) {
        return Some((spoken::fine(row.cpu_ns_per_op?), "of CPU time a wait"));
    }
    Some((spoken::share(row.cpu_share?), "of a CPU"))
}

/// ` It needs CAP_SYS_NICE and 35 % of a CPU instead of 14 %.`.
fn price(run: &Run, from: &Figure<'_>, to: &Figure<'_>) -> String {
    let asked = |set: &ConditionSet| -> Vec<String> {
        set.settings
            .iter()
            .filter(|setting| setting.asked.is_some())
            .filter_map(|setting| Remedy::of_setting(setting)?.price.privilege)
            .collect()
    };
    let mut needs = to.set.map(asked).unwrap_or_default();
    let before = from.set.map(asked).unwrap_or_default();
    needs.retain(|need| !before.contains(need));
    let share = |row: &Figure<'_>| match is_busy(run) {
        true => Some(row.cpu_ns_per_op? / row.series.experiment.any_wait()?.parameters.asked_ns as f64),
        false => row.cpu_share,
    };
    if let (Some(before), Some(after)) = (share(from), share(to))
        // A smaller difference is no price.
        && after - before >= 0.01
        && let (Some((before, _)), Some((after, unit))) = (cpu(run, from), cpu(run, to))
    {
        needs.push(format!("{after} {unit} instead of {before}"));
    }
    if needs.is_empty() { String::new() } else { format!(" It needs {}.", listed(&needs, usize::MAX)) }
}

/// Most durations side by side.
const DURATIONS: usize = 3;
/// Characters of a name that leave room for two figures of three durations in 80 columns.
const BESIDE_THREE: usize = 24;
/// The same for three figures of two durations.
const BESIDE_TWO_WITH_CPU: usize = 28;
const BESIDE_TWO_WITH_CPU_TIME: usize = 24;
/// The same for one duration with its elapsed time and its error.
const BESIDE_ONE_WITH_CPU_TIME: usize = 36;

/// A row by its name, its method and its conditions.
type Key<'f> = (String, &'f str, &'f str);

/// The table; nothing where no wait as long as asked has a median. The rows that sentences name are in it.
pub(super) fn table(run: &Run, all: &[Figures<'_>], (own, named): (&[&Advice], &[&Figure<'_>])) -> Option<Table> {
    let base = |figures: &&Figures<'_>| figures.exact().any(|row| row.summary.p50.is_some());
    let shown = spread(all.iter().filter(base).collect(), DURATIONS);
    let first = *shown.first()?;
    let mut keys = if run.is_checkup() { of_checkup(first, own)? } else { of_calls(first) };
    let known: Vec<(&str, &str)> = keys.iter().map(|(_, subject, conditions)| (*subject, *conditions)).collect();
    keys.extend(
        awake(&shown, first).into_iter().filter(|(_, subject, conditions)| !known.contains(&(*subject, *conditions))),
    );
    if !run.is_checkup() {
        let p50 = |figures: &Figures<'_>, key: &Key<'_>| {
            found(figures, key).and_then(|row| row.summary.p50).unwrap_or(i64::MAX)
        };
        keys.sort_by_cached_key(|key| p50(first, key));
    }
    let relative = |row: &Figure<'_>| row.series.quantity == Quantity::Overshoot;
    let widest = keys.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let shown = if widest > BESIDE_THREE { spread(shown, 2) } else { shown };
    let error = !run.is_checkup() && shown.len() == 1 && first.rows.iter().any(relative);
    let busy = is_busy(run);
    let cpu = match (shown.len(), busy) {
        (1, false) => true,
        (1, true) => widest <= BESIDE_ONE_WITH_CPU_TIME,
        (2, false) => widest <= BESIDE_TWO_WITH_CPU,
        (2, true) => widest <= BESIDE_TWO_WITH_CPU_TIME,
        _ => false,
    };
    let mut columns = Columns::new().left("how late", ALWAYS, |key: &Key<'_>| key.0.clone());
    for &figures in &shown {
        let over = format!("wait {}", units::exact(figures.asked_ns));
        let found = move |key: &Key<'_>| found(figures, key);
        let elapsed = move |key: &Key<'_>| Some(units::beyond_asked(figures::elapsed(found(key)?.series)?));
        let share = move |key: &Key<'_>| Some(units::error(figures::error(found(key)?.series)?));
        columns = columns.over(&over, |columns| {
            columns
                .summary([("p50", ALWAYS), ("p99", ALWAYS)], move |key| Some(&found(key)?.series.summary))
                // On a busy machine others lengthen the waits, and a share would make the dearest look cheap.
                .when(cpu && busy, |columns| columns.fine("CPU/wait", ALWAYS, move |key| found(key)?.cpu_ns_per_op))
                .when(cpu && !busy, |columns| columns.share("CPU", ALWAYS, move |key| found(key)?.cpu_share))
                .when(error, |columns| columns.right("elapsed", ALWAYS, move |key| elapsed(key).unwrap_or_default()))
                .when(error, |columns| columns.right("error", ALWAYS, move |key| share(key).unwrap_or_default()))
        });
    }
    let table = columns.plain(&keys);
    // A check-up has the row of its first advice, and the Sleeper's.
    let first_advice = own.iter().find(|advice| advice.standing == Standing::Advised);
    let stays = |(_, subject, conditions): &&Key<'_>| {
        named.iter().any(|row| row.subject == *subject && row.conditions == *conditions)
            || (run.is_checkup()
                && (*subject == SLEEPER || first_advice.is_some_and(|advice| advice.is_about(conditions))))
    };
    let named = keys.iter().filter(stays).map(|(name, ..)| name.clone()).collect();
    let p50 = |key: &Key<'_>| found(first, key).and_then(|row| row.summary.p50);
    let mut figures: Vec<_> = keys.iter().map(|key| (p50(key), key.0.clone())).collect();
    figures.sort();
    let figures = figures.into_iter().map(|(p50, name)| (name, units::known(p50))).collect();
    Some(table.ranked_by("p50", figures, named))
}

/// The figures of a row.
fn found<'f, 'a>(figures: &'f Figures<'a>, (_, subject, conditions): &Key<'_>) -> Option<&'f Figure<'a>> {
    figures.exact().find(|row| row.subject == *subject && row.conditions == *conditions)
}

/// Where there are too many durations: the shortest, one in the middle, the longest.
fn spread<'f, 'a>(all: Vec<&'f Figures<'a>>, most: usize) -> Vec<&'f Figures<'a>> {
    match all.as_slice() {
        [first, .., last] if all.len() > most => {
            [*first].into_iter().chain((most > 2).then(|| all[all.len() / 2])).chain([*last]).collect()
        }
        _ => all,
    }
}

/// The reference, and its other conditions where they are advised.
fn of_checkup<'f>(first: &'f Figures<'_>, own: &[&Advice]) -> Option<Vec<Key<'f>>> {
    let base = first.reference()?;
    // What was found needs no name.
    let name = match base.conditions.as_str() {
        AS_FOUND => base.subject.clone(),
        conditions => format!("{}, {conditions}", base.subject),
    };
    let mut keys = vec![(name, base.subject.as_str(), base.conditions.as_str())];
    for other in first.rows.iter().filter(|row| row.subject == base.subject && row.conditions != base.conditions) {
        let advised =
            own.iter().any(|advice| advice.standing == Standing::Advised && advice.is_about(&other.conditions));
        if advised {
            keys.push((format!("... {}", other.conditions), &other.subject, &other.conditions));
        }
    }
    Some(keys)
}

/// The calls that sleep, each under all conditions.
fn of_calls<'f>(first: &'f Figures<'_>) -> Vec<Key<'f>> {
    let key = |row: &'f Figure<'_>| {
        let name = match first.many_conditions {
            false if row.subject == SLEEPER => "punctual::Sleeper (hybrid)".to_owned(),
            false => row.subject.clone(),
            true => format!("{}, {}", row.subject, row.conditions),
        };
        (name, row.subject.as_str(), row.conditions.as_str())
    };
    first.exact().filter(|row| row.sleeps() != Some(false)).map(key).collect()
}

/// The library's sleeper and the best way to spin, under the base conditions.
fn awake<'f>(shown: &[&'f Figures<'_>], first: &'f Figures<'_>) -> Vec<Key<'f>> {
    let base = |row: &&Figure<'_>| row.conditions == first.base;
    let measured =
        |subject: &str| shown.iter().any(|figures| figures.exact().filter(base).any(|row| row.subject == subject));
    let mut keys: Vec<Key<'f>> = Vec::new();
    if measured(SLEEPER) {
        keys.push(("punctual::Sleeper".to_owned(), SLEEPER, &first.base));
    }
    let spinning = best(first.exact().filter(base).filter(|row| row.sleeps() == Some(false) && row.subject != SLEEPER));
    if let Some(row) = spinning {
        keys.push((format!("spinning ({})", row.subject), &row.subject, &first.base));
    }
    keys
}

/// What stands for a remedy that every duration has: the library's sleeper, and spinning.
const AWAKE: [(&str, &str); 2] = [("hybrid", "punctual::Sleeper"), ("spin_clock", "spinning")];

/// The picture; `None` where one set of conditions was measured, and the methods themselves are compared.
pub(super) fn picture(all: &[Figures<'_>], own: &[&Advice]) -> Option<Album> {
    let panels = all.iter().filter(|figures| figures.many_conditions).filter_map(|figures| panel(figures, own));
    dots::album(panels.collect())
}

fn panel(figures: &Figures<'_>, own: &[&Advice]) -> Option<Panel> {
    let base = figures.reference()?;
    let advised: Vec<&Advice> = own.iter().copied().filter(|advice| advice.standing == Standing::Advised).collect();
    let is_advised = |name: &str| advised.iter().any(|advice| advice.is_about(name));
    let other = |row: &Figure<'_>, name: &str| Dot { advised: is_advised(name), ..Dot::new(name, row.series) };
    let mut rows = vec![Dot { baseline: true, ..Dot::new(&base.conditions, base.series) }];
    let others: Vec<&Figure<'_>> =
        figures.rows.iter().filter(|row| row.subject == base.subject && row.conditions != base.conditions).collect();
    let cures = |row: &&&Figure<'_>| is_advised(&row.conditions);
    let cured: Vec<&&Figure<'_>> = others.iter().filter(cures).collect();
    // Without a cure the picture shows that what was tried does not help.
    let shown = if cured.is_empty() { others.iter().collect() } else { cured };
    rows.extend(shown.iter().map(|row| other(row, &row.conditions)));
    let alike = || figures.rows.iter().filter(|row| row.conditions == base.conditions && row.subject != base.subject);
    rows.extend(alike().filter(|row| is_advised(&row.subject)).map(|row| other(row, &row.subject)));
    for (subject, name) in AWAKE {
        rows.extend(alike().filter(|row| row.subject == subject).map(|row| other(row, name)));
    }
    Some(Panel { title: format!("{} for {}", base.subject, units::exact(figures.asked_ns)), rows })
}

/// Most causes in a sentence.
const MOST: usize = 2;
/// A cause below this part of the lateness explains nothing.
const LEAST: f64 = 0.1;
/// Figures that differ by less than this part of the lateness agree: watching itself adds a little.
const ALIKE: f64 = 0.1;

/// `: 50.0 µs of it is timer slack, 14.2 µs is leaving an idle state.` Watched wake-ups that differ from the measured ones are said apart. A
/// comparison that contradicts them is said too. `None` where nothing is shown.
fn clause(run: &Run, asked_ns: i64, row: &Figure<'_>, slack: Option<&Effect>) -> Option<String> {
    let p50 = row.summary.p50?;
    let scatter = scattered(row.series)?;
    let typical = causes::typical(run, asked_ns)?;
    let least = scatter.max(LEAST * p50 as f64);
    let large = |share: &&Share| share.ns as f64 > least;
    let shares: Vec<&Share> = typical.shares.iter().filter(large).take(MOST).collect();
    let first = shares.first()?;
    let alike = |one: i64, other: i64, more: f64| one.abs_diff(other) as f64 <= more.max(ALIKE * p50 as f64);
    let mut text = if alike(typical.late_ns, p50, 2.0 * scatter) {
        format!(": {} of it {}", spoken::duration(first.ns), first.predicate)
    } else {
        let late = spoken::duration(typical.late_ns);
        format!("; when watched, {late}: {} of that {}", spoken::duration(first.ns), first.predicate)
    };
    for share in &shares[1..] {
        text.push_str(&format!(", {} {}", spoken::duration(share.ns), share.predicate));
    }
    text.push('.');
    let found = typical.shares.iter().find(|share| share.cause == Cause::TimerSlack).map_or(0, |share| share.ns);
    if let Some(effect) = slack
        && let Some(gain) = effect.gain
    {
        let reach = (gain.high_ns - gain.low_ns) as f64 / 2.0;
        let agrees = alike(found, gain.ns, reach.max(gain.scatter_ns as f64).max(scatter));
        match effect.outcome {
            _ if agrees => {}
            Outcome::Better => text.push_str(&format!(" Less slack alone gains {}.", spoken::duration(gain.ns))),
            Outcome::Worse | Outcome::NoDifference => text.push_str(" Less slack alone shows no gain."),
            Outcome::NotTested => {}
        }
    }
    Some(text)
}

/// How much the median varies between rounds; `None` with few of them.
fn scattered(series: &Series) -> Option<f64> {
    let medians: Vec<f64> = series.rounds.iter().filter_map(|round| round.summary.p50).map(|ns| ns as f64).collect();
    (medians.len() >= MIN_ROUNDS).then(|| scatter(&medians))
}

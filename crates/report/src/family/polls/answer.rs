//! Which number of polls to use on an idle and on a busy CPU.

use punctual_record::experiment::polls::Load;
use punctual_record::{Experiment, Run, Series};

use crate::evidence::rounds::{Pair, test};
use crate::evidence::{Effect, Figure, Outcome};
use crate::format::{listed, sanitize, spoken};
use crate::verdict::{Advice, Answer};

use super::super::shared::measured;
use super::setting::{BLOCKING, Setting, described, under_the_first};

/// Most names of settings that show no difference.
const MOST: usize = 3;

/// A sentence or two for each situation.
pub(in crate::family) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let settings = under_the_first(&measured(series, Experiment::polls));
    Answer::of([Load::Idle, Load::Busy].into_iter().filter_map(|load| sentence(run, &settings, load)).collect())
}

/// `On an idle CPU: sched_yield after 100 polls. A message takes 104 ns at p50; with futex_wait, 25.2 µs.`
///
/// Several settings may show no difference from the least latency. Of these, it is the one that leaves most to a busy
/// program.
fn sentence(run: &Run, settings: &[Setting<'_>], load: Load) -> Option<String> {
    let on = if load == Load::Idle { "an idle CPU" } else { "a busy CPU" };
    let mut known: Vec<&Setting<'_>> = settings.iter().filter(|its| its.one_way(load).is_some()).collect();
    known.sort_by_key(|its| its.one_way(load).and_then(|series| series.summary.p50));
    let (best, rest) = known.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let effects = compared(run, load, best, rest);
    let of = |outcome: Outcome| {
        let its = rest.iter().zip(&effects).filter(move |(_, effect)| effect.outcome == outcome);
        its.map(|(setting, _)| *setting)
    };
    if of(Outcome::NotTested).count() == rest.len() {
        let why = effects.iter().find_map(|effect| effect.why.as_deref()).unwrap_or("too few rounds");
        return Some(format!("Which number of polls suits {on} was not tested: {}.", sanitize(why)));
    }
    let equal: Vec<&Setting<'_>> = std::iter::once(*best).chain(of(Outcome::NoDifference)).collect();
    let share = |setting: &Setting<'_>| setting.share().unwrap_or(-1.0);
    // The first of equals: it has the least latency.
    let take = equal.iter().rev().copied().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let p50 = |setting: &Setting<'_>| setting.one_way(load).and_then(|series| series.summary.p50).map(spoken::duration);
    let mut text = format!("On {on}: {}. A message takes {} at p50", described(take), p50(take)?);
    if let Some(blocking) = known.iter().find(|its| its.subject == BLOCKING)
        && compared(run, load, take, &[*blocking]).iter().any(|effect| effect.outcome == Outcome::Better)
    {
        text.push_str(&format!("; with {BLOCKING}, {}", p50(blocking)?));
    }
    if let Some(share) = take.share() {
        text.push_str(&format!(". A busy program gets {} of the CPU", spoken::share(share)));
    }
    text.push('.');
    let others: Vec<String> = equal.iter().filter(|its| !std::ptr::eq(**its, take)).map(|its| described(its)).collect();
    if !others.is_empty() {
        text.push_str(&format!(" No difference shown from {}.", listed(&others, MOST)));
    }
    Some(text)
}

/// What the one setting gains against each of the others at p50.
fn compared(run: &Run, load: Load, one: &Setting<'_>, others: &[&Setting<'_>]) -> Vec<Effect> {
    let Some(after) = one.one_way(load) else { return Vec::new() };
    let pairs: Vec<Pair<'_>> =
        others.iter().filter_map(|its| Some(Pair { before: its.one_way(load)?, after, figure: Figure::P50 })).collect();
    test(run, &pairs)
}

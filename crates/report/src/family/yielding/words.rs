//! What a method of yielding costs and what it leaves to others, in sentences for the tables and for the first screen.

use crate::family::yielding::situation::{Figure, Situation};
use crate::format::{listed, spoken, units};
use punctual_record::experiment::yielding::Rank;

/// Most names in a list before the rest is counted.
pub(super) const MOST_NAMES: usize = 12;
/// From this ratio on, two costs are compared as a multiple.
const MUCH: f64 = 2.0;

pub(super) fn cost(figure: &Figure<'_>) -> String {
    figure.cost_ns().map_or_else(|| units::ABSENT.to_owned(), spoken::fine)
}

pub(super) fn name(figure: &Figure<'_>) -> String {
    figure.calls.subject.clone()
}

/// What the calls cost alone.
pub(super) fn costs(figures: &[&Figure<'_>]) -> Vec<String> {
    let mut sorted: Vec<&Figure<'_>> = figures.iter().copied().filter(|f| f.cost_ns().is_some()).collect();
    sorted.sort_by(|a, b| a.cost_ns().unwrap_or(0.0).total_cmp(&b.cost_ns().unwrap_or(0.0)));
    let list: Vec<String> = sorted.iter().map(|f| format!("{} {}", name(f), cost(f))).collect();
    if list.is_empty() {
        return Vec::new();
    }
    let mut texts = vec![format!("A call costs: {}.", listed(&list, usize::MAX))];
    if let Some((yielding, sleeping)) = pair(&sorted, "sched_yield", "usleep0")
        && dearer(sleeping, yielding)
        && let Some((yielding, sleeping)) = yielding.cost_ns().zip(sleeping.cost_ns())
    {
        let times = sleeping / yielding.max(0.1);
        if times >= MUCH {
            let times = units::count(times.round() as u64);
            texts.push(format!("A usleep(0) costs {times} times what a sched_yield() does."));
        }
    }
    texts
}

/// Whether the intervals of both medians do not overlap.
fn dearer(one: &Figure<'_>, other: &Figure<'_>) -> bool {
    let interval = |figure: &Figure<'_>| figure.calls.summary.ci95.p50;
    interval(one).zip(interval(other)).is_some_and(|(one, other)| one.low > other.high)
}

fn pair<'a, 'b>(figures: &[&'a Figure<'b>], one: &str, two: &str) -> Option<(&'a Figure<'b>, &'a Figure<'b>)> {
    let find = |name: &str| figures.iter().copied().find(|f| f.calls.subject == name);
    Some((find(one)?, find(two)?))
}

/// Which calls let the competitors run, what they got, and for how long the caller was away.
pub(super) fn who_gains(situation: &Situation, figures: &[&Figure<'_>]) -> Vec<String> {
    let known: Vec<&Figure<'_>> = figures.iter().copied().filter(|f| f.yielded().is_some()).collect();
    if situation.rank == Some(Rank::Higher) {
        let shares = known.iter().filter_map(|f| f.others_share());
        let Some(least) = shares.reduce(f64::min) else { return Vec::new() };
        return vec![format!(
            "The competitor runs before the caller whenever it is ready, whatever the caller calls, and had {} of the CPU at least.",
            spoken::share(least)
        )];
    }
    if known.is_empty() {
        return Vec::new();
    }
    let (mut yields, never): (Vec<&Figure<'_>>, Vec<&Figure<'_>>) =
        known.into_iter().partition(|f| f.lets_others_run());
    let share = |figure: &Figure<'_>| figure.left_to_others().unwrap_or(0.0);
    yields.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let mut alike: Vec<(String, Vec<String>)> = Vec::new();
    for figure in &yields {
        let Some(text) = gain(figure) else { continue };
        match alike.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name(figure)),
            None => alike.push((text, vec![name(figure)])),
        }
    }
    let mut texts: Vec<String> =
        alike.into_iter().map(|(text, names)| format!("{} {text}.", listed(&names, MOST_NAMES))).collect();
    if texts.is_empty() {
        texts.push("No method let others run.".to_owned());
    }
    if !never.is_empty() {
        let names: Vec<String> = never.iter().map(|f| name(f)).collect();
        let most = never.iter().filter_map(|f| f.yielded()).fold(0.0, f64::max);
        let preempted = if most > 0.0 {
            format!(" (the scheduler took the CPU by itself during {} of the calls at most)", spoken::share(most))
        } else {
            String::new()
        };
        texts.push(format!("These did not yield: {}{preempted}.", listed(&names, MOST_NAMES)));
    }
    texts
}

/// What one method's calls did for the competitors.
fn gain(figure: &Figure<'_>) -> Option<String> {
    let mut text = format!(
        "let others run in {} of the calls and left them {} of the CPU time of both",
        spoken::share(figure.yielded()?),
        spoken::share(figure.left_to_others()?)
    );
    if let Some(away) = figure.away.and_then(|s| s.summary.p50) {
        text.push_str(&format!(", away for {} at p50", spoken::duration(away)));
    }
    Some(text)
}

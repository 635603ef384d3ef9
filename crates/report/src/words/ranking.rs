//! Sentences that rank: which method is least late, which of those that sleep, which takes least CPU time, and what
//! spinning buys.

use crate::story::unbroken;
use crate::style::Style;
use crate::units;

use super::figures::{Estimate, Figure, Figures};
use super::listed;

/// How many names a sentence lists before it counts the rest.
const NAMES: usize = 4;

/// Which method is least late.
#[must_use]
pub fn least_late(figures: &Figures<'_>, style: &Style) -> Option<String> {
    least_of(figures, figures.exact().collect(), "Least late", style)
}

/// Which of those that sleep is least late; nothing when that is the least late of all anyway.
#[must_use]
pub fn least_late_sleeping(figures: &Figures<'_>, style: &Style) -> Option<String> {
    let first = best(figures.exact())?;
    if first.sleeps() == Some(true) {
        return None;
    }
    if figures.sleeping().next().is_none() {
        let none = figures.exact().all(|row| row.sleeps() == Some(false));
        return none.then(|| "None of them sleeps: each gave up the CPU in fewer than half of its waits.".to_owned());
    }
    least_of(figures, figures.sleeping().collect(), "Of those that sleep, least late", style)
}

/// The lowest median, then the lowest 99th percentile.
pub(crate) fn best<'f, 'a: 'f>(rows: impl Iterator<Item = &'f Figure<'a>>) -> Option<&'f Figure<'a>> {
    rows.filter(|row| row.p50.is_some()).min_by_key(|row| (value(row.p50), value(row.p99)))
}

fn value(estimate: Option<Estimate>) -> i64 {
    estimate.map_or(i64::MAX, |estimate| estimate.value)
}

fn least_of(figures: &Figures<'_>, rows: Vec<&Figure<'_>>, lead: &str, style: &Style) -> Option<String> {
    let first = best(rows.iter().copied())?;
    let p50 = first.p50?;
    let name = figures.name(first);
    if p50.interval.is_none() {
        let median = unbroken(&units::duration(p50.value, style));
        return Some(format!("{lead} in this run: {name}, {median} at p50, but too few samples to say that it is so."));
    }
    let mut text = format!("{lead}: {name}, {} at p50", shown(p50, style));
    if let Some(p99) = first.p99 {
        text.push_str(&format!(" and {} at p99", shown(p99, style)));
    }
    text.push('.');
    let equal: Vec<String> = rows
        .iter()
        .filter(|row| !std::ptr::eq(**row, first))
        .filter(|row| row.p50.is_some_and(|its| its.exceeds(&p50).is_none()))
        .map(|row| figures.name(row))
        .collect();
    if !equal.is_empty() {
        text.push_str(&format!(" At p50, {} cannot be told apart from it.", listed(&equal, NAMES)));
    }
    text.push_str(&better_at_p99(figures, &rows, first, style).unwrap_or_default());
    Some(text)
}

fn better_at_p99(figures: &Figures<'_>, rows: &[&Figure<'_>], first: &Figure<'_>, style: &Style) -> Option<String> {
    let p99 = first.p99?;
    let better = rows.iter().filter(|row| row.p99.is_some_and(|its| p99.exceeds(&its).is_some()));
    let other = better.min_by_key(|row| value(row.p99))?;
    Some(format!(" At p99, {} is less late: {}.", figures.name(other), shown(other.p99?, style)))
}

/// A figure with its interval: `71.2 µs [70.9 to 71.6 µs]`.
pub(crate) fn shown(estimate: Estimate, style: &Style) -> String {
    let figure = units::duration(estimate.value, style);
    let interval = estimate.interval.map_or(String::new(), |interval| format!(" {}", units::interval(interval, style)));
    unbroken(&format!("{figure}{interval}"))
}

/// What the best spinning method buys over the best sleeping one under the same conditions, and what it costs.
#[must_use]
pub fn trade_off(figures: &Figures<'_>, style: &Style) -> Option<String> {
    let sleeping = best(figures.sleeping())?;
    let same = |row: &&Figure<'_>| row.sleeps() == Some(false) && row.conditions == sleeping.conditions;
    let spinning = best(figures.exact().filter(same))?;
    let (spin_share, sleep_share) = (spinning.cpu_share?, sleeping.cpu_share?);
    let cost = format!(
        "at {} of a CPU instead of {}",
        unbroken(&units::share(spin_share)),
        unbroken(&units::share(sleep_share))
    );
    let (spin, sleep) = (spinning.p50?, sleeping.p50?);
    let (a, b) = (figures.name(spinning), figures.name(sleeping));
    Some(match (sleep.exceeds(&spin), spin.exceeds(&sleep)) {
        (Some(gain), _) => {
            let by = shown(Estimate { value: gain.value, interval: Some(gain.interval) }, style);
            format!("Spinning ({a}) wakes {by} earlier at p50 than sleeping ({b}), {cost}.")
        }
        (_, Some(loss)) => {
            let by = shown(Estimate { value: loss.value, interval: Some(loss.interval) }, style);
            format!("Spinning does not pay here: {a} wakes {by} later at p50 than {b}, {cost}.")
        }
        _ => format!("Spinning ({a}) and sleeping ({b}) cannot be told apart at p50, {cost}."),
    })
}

/// Which method takes least CPU time per wait.
#[must_use]
pub fn least_cpu(figures: &Figures<'_>, style: &Style) -> Option<String> {
    let rows: Vec<&Figure<'_>> = figures.exact().filter(|row| row.cpu_ns.is_some()).collect();
    let cost = |row: &Figure<'_>| row.cpu_ns.unwrap_or(f64::MAX);
    let first = *rows.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let ns = first.cpu_ns?;
    let share = first.cpu_share.map_or(String::new(), |share| format!(" ({} of a CPU)", units::share(share)));
    let figure = unbroken(&format!("{}{share}", units::duration_fine(ns, style)));
    let name = figures.name(first);
    let Some((low, high)) = first.cpu_rounds else {
        return Some(format!(
            "Least CPU time in this run: {name}, {figure} per wait, but without rounds to say that it is so."
        ));
    };
    let range = unbroken(&format!("{} to {}", units::duration_fine(low, style), units::duration_fine(high, style)));
    let mut text = format!("Least CPU time: {name}, {figure} per wait, {range} in its rounds.");
    let equal: Vec<String> = rows
        .iter()
        .filter(|row| !std::ptr::eq(**row, first) && row.cpu_rounds.is_none_or(|(its_low, _)| its_low <= high))
        .map(|row| figures.name(row))
        .collect();
    if !equal.is_empty() {
        text.push_str(&format!(" In CPU time, {} cannot be told apart from it.", listed(&equal, NAMES)));
    }
    Some(text)
}

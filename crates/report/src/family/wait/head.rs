//! The table of the first screen: what was found, the other calls and conditions, the library's sleeper, spinning.

use punctual_record::{Quantity, Run};

use crate::document::{Column, Paint, Row, Table};
use crate::format::{distinct, units};
use crate::naming::AS_FOUND;
use crate::verdict::{Advice, Standing};
use crate::words::{Figure, Figures, SLEEPING_CALLS, best};

use super::asked;

/// Most durations side by side: three columns each fit into 80 characters twice.
const DURATIONS: usize = 2;
/// Most calls and conditions.
const ROWS: usize = 8;

/// A row by its name, its method and its conditions.
type Key<'f> = (String, &'f str, &'f str);

/// The table; nothing where no wait as long as asked has a median.
pub(super) fn table(run: &Run, all: &[Figures<'_>], own: &[&Advice]) -> Option<Table> {
    let base = |figures: &&Figures<'_>| figures.exact().any(|row| row.p50.is_some());
    let shown: Vec<&Figures<'_>> = all.iter().filter(base).take(DURATIONS).collect();
    let first = shown.first()?;
    let mut keys = if run.is_checkup() { of_checkup(first, own)? } else { of_calls(first) };
    keys.truncate(ROWS);
    let known: Vec<(&str, &str)> = keys.iter().map(|(_, subject, conditions)| (*subject, *conditions)).collect();
    keys.extend(awake(&shown, first).into_iter().filter(|(_, subject, its)| !known.contains(&(*subject, *its))));
    let error = !run.is_checkup()
        && shown.len() == 1
        && first.rows.iter().any(|row| row.series.quantity == Quantity::Overshoot);
    let mut columns = vec![Column::left("how late", Column::ALWAYS)];
    for figures in &shown {
        let over = format!("wait {}", units::exact(figures.asked_ns));
        columns.extend(["p50", "p99", "CPU"].map(|heading| Column::right(heading, Column::ALWAYS).over(&over)));
        if error {
            columns.extend(["elapsed", "error"].map(|heading| Column::right(heading, 1).over(&over)));
        }
    }
    let rows = keys.iter().map(|(name, subject, conditions)| row(&shown, name, (subject, conditions), error));
    Some(Table { columns, rows: rows.collect() })
}

/// The reference, and its other conditions where they are advised.
fn of_checkup<'f>(first: &'f Figures<'_>, own: &[&Advice]) -> Option<Vec<Key<'f>>> {
    let base = first.reference()?;
    let mut keys = vec![(base_name(base), base.subject.as_str(), base.conditions.as_str())];
    for other in first.rows.iter().filter(|row| row.subject == base.subject && row.conditions != base.conditions) {
        let advised =
            own.iter().any(|advice| advice.standing == Standing::Advised && advice.is_about(&other.conditions));
        if advised {
            keys.push((format!("... {}", other.conditions), &other.subject, &other.conditions));
        }
    }
    Some(keys)
}

/// The calls that sleep, those that programs use most first, each under all conditions.
fn of_calls<'f>(first: &'f Figures<'_>) -> Vec<Key<'f>> {
    let known = |subject: &str| SLEEPING_CALLS.iter().position(|name| *name == subject).unwrap_or(usize::MAX);
    let least = |subject: &str| {
        first.exact().filter(|row| row.subject == subject).filter_map(|row| row.series.summary.p50).min()
    };
    let mut calls = distinct(first.exact().filter(|row| row.sleeps() != Some(false)).map(|row| row.subject.as_str()));
    calls.sort_by_key(|subject| (known(subject), least(subject)));
    let mut keys = Vec::new();
    for subject in calls {
        let its = || first.exact().filter(move |row| row.subject == subject);
        let base = its().find(|row| row.conditions == first.base);
        let others = its().filter(|row| row.conditions != first.base);
        for row in base.into_iter().chain(others) {
            let follows = keys.last().is_some_and(|(_, before, _): &Key<'_>| *before == subject);
            let name = match (first.many_conditions, follows) {
                (false, _) if row.subject == "hybrid" => "punctual::Sleeper (hybrid)".to_owned(),
                (false, _) => row.subject.clone(),
                (true, false) => format!("{}, {}", row.subject, row.conditions),
                (true, true) => format!("... {}", row.conditions),
            };
            keys.push((name, subject, &row.conditions));
        }
    }
    keys
}

/// The library's sleeper and the best way to spin, under the base conditions.
fn awake<'f>(shown: &[&'f Figures<'_>], first: &'f Figures<'_>) -> Vec<Key<'f>> {
    let base = |row: &&Figure<'_>| row.conditions == first.base;
    let measured =
        |subject: &str| shown.iter().any(|figures| figures.exact().filter(base).any(|row| row.subject == subject));
    let mut keys: Vec<Key<'f>> = Vec::new();
    if measured("hybrid") {
        keys.push(("punctual::Sleeper".to_owned(), "hybrid", &first.base));
    }
    let spinning =
        best(first.exact().filter(base).filter(|row| row.sleeps() == Some(false) && row.subject != "hybrid"));
    if let Some(row) = spinning {
        keys.push((format!("spinning ({})", row.subject), &row.subject, &first.base));
    }
    keys
}

fn row(shown: &[&Figures<'_>], name: &str, (subject, conditions): (&str, &str), error: bool) -> Row {
    let mut cells = vec![name.to_owned()];
    for &figures in shown {
        let its = figures.exact().find(|row| row.subject == subject && row.conditions == conditions);
        cells.push(units::known(its.and_then(|row| row.p50)));
        cells.push(units::known(its.and_then(|row| row.p99)));
        cells.push(its.and_then(|row| row.cpu_share).map_or(units::ABSENT.to_owned(), units::share));
        if error {
            let relative = its.filter(|row| row.series.quantity == Quantity::Overshoot).map(|row| row.series);
            cells.push(relative.and_then(asked::elapsed).map_or_else(String::new, units::duration));
            cells.push(relative.and_then(asked::error).map_or_else(String::new, units::error));
        }
    }
    Row::Cells(cells, Paint::Plain)
}

/// The baseline's row: what was found needs no name.
fn base_name(base: &Figure<'_>) -> String {
    if base.conditions == AS_FOUND { base.subject.clone() } else { format!("{}, {}", base.subject, base.conditions) }
}

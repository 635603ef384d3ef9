//! Sweeps: the highest rate that each method of pacing holds. There are no remedies: each method has trials at rates of
//! its own, so no rounds are comparable.

use punctual_record::experiment::sweep::{Metrics, Parameters};
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::format::{listed, spoken, unbroken, units};
use crate::verdict::{Advice, Answer};

use super::shared::{ALWAYS, Family, Measured, measured};

pub(super) const FAMILY: Family =
    Family { answer, ..Family::without_answer("sweep", "The highest rate held", sections) };

type Swept<'a> = Measured<'a, Parameters, Metrics>;

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let rows = sorted(series);
    let Some(first) = rows.first() else { return Vec::new() };
    let Parameters { within_ns, to, .. } = first.parameters;
    let legend =
        format!("Held: reached within 1 %, 99th percentile of lateness at most {}.", spoken::exact(*within_ns));
    let mut section = Section::new(format!("highest rate held, {}", to.as_deref().unwrap_or_default()))
        .with(Block::Table(table(&rows, true)))
        .with(Block::Legend(vec![Note::always(legend)]));
    section.blocks.extend(words(&rows).map(Block::Paragraph));
    vec![section]
}

/// The highest and the lowest, and a row for each.
fn answer(_: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let rows = sorted(series);
    Answer { table: (!rows.is_empty()).then(|| screen(&rows)), ..Answer::in_words(words(&rows).into_iter().collect()) }
}

fn screen(rows: &[Swept<'_>]) -> Table {
    let ends = [rows.first(), rows.last()].into_iter().flatten().map(|s| s.subject.clone()).collect();
    table(rows, false).ranked("highest rate held", ends)
}

fn table(rows: &[Swept<'_>], full: bool) -> Table {
    let why = |s: &Swept<'_>| s.metrics.why_not_higher.clone().unwrap_or_else(|| units::ABSENT.to_owned());
    Columns::new()
        .left("method", ALWAYS, |s: &Swept<'_>| s.subject.clone())
        .left("conditions", 60, |s| s.conditions.clone())
        .right("highest rate held", ALWAYS, |s| units::rate(held(s)))
        .known("not held", 70, |s| s.metrics.rate_not_held, units::rate)
        .when(full, |columns| columns.ns("late p50", 50, |s| s.summary.p50))
        .ns("p99", 80, |s| s.summary.p99)
        .share("CPU", 90, |s| s.cpu_share)
        .when(full, |columns| columns.left("why not higher", 40, why))
        .plain(rows)
}

/// The highest rate first.
fn sorted<'a>(series: &[&'a Series]) -> Vec<Swept<'a>> {
    let mut rows: Vec<Swept<'_>> = measured(series, Experiment::sweep);
    rows.sort_by(|a, b| held(b).total_cmp(&held(a)));
    rows
}

fn held(s: &Swept<'_>) -> f64 {
    s.metrics.highest_rate_held.unwrap_or(0.0)
}

/// The search ends between a rate held and one not held: two methods are equal where these ranges overlap.
fn equal(a: &Swept<'_>, b: &Swept<'_>) -> bool {
    let top = |s: &Swept<'_>| s.metrics.rate_not_held.unwrap_or(f64::INFINITY);
    held(a) == held(b) || (held(a) < top(b) && held(b) < top(a))
}

/// Which methods hold the highest rate, and which the lowest, with all that are equal to them.
fn words(rows: &[Swept<'_>]) -> Option<String> {
    let named = |swept: &Swept<'_>| {
        let names: Vec<String> = rows.iter().filter(|s| equal(s, swept)).map(|s| s.subject.clone()).collect();
        listed(&names, usize::MAX)
    };
    let rate = |s: &Swept<'_>| {
        let end = if s.metrics.rate_not_held.is_none() { "at least " } else { "" };
        unbroken(&format!("{end}{} a second", units::rate(held(s))))
    };
    let (best, least) = (rows.first()?, rows.last()?);
    if rows.len() == 1 {
        return Some(format!("{} holds {}.", best.subject, rate(best)));
    }
    if equal(best, least) {
        return Some(format!("No difference shown between {}: {}.", named(best), rate(best)));
    }
    Some(format!("Highest rate held: {}, {}. Lowest: {}, {}.", named(best), rate(best), named(least), rate(least)))
}

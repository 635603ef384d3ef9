//! Waiting: one table per requested duration with the best method on top; what it says stands in the head.

use punctual_record::{Quantity, Run, Series};

use crate::document::{Block, Column, Columns, Note, Paint, Row, Section};
use crate::format::distribution::{self, Scale};
use crate::format::{grouped, sanitize, spoken, units};
use crate::naming::{conditions, under};
use crate::words;

use asked::{elapsed, error, rounds_to};

use super::shared::{ALWAYS, Family, absent_note, interval_note};

pub(super) mod answer;
pub(crate) mod asked;
pub(super) mod candidates;
mod head;
mod interrupted;
mod levers;
mod picture;
mod side_by_side;
mod suggestion;
mod timers;
mod watched;

pub(super) const FAMILY: Family =
    Family { experiment: "wait", sections, candidates: candidates::candidates, answer: answer::answer };

/// Characters of the drawing: as many as its heading.
const DRAWING: usize = 12;

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let signalled = interrupted::sections(run, series);
    let series = &interrupted::undisturbed(series)[..];
    let groups = words::by_asked(series);
    let mut sections: Vec<Section> = groups.iter().map(|(asked, rows)| table_section(run, *asked, rows)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(series)));
    }
    sections.extend(side_by_side::section(run, &groups));
    sections.extend(suggestion::section(run).filter(|_| !series.is_empty()));
    sections.extend(signalled);
    sections
}

fn table_section(run: &Run, asked: i64, series: &[&Series]) -> Section {
    let one_set = series.iter().all(|its| its.conditions == series[0].conditions);
    let mut heading = format!("wait {}", units::exact(asked));
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!(", {}", under(&conditions(run, &series[0].conditions))));
    }
    let labels: Vec<&str> = series.iter().map(|its| its.conditions.as_str()).collect();
    let usual = words::usual(&labels);
    if let Some(usual) = &usual {
        heading.push_str(&format!(", {} unless named", under(&conditions(run, usual))));
    }
    let scale = scale(series);
    let usual = usual.as_deref();
    let relative = series.iter().any(|series| series.quantity == Quantity::Overshoot);
    let named = |series: &&Series| match usual {
        Some(usual) if usual == series.conditions => String::new(),
        _ => conditions(run, &series.conditions),
    };
    let columns = Columns::new()
        .left("method", ALWAYS, |series: &&Series| sanitize(&series.subject))
        .left("conditions", ALWAYS, named)
        .only_if(!one_set)
        .count("n", 40, |series| Some(series.summary.count))
        .ns("min", 20, |series| series.summary.min)
        .estimate("p50", (ALWAYS, 60), |series| (series.summary.p50, series.summary.ci95.p50))
        .when(relative, |columns| {
            columns.ns("elapsed", 6, |series| elapsed(series)).known("error", 5, |series| error(series), units::error)
        })
        .ns("p90", 10, |series| series.summary.p90)
        .estimate("p99", (ALWAYS, 30), |series| (series.summary.p99, series.summary.ci95.p99))
        .ns("p99.9", 50, |series| series.summary.p999)
        .ns("max", 90, |series| series.summary.max)
        .fine("CPU/wait", 70, |series| series.cpu_ns_per_op)
        .share("CPU", 100, |series| series.cpu_share)
        .switches("switches", 35, |series| (series.voluntary_switches_per_op, series.involuntary_switches_per_op))
        .column(Column::drawn("distribution", 80), |series| {
            let bins = scale.and_then(|scale| distribution::bins(series, scale, DRAWING));
            bins.map_or_else(|| units::ABSENT.to_owned(), |bins| distribution::draw(&bins))
        });
    let table = columns.table(rows(series, &columns));
    let mut section = Section::new(heading).with(Block::Table(table));
    if let Some(scale) = scale {
        let ends = [scale.low_ns, scale.high_ns].map(spoken::duration);
        let text = format!("Distribution: {} to {}, logarithmic, later to the right.", ends[0], ends[1]);
        section.blocks.push(Block::Legend(vec![Note::on("distribution", text)]));
    }
    section
}

/// The scale of the drawings is that of the methods that do what was asked. A coarse one would flatten all others.
fn scale(series: &[&Series]) -> Option<Scale> {
    Scale::over(series.iter().copied().filter(|series| rounds_to(series).is_none()))
        .or_else(|| Scale::over(series.iter().copied()))
}

/// First those that wait as long as asked, then the coarse ones under what they round to. In each, the least late comes
/// first.
fn rows<'a>(series: &[&'a Series], columns: &Columns<'_, &'a Series>) -> Vec<Row> {
    let mut sorted = series.to_vec();
    sorted.sort_by_key(|series| {
        let late = |figure: Option<i64>| figure.unwrap_or(i64::MAX);
        let summary = &series.summary;
        (rounds_to(series), late(summary.p50), late(summary.p99))
    });
    let mut rows = Vec::new();
    for (rounded, group) in grouped(&sorted, |series| rounds_to(series)) {
        rows.extend(rounded.map(|ns| Row::Label(format!("rounds to {}:", units::exact(ns)))));
        let paint = if rounded.is_some() { Paint::Faint } else { Paint::Plain };
        rows.extend(group.iter().map(|series| columns.row(series, paint)));
    }
    rows
}

/// What the columns mean, each note only where its column is shown.
fn legend(series: &[&Series]) -> Vec<Note> {
    let mut notes = vec![
        Note::always("Figures are how late a wait ended: after its deadline, or beyond the duration asked for."),
        interval_note(),
        Note::on("error", "elapsed: duration asked + p50; error: p50 in per cent of the duration asked."),
        Note::on("CPU", "CPU: share of one CPU while waiting."),
        Note::on("switches", "switches: times per wait that the thread gave up the CPU + was preempted."),
        Note::on("distribution", "Height of a distribution: logarithmic, a step is half a decade."),
    ];
    notes.extend(absent_note(series.iter().copied()));
    notes
}

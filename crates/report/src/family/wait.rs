//! Waiting: one table per duration asked, the best method on top, and what the figures say.

use punctual_record::{Run, Series};

use crate::background::conditions;
use crate::distribution::{self, Scale};
use crate::plain::plain;
use crate::story::{Block, Note, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words;

use super::Family;

mod advice;
mod remedy;
mod said;
mod side_by_side;

pub(super) const FAMILY: Family = Family { experiment: "wait", sections, advice: advice::advice };

/// Characters of the drawing: as many as its heading, more where there is room.
fn drawing_width(style: &Style) -> usize {
    if style.columns() >= 120 { 16 } else { 12 }
}

const COLUMNS: [Column; 15] = [
    Column::left("method", Column::ALWAYS),
    Column::left("conditions", Column::ALWAYS),
    Column::right("n", 40),
    Column::right("min", 20),
    Column::right("p50", Column::ALWAYS),
    Column::joined("[95 %]", 60),
    Column::right("p90", 10),
    Column::right("p99", Column::ALWAYS),
    Column::joined("[95 %]", 30),
    Column::right("p99.9", 50),
    Column::right("max", 90),
    Column::right("CPU/wait", 70),
    Column::right("CPU", 100),
    Column::right("switches", 35),
    Column::left("distribution", 80),
];

const CONDITIONS: usize = 1;

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let groups = by_asked(series);
    let mut sections: Vec<Section> =
        groups.iter().map(|(asked, rows)| table_section(run, *asked, rows, style)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(series, style)));
    }
    sections.extend(side_by_side::section(run, &groups, style));
    sections.extend(said::sections(run, &groups, style));
    sections
}

/// The durations asked, ascending; series that do not say are under `None`, at the end.
type Groups<'a> = Vec<(Option<i64>, Vec<&'a Series>)>;

pub(super) fn by_asked<'a>(series: &[&'a Series]) -> Groups<'a> {
    let mut groups: Groups<'a> = Vec::new();
    for &series in series {
        let asked = words::int(series, "asked_ns");
        match groups.iter_mut().find(|(its, _)| *its == asked) {
            Some((_, rows)) => rows.push(series),
            None => groups.push((asked, vec![series])),
        }
    }
    groups.sort_by_key(|(asked, _)| (asked.is_none(), *asked));
    groups
}

fn table_section(run: &Run, asked: Option<i64>, series: &[&Series], style: &Style) -> Section {
    let one_set = series.iter().all(|its| its.conditions == series[0].conditions);
    let mut heading = asked.map_or("wait".to_owned(), |ns| format!("wait {}", units::exact(ns, style)));
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!(" under {}", conditions(run, &series[0].conditions, style)));
    }
    let labels: Vec<&str> = series.iter().map(|its| its.conditions.as_str()).collect();
    let usual = words::usual(&labels);
    if let Some(usual) = &usual {
        let usual = words::running(&conditions(run, usual, style)).replace('\u{a0}', " ");
        heading.push_str(&format!(", under {usual} unless named"));
    }
    let mut table = Table { columns: COLUMNS.to_vec(), rows: rows(run, asked, series, usual.as_deref(), style) };
    if one_set {
        table.columns.remove(CONDITIONS);
        for row in &mut table.rows {
            if let Row::Cells(cells, _) = row {
                cells.remove(CONDITIONS);
            }
        }
    }
    let mut section = Section::new(heading).with(Block::Table(table));
    if let Some(scale) = scale(asked, series) {
        let ends = [scale.low_ns, scale.high_ns].map(|ns| unbroken(&units::duration(ns, style)));
        let text = format!("Distribution: {} to {}, logarithmic, what is later at the right end.", ends[0], ends[1]);
        section.blocks.push(Block::Legend(vec![Note::on("distribution", text)]));
    }
    section
}

/// What a coarse call rounds the duration to; `None` where it waits as long as asked.
fn rounds_to(asked: Option<i64>, series: &Series) -> Option<i64> {
    words::int(series, "effective_ns").filter(|&ns| asked.is_some_and(|asked| ns > asked))
}

/// The scale of the drawings: that of the methods that do what was asked, for a coarse one would flatten all others.
fn scale(asked: Option<i64>, series: &[&Series]) -> Option<Scale> {
    Scale::over(series.iter().copied().filter(|series| rounds_to(asked, series).is_none()))
        .or_else(|| Scale::over(series.iter().copied()))
}

/// First those that wait as long as asked, then the coarse ones under what they round to; in each, the least late first.
/// Conditions are named but for the `usual` ones.
fn rows(run: &Run, asked: Option<i64>, series: &[&Series], usual: Option<&str>, style: &Style) -> Vec<Row> {
    let mut sorted = series.to_vec();
    sorted.sort_by_key(|series| {
        let late = |figure: Option<i64>| figure.unwrap_or(i64::MAX);
        let summary = &series.summary;
        (rounds_to(asked, series), late(summary.p50), late(summary.p99))
    });
    let scale = scale(asked, series);
    let mut rows = Vec::new();
    let mut group = None;
    for series in sorted {
        let rounded = rounds_to(asked, series);
        if let Some(ns) = rounded.filter(|_| rounded != group) {
            rows.push(Row::Label(format!("rounds to {}:", units::exact(ns, style))));
        }
        group = rounded;
        let paint = if rounded.is_some() { Paint::Faint } else { Paint::Plain };
        let named = match usual {
            Some(usual) if usual == series.conditions => String::new(),
            Some(usual) => unlike(&conditions(run, &series.conditions, style), &conditions(run, usual, style), style),
            None => conditions(run, &series.conditions, style),
        };
        rows.push(Row::Cells(cells(series, named, scale, style), paint));
    }
    rows
}

/// The name of conditions beside the usual ones: on a narrow terminal without the policy that both have.
fn unlike(name: &str, usual: &str, style: &Style) -> String {
    const NARROW: usize = 80;
    let policy = usual.split_once(", ").map(|(policy, _)| policy).filter(|_| style.columns() < NARROW);
    let rest = policy.and_then(|policy| name.strip_prefix(policy)?.strip_prefix(", "));
    rest.unwrap_or(name).to_owned()
}

fn cells(series: &Series, conditions: String, scale: Option<Scale>, style: &Style) -> Vec<String> {
    let summary = &series.summary;
    let absent = || style.absent().to_owned();
    let figure = |ns: Option<i64>| ns.map_or_else(absent, |ns| units::duration(ns, style));
    let interval = |figure: Option<i64>, interval| match (figure, interval) {
        (Some(figure), Some(interval)) => units::interval_like(interval, figure),
        _ => String::new(),
    };
    let switches = match (series.voluntary_switches_per_op, series.involuntary_switches_per_op) {
        (Some(own), Some(forced)) => format!("{}+{}", units::per_op(own), units::per_op(forced)),
        _ => absent(),
    };
    let drawing = scale.and_then(|scale| distribution::bins(series, scale, drawing_width(style)));
    vec![
        plain(&series.subject, style),
        conditions,
        units::count(summary.count),
        figure(summary.min),
        figure(summary.p50),
        interval(summary.p50, summary.ci95.p50),
        figure(summary.p90),
        figure(summary.p99),
        interval(summary.p99, summary.ci95.p99),
        figure(summary.p999),
        figure(summary.max),
        series.cpu_ns_per_op.map_or_else(absent, |ns| units::duration_fine(ns, style)),
        series.cpu_share.map_or_else(absent, units::share),
        switches,
        drawing.map_or_else(absent, |bins| distribution::draw(&bins, style)),
    ]
}

/// What the columns mean, each note only where its column is shown.
fn legend(series: &[&Series], style: &Style) -> Vec<Note> {
    let interval = "[ ]: the true percentile lies there with 95 % confidence, in the unit of the figure before it.";
    let mut notes = vec![
        Note::always("Figures are how late a wait ended: after its deadline, or beyond the duration asked for."),
        Note::on("p50 [95 %]", interval.replace("[ ]", "[\u{a0}]").replace("95 %", "95\u{a0}%")),
        Note::on("CPU", "CPU: share of one CPU while waiting."),
        Note::on("switches", "switches: times per wait that the thread gave up the CPU + was preempted."),
        Note::on("distribution", "Height of a distribution: logarithmic, a step is half a decade."),
    ];
    let lacks = |series: &&Series| {
        let summary = &series.summary;
        [summary.p50, summary.p90, summary.p99, summary.p999].contains(&None)
    };
    if series.iter().any(lacks) {
        notes.push(Note::always(format!("{}: too few samples, or not known.", style.absent())));
    }
    notes
}

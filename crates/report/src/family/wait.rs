//! Waiting: one table per duration asked, the best method on top, and what the figures say.

use punctual_record::{Run, Series};

use crate::distribution::{self, Scale};
use crate::plain::plain;
use crate::story::{Block, Item, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words::{self, Figures};

use super::Family;
use super::c_call::c_call;

mod advice;

pub(super) const FAMILY: Family = Family { experiment: "wait", sections, advice: advice::advice };

/// Characters of the drawing: on a wide terminal twelve decades' thirds, otherwise eight.
const DRAWING: usize = 12;

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
    let mut sections: Vec<Section> = groups.iter().map(|(asked, rows)| table_section(*asked, rows, style)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(series, style)));
    }
    sections.extend(words_section(run, &groups, style));
    sections
}

/// The durations asked, ascending; series that do not say are under `None`, at the end.
type Groups<'a> = Vec<(Option<i64>, Vec<&'a Series>)>;

fn by_asked<'a>(series: &[&'a Series]) -> Groups<'a> {
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

fn table_section(asked: Option<i64>, series: &[&Series], style: &Style) -> Section {
    let one_set = series.iter().all(|its| its.conditions == series[0].conditions);
    let mut heading = asked.map_or("wait".to_owned(), |ns| format!("wait {}", units::exact(ns, style)));
    if one_set && !series[0].conditions.is_empty() {
        heading.push_str(&format!(" under {}", plain(&series[0].conditions, style)));
    }
    let mut table = Table { columns: COLUMNS.to_vec(), rows: rows(asked, series, style) };
    if one_set {
        table.columns.remove(CONDITIONS);
        for row in &mut table.rows {
            if let Row::Cells(cells, _) = row {
                cells.remove(CONDITIONS);
            }
        }
    }
    let mut section = Section::new(heading).with(Block::Table(table));
    if let Some(scale) = Scale::over(series.iter().copied()) {
        let ends = [scale.low_ns, scale.high_ns].map(|ns| unbroken(&units::duration(ns, style)));
        section.blocks.push(Block::Legend(format!("Distribution: from {} to {}, logarithmic.", ends[0], ends[1])));
    }
    section
}

/// First those that wait as long as asked, then the coarse ones under what they round to; in each, the least late first.
fn rows(asked: Option<i64>, series: &[&Series], style: &Style) -> Vec<Row> {
    let rounds_to =
        |series: &Series| words::int(series, "effective_ns").filter(|&ns| asked.is_some_and(|asked| ns > asked));
    let mut sorted = series.to_vec();
    sorted.sort_by_key(|series| {
        let late = |figure: Option<i64>| figure.unwrap_or(i64::MAX);
        let summary = &series.summary;
        (rounds_to(series), late(summary.p50), late(summary.p99), &series.subject, &series.conditions)
    });
    let scale = Scale::over(sorted.iter().copied());
    let mut rows = Vec::new();
    let mut group = None;
    for series in sorted {
        let rounded = rounds_to(series);
        if let Some(ns) = rounded.filter(|_| rounded != group) {
            rows.push(Row::Label(format!("rounds to {}:", units::exact(ns, style))));
        }
        group = rounded;
        let paint = if rounded.is_some() { Paint::Faint } else { Paint::Plain };
        rows.push(Row::Cells(cells(series, scale, style), paint));
    }
    rows
}

fn cells(series: &Series, scale: Option<Scale>, style: &Style) -> Vec<String> {
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
    let drawing = scale.and_then(|scale| distribution::bins(series, scale, DRAWING));
    vec![
        plain(&series.subject, style),
        plain(&series.conditions, style),
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

fn legend(series: &[&Series], style: &Style) -> String {
    let mut text = "Figures are how late a wait ended. [ ]: the true percentile lies there with 95 % confidence, in the unit \
                    of the figure before it. CPU: share of one CPU while waiting. switches: times per wait that the thread \
                    gave up the CPU + was preempted."
        .to_owned();
    let lacks = |series: &&Series| {
        let summary = &series.summary;
        [summary.p50, summary.p90, summary.p99, summary.p999].contains(&None)
    };
    if series.iter().any(lacks) {
        text.push_str(&format!(" {}: too few samples.", style.absent()));
    }
    text.replace("95 %", "95\u{a0}%").replace("[ ]", "[\u{a0}]")
}

fn words_section(run: &Run, groups: &Groups<'_>, style: &Style) -> Option<Section> {
    let mut section = Section::new("In words");
    let mut calls: Vec<(String, Option<&'static str>, Vec<i64>)> = Vec::new();
    for (asked, series) in groups {
        let Some(asked) = *asked else { continue };
        let figures = Figures::of(run, asked, series, style);
        let sentences = words::verdict(&figures, style);
        if sentences.is_empty() {
            continue;
        }
        let lead = unbroken(&units::exact(asked, style));
        section.blocks.push(Block::Paragraph(format!("Waiting {lead}. {}", sentences.join(" "))));
        for best in [words::best(figures.exact()), words::best(figures.sleeping())].into_iter().flatten() {
            match calls.iter_mut().find(|(subject, _, _)| *subject == best.subject) {
                Some((_, _, asked_for)) if asked_for.contains(&asked) => {}
                Some((_, _, asked_for)) => asked_for.push(asked),
                None => calls.push((best.subject.clone(), c_call(&best.subject), vec![asked])),
            }
        }
    }
    let items: Vec<Item> = calls
        .into_iter()
        .filter_map(|(subject, call, asked)| {
            let durations: Vec<String> = asked.iter().map(|ns| unbroken(&units::exact(*ns, style))).collect();
            let text = format!("In C, for {} ({subject}):", words::listed(&durations, 5));
            Some(Item { text, code: Some(call?.to_owned()) })
        })
        .collect();
    if !items.is_empty() {
        section.blocks.push(Block::Items(items));
    }
    (!section.blocks.is_empty()).then_some(section)
}

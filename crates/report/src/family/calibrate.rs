//! Calibration: what a sleep adds and what the clock costs, and what waits corrected by that achieve.

use punctual_record::{Param, Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Note, Section, unbroken};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "calibrate", sections, advice: |_, _, _| Advice::default() };

fn figure_of(series: &Series) -> &str {
    match series.parameters.get("figure") {
        Some(Param::Text(figure)) => figure,
        _ => "",
    }
}

fn real(series: &Series, name: &str) -> Option<f64> {
    match series.outcome.get(name)? {
        Param::Real(value) => Some(*value),
        Param::Int(value) => Some(*value as f64),
        _ => None,
    }
}

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let adds: Vec<&Series> = series.iter().copied().filter(|s| figure_of(s) == "sleep_adds").collect();
    let mut sections = Vec::new();
    if !adds.is_empty() {
        sections.push(found(run, &adds, series, style));
    }
    let proofs: Vec<&Series> = series.iter().copied().filter(|s| words::int(s, "asked_ns").is_some()).collect();
    if let Some(first) = proofs.first() {
        let asked = words::int(first, "asked_ns").unwrap_or(0);
        sections.push(proved(run, asked, &proofs, &adds, style));
    }
    sections
}

/// The series of the same method and conditions with another figure.
fn beside<'a>(all: &[&'a Series], of: &Series, figure: &str) -> Option<&'a Series> {
    all.iter().copied().find(|s| s.subject == of.subject && s.conditions == of.conditions && figure_of(s) == figure)
}

const FOUND: [Column; 9] = [
    Column::left("method", Column::ALWAYS),
    Column::left("conditions", Column::ALWAYS),
    Column::right("rounds", 30),
    Column::right("a sleep adds (TN)", Column::ALWAYS),
    Column::joined("[95 %]", 60),
    Column::right("p5 to p95", 80),
    Column::right("drift per s", 50),
    Column::right("clock (TS+TE)", 90),
    Column::right("read twice", 40),
];

fn found(run: &Run, adds: &[&Series], all: &[&Series], style: &Style) -> Section {
    let absent = || style.absent().to_owned();
    let row = |s: &&Series| {
        let summary = &s.summary;
        let interval = match (summary.p50, summary.ci95.p50) {
            (Some(figure), Some(interval)) => units::interval_like(interval, figure),
            _ => String::new(),
        };
        let ns = |value: f64| units::duration(value.round() as i64, style);
        let spread = real(s, "p5_ns").zip(real(s, "p95_ns")).map(|(low, high)| format!("{} to {}", ns(low), ns(high)));
        let clock = beside(all, s, "clock_costs").and_then(|s| s.summary.p50);
        let cells = vec![
            plain(&s.subject, style),
            conditions(run, &s.conditions, style),
            units::count(summary.count),
            summary.p50.map_or_else(absent, |ns| units::duration(ns, style)),
            interval,
            spread.unwrap_or_else(absent),
            real(s, "drift_ns_per_s").map_or_else(absent, |drift| format!("{drift:+.0} ns")),
            clock.map_or_else(absent, |ns| units::duration(ns, style)),
            real(s, "clock_read_ns").map_or_else(absent, |ns| units::duration_fine(2.0 * ns, style)),
        ];
        Row::Cells(cells, Paint::Plain)
    };
    let table = Table { columns: FOUND.to_vec(), rows: adds.iter().map(row).collect() };
    let legend = vec![
        Note::always(
            "Fitted robustly to elapsed = (TS+TE) + X (TN + T), for X from 1 to 16 sleeps of T from 10 to 200 us.",
        ),
        Note::on(
            "clock (TS+TE)",
            "Clock: what is left of a fit whose sleeps vary by far more; read twice: the same, measured by itself.",
        ),
    ];
    Section::new("what a sleep adds").with(Block::Table(table)).with(Block::Legend(legend))
}

const PROVED: [Column; 9] = [
    Column::left("method", Column::ALWAYS),
    Column::left("conditions", Column::ALWAYS),
    Column::left("how", Column::ALWAYS),
    Column::right("mean error", Column::ALWAYS),
    Column::right("min", 50),
    Column::right("p50", 90),
    Column::right("p90", 60),
    Column::right("p99", 80),
    Column::right("CPU", 70),
];

/// What stands for a figure in the table.
const HOW: [(&str, &str); 3] =
    [("plain", "as asked"), ("compensated", "shortened by TN"), ("compensated_sleeper", "the library's compensated")];

fn proved(run: &Run, asked: i64, proofs: &[&Series], adds: &[&Series], style: &Style) -> Section {
    let absent = || style.absent().to_owned();
    let figure = |ns: Option<i64>| ns.map_or_else(absent, |ns| units::duration(ns, style));
    let mut table = Table { columns: PROVED.to_vec(), rows: Vec::new() };
    let mut too_short = Vec::new();
    for add in adds {
        for (name, how) in HOW {
            let Some(s) = beside(proofs, add, name) else {
                if name == "compensated" {
                    too_short.push(plain(&add.subject, style));
                }
                continue;
            };
            let summary = &s.summary;
            let cells = vec![
                plain(&s.subject, style),
                conditions(run, &s.conditions, style),
                how.to_owned(),
                summary.mean.map_or_else(absent, |mean| units::duration(mean.round() as i64, style)),
                figure(summary.min),
                figure(summary.p50),
                figure(summary.p90),
                figure(summary.p99),
                s.cpu_share.map_or_else(absent, units::share),
            ];
            table.rows.push(Row::Cells(cells, Paint::Plain));
        }
    }
    let lead = unbroken(&units::exact(asked, style));
    let mut section = Section::new(format!("proof: waits of {lead}")).with(Block::Table(table)).with(Block::Legend(
        vec![Note::always(
            "Error: how long a wait took, less what was asked; negative: it was early. The library's is never early.",
        )],
    ));
    if !too_short.is_empty() {
        too_short.dedup();
        let text = format!(
            "A wait of {lead} is shorter than what {} adds, so it cannot be shortened into it. The library's hybrid sleeper spins such waits.",
            words::listed(&too_short, 3)
        );
        section.blocks.push(Block::Paragraph(text));
    }
    section.blocks.extend(conclusion(adds, style).map(Block::Paragraph));
    section
}

/// What the default conditions add, and the least that others do.
fn conclusion(adds: &[&Series], style: &Style) -> Option<String> {
    let tn = |s: &&&Series| s.summary.p50;
    let first = adds.first()?;
    let least = adds.iter().filter(|s| tn(s).is_some()).min_by_key(tn)?;
    let name = |s: &Series| format!("{} under {}", plain(&s.subject, style), plain(&s.conditions, style));
    let say = |s: &Series| s.summary.p50.map(|ns| unbroken(&units::duration(ns, style)));
    let mut text = format!("A {} adds {}.", name(first), say(first)?);
    if least.summary.p50 < first.summary.p50 {
        text.push_str(&format!(" Least: {}, {}.", name(least), say(least)?));
    }
    Some(text)
}

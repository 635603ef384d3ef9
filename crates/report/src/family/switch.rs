//! The switch: what writing a governor takes, and when the new speed is there.

use punctual_record::{Quantity, Run, Series};

use crate::plain::plain;
use crate::story::{Block, Note, Section};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;
use crate::words::int;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "switch", sections, advice: |_, _, _| Advice::default() };

const COLUMNS: [Column; 9] = [
    Column::left("switch", Column::ALWAYS),
    Column::left("figure", Column::ALWAYS),
    Column::right("n", 40),
    Column::right("min", 30),
    Column::right("p50", Column::ALWAYS),
    Column::joined("[95 %]", 50),
    Column::right("p90", 60),
    Column::right("max", Column::ALWAYS),
    Column::right("loop before, after", 70),
];

fn sections(_run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let Some(first) = series.first() else { return Vec::new() };
    let on = |name| int(first, name).map_or(String::new(), |cpu| cpu.to_string());
    let heading = format!(
        "switch: governor of CPU {} written from CPU {}, under {}",
        on("cpu"),
        on("switched_from_cpu"),
        plain(&first.conditions, style)
    );
    let rows = series.iter().map(|series| Row::Cells(cells(series, style), Paint::Plain)).collect();
    let table = Block::Table(Table { columns: COLUMNS.to_vec(), rows });
    let legend = Block::Legend(vec![
        Note::always("write: the write to scaling_governor."),
        Note::always(
            "new speed: from the beginning of the write to the first loop that takes as long as loops do afterwards, to 5 %.",
        ),
    ]);
    vec![Section::new(heading).with(table).with(legend)]
}

fn cells(series: &Series, style: &Style) -> Vec<String> {
    let summary = &series.summary;
    let figure = |ns: Option<i64>| ns.map_or_else(|| style.absent().to_owned(), |ns| units::duration(ns, style));
    let what = match series.quantity {
        Quantity::CallCost => "write",
        Quantity::Settling => "new speed",
        _ => "",
    };
    let interval = match (summary.p50, summary.ci95.p50) {
        (Some(p50), Some(interval)) => units::interval_like(interval, p50),
        _ => String::new(),
    };
    vec![
        plain(&series.subject, style),
        what.to_owned(),
        units::count(summary.count),
        figure(summary.min),
        figure(summary.p50),
        interval,
        figure(summary.p90),
        figure(summary.max),
        format!("{}, {}", figure(int(series, "before_ns")), figure(int(series, "after_ns"))),
    ]
}

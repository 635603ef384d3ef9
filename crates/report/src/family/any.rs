//! An experiment without words of its own: its figures in a plain table, nothing left out and nothing concluded.

use punctual_record::{Run, Series};

use crate::background::{conditions, parameter};
use crate::plain::plain;
use crate::story::{Block, Section};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;

use super::{Advice, Family};

pub(super) const FAMILY: Family = Family { experiment: "", sections, advice: |_, _, _| Advice::default() };

const COLUMNS: [Column; 9] = [
    Column::left("subject", Column::ALWAYS),
    Column::left("parameters", 90),
    Column::left("conditions", 80),
    Column::left("quantity", 70),
    Column::right("n", 10),
    Column::right("min", 20),
    Column::right("p50", Column::ALWAYS),
    Column::right("p99", Column::ALWAYS),
    Column::right("max", 60),
];

fn sections(run: &Run, series: &[&Series], style: &Style) -> Vec<Section> {
    let Some(first) = series.first() else { return Vec::new() };
    let rows = series.iter().map(|series| Row::Cells(cells(run, series, style), Paint::Plain)).collect();
    let table = Table { columns: COLUMNS.to_vec(), rows };
    vec![Section::new(plain(&first.experiment, style)).with(Block::Table(table))]
}

fn cells(run: &Run, series: &Series, style: &Style) -> Vec<String> {
    let figure = |ns: Option<i64>| ns.map_or(style.absent().to_owned(), |ns| units::duration(ns, style));
    let parameters: Vec<String> = series.parameters.iter().map(|(name, value)| parameter(name, value, style)).collect();
    let summary = &series.summary;
    vec![
        plain(&series.subject, style),
        parameters.join(", "),
        conditions(run, &series.conditions, style),
        crate::csv::quantity(series.quantity).replace('_', " "),
        units::count(summary.count),
        figure(summary.min),
        figure(summary.p50),
        figure(summary.p99),
        figure(summary.max),
    ]
}

//! Figures of a comparison as a table.

use crate::document::{Column, Columns, Paint, Row, Table};
use crate::format::units;

use super::words::{self, MOST};
use super::{Comparison, FigureComparison, SeriesComparison, Verdict};

/// A figure of a series under its name.
struct Line<'a> {
    name: String,
    series: &'a SeriesComparison,
    figure: &'a FigureComparison,
}

fn columns<'f>() -> Columns<'f, Line<'f>> {
    let difference = |line: &Line<'_>| line.figure.difference;
    Columns::new()
        .left("series", Column::ALWAYS, |line: &Line<'_>| line.name.clone())
        .left("figure", Column::ALWAYS, |line| line.figure.figure.name().to_owned())
        .fine("old", Column::ALWAYS, move |line| Some(difference(line)?.old_ns))
        .fine("new", Column::ALWAYS, move |line| Some(difference(line)?.new_ns))
        .known("change", Column::ALWAYS, difference, |its| words::change(&its))
        .column(Column::joined("[95 %]", 90), move |line| {
            difference(line).map_or(String::new(), |its| words::interval(&its))
        })
        .known("detectable", 10, difference, |its| words::detectable(&its))
        .left("verdict", 20, |line| line.figure.verdict.word(line.figure.figure, line.series.quantity).to_owned())
}

pub(super) fn table(comparison: &Comparison, rows: &[words::Row<'_>]) -> Table {
    let columns = columns();
    let mut lines = Vec::new();
    let mut before: Option<&SeriesComparison> = None;
    for (series, figure) in rows.iter().take(MOST) {
        let again = before.is_some_and(|before| std::ptr::eq(before, *series));
        let name = if again { String::new() } else { comparison.names.under_heading(series) };
        let paint = if figure.verdict == Verdict::Worse { Paint::Warning } else { Paint::Plain };
        lines.push(columns.row(&Line { name, series, figure }, paint));
        before = Some(series);
    }
    if rows.len() > MOST {
        let more = units::count((rows.len() - MOST) as u64);
        lines.push(Row::Label(format!("and {more} more; --format json has them all")));
    }
    columns.table(lines)
}

/// All figures of these series, each in full.
pub(super) fn full_table(series: &[&SeriesComparison], names: &[String]) -> Table {
    let mut lines = Vec::new();
    for (series, name) in series.iter().zip(names) {
        let compared = series.figures.iter().filter(|figure| figure.difference.is_some());
        lines.extend(compared.map(|figure| Line { name: name.clone(), series, figure }));
    }
    columns().of(&lines)
}

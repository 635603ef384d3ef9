//! Methods against conditions: one row per method, one column per set of conditions, for runs that compare conditions.

use punctual_record::{Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Section};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Row, Table};
use crate::units;

use super::{Groups, rounds_to};

/// The table, its rows by duration; nothing where fewer than two methods were measured under more than one set of conditions.
pub(super) fn section(run: &Run, groups: &Groups<'_>, style: &Style) -> Option<Section> {
    let sets = distinct(groups.iter().flat_map(|(_, series)| series).map(|its| its.conditions.as_str()));
    let mut rows = Vec::new();
    for (asked, series) in groups {
        let Some(asked) = *asked else { continue };
        let more = rows_of(asked, series, &sets, style);
        if more.len() > 1 {
            rows.push(Row::Label(format!("{}:", units::exact(asked, style))));
            rows.extend(more);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![Column::left("method", Column::ALWAYS)];
    for (place, set) in sets.iter().enumerate() {
        // The first set is what the others are compared with: it stays longest.
        let keep = u8::try_from(sets.len() - place).unwrap_or(Column::ALWAYS - 1);
        columns.push(Column::named(conditions(run, set, style), Align::Right, keep));
    }
    Some(Section::new("side by side: p50 / p99").with(Block::Table(Table { columns, rows })))
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name)
        }
    });
    seen
}

/// A row for each method that was measured under more than one set, the least late first.
fn rows_of(asked: i64, series: &[&Series], sets: &[&str], style: &Style) -> Vec<Row> {
    let exact: Vec<&Series> = series.iter().copied().filter(|its| rounds_to(Some(asked), its).is_none()).collect();
    let find = |method: &str, set: &str| exact.iter().find(|its| its.subject == method && its.conditions == set);
    let mut methods = distinct(exact.iter().map(|its| its.subject.as_str()));
    methods.retain(|method| sets.iter().filter(|set| find(method, set).is_some()).count() > 1);
    let least = |method: &str| sets.iter().filter_map(|set| find(method, set)?.summary.p50).min().unwrap_or(i64::MAX);
    methods.sort_by_key(|method| least(method));
    let row = |method: &&str| {
        let cells = sets.iter().map(|set| find(method, set).map_or(String::new(), |its| both(its, style)));
        Row::Cells([plain(method, style)].into_iter().chain(cells).collect(), Paint::Plain)
    };
    methods.iter().map(row).collect()
}

/// `24.2 / 64.6 µs`, or with both units where they differ.
fn both(series: &Series, style: &Style) -> String {
    let figure = |ns: Option<i64>| ns.map_or(style.absent().to_owned(), |ns| units::duration(ns, style));
    let (p50, p99) = (figure(series.summary.p50), figure(series.summary.p99));
    match (p50.split_once(' '), p99.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} / {p99}"),
        _ => format!("{p50} / {p99}"),
    }
}

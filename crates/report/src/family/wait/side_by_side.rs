//! Methods against conditions: one row per method, one column per set of conditions, for runs that compare conditions.

use std::collections::BTreeMap;

use punctual_record::{Run, Series};

use crate::document::{Align, Block, Column, Paint, Row, Section, Table};
use crate::format::{distinct, sanitize, units};
use crate::naming::conditions;

use super::asked::{Groups, rounds_to};

/// The table, its rows by duration. Nothing where fewer than two methods were measured under more than one set of conditions.
pub(super) fn section(run: &Run, groups: &Groups<'_>) -> Option<Section> {
    let sets = distinct(groups.values().flatten().map(|its| its.conditions.as_str()));
    if sets.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    for (asked, series) in groups {
        let more = rows_of(series, &sets);
        if more.len() > 1 {
            rows.push(Row::Label(format!("{}:", units::exact(*asked))));
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
        columns.push(Column::named(conditions(run, set), Align::Right, keep));
    }
    Some(Section::new("side by side: p50 / p99").with(Block::Table(Table { columns, rows })))
}

/// A row for each method that was measured under more than one set, the least late first.
fn rows_of(series: &[&Series], sets: &[&str]) -> Vec<Row> {
    let exact: Vec<&Series> = series.iter().copied().filter(|its| rounds_to(its).is_none()).collect();
    let mut places: BTreeMap<(&str, &str), &Series> = BTreeMap::new();
    for its in exact.iter().rev() {
        places.insert((&its.subject, &its.conditions), its);
    }
    let find = |method: &str, set: &str| places.get(&(method, set)).copied();
    let mut methods = distinct(exact.iter().map(|its| its.subject.as_str()));
    methods.retain(|method| sets.iter().filter(|set| find(method, set).is_some()).count() > 1);
    let least = |method: &str| sets.iter().filter_map(|set| find(method, set)?.summary.p50).min().unwrap_or(i64::MAX);
    methods.sort_by_key(|method| least(method));
    let row = |method: &&str| {
        let cells = sets.iter().map(|set| find(method, set).map_or(String::new(), both));
        Row::Cells([sanitize(method)].into_iter().chain(cells).collect(), Paint::Plain)
    };
    methods.iter().map(row).collect()
}

/// `24.2 / 64.6 µs`, or with both units where they differ.
fn both(series: &Series) -> String {
    let (p50, p99) = (units::known(series.summary.p50), units::known(series.summary.p99));
    match (p50.split_once(' '), p99.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} / {p99}"),
        _ => format!("{p50} / {p99}"),
    }
}

//! Methods against conditions: one row per method, one column per set of conditions, for runs that compare conditions.

use punctual_record::{Run, Series};

use crate::background::conditions;
use crate::plain::plain;
use crate::story::{Block, Section};
use crate::style::{Paint, Style};
use crate::table::{Align, Column, Row, Table};
use crate::units;

use super::rounds_to;

/// The table for one duration; nothing where fewer than two methods were measured under more than one set of conditions.
pub(super) fn section(run: &Run, asked: i64, series: &[&Series], style: &Style) -> Option<Section> {
    let mut sets: Vec<&str> = Vec::new();
    let mut methods: Vec<&str> = Vec::new();
    for its in series.iter().filter(|its| rounds_to(Some(asked), its).is_none()) {
        if !sets.contains(&its.conditions.as_str()) {
            sets.push(&its.conditions);
        }
        if !methods.contains(&its.subject.as_str()) {
            methods.push(&its.subject);
        }
    }
    let find = |method: &str, set: &str| series.iter().find(|its| its.subject == method && its.conditions == set);
    methods.retain(|method| sets.iter().filter(|set| find(method, set).is_some()).count() > 1);
    if methods.len() < 2 {
        return None;
    }
    let least = |method: &str| sets.iter().filter_map(|set| find(method, set)?.summary.p50).min().unwrap_or(i64::MAX);
    methods.sort_by_key(|method| least(method));
    let mut columns = vec![Column::left("method", Column::ALWAYS)];
    for (place, set) in sets.iter().enumerate() {
        // The first set is what the others are compared with: it stays longest.
        let keep = u8::try_from(sets.len() - place).unwrap_or(Column::ALWAYS - 1);
        columns.push(Column::named(conditions(run, set, style), Align::Right, keep));
    }
    let row = |method: &&str| {
        let cells = sets.iter().map(|set| find(method, set).map_or(String::new(), |its| both(its, style)));
        Row::Cells([plain(method, style)].into_iter().chain(cells).collect(), Paint::Plain)
    };
    let table = Table { columns, rows: methods.iter().map(row).collect() };
    let heading = format!("wait {}, side by side: p50 / p99", units::exact(asked, style));
    Some(Section::new(heading).with(Block::Table(table)))
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

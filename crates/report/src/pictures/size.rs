//! Latency over the size of a message, a line for each way to pass it.

use std::collections::BTreeMap;

use punctual_record::{Experiment, Series};

use crate::document::{Album, Axis, Form, Line, Picture, Point, Table};
use crate::format::units;

use super::group::{AT_FIRST, MOST_LINES, is_apart, names, quantity_name, shared};
use super::outlier;

/// A message's size in bytes.
fn size(series: &Series) -> Option<u64> {
    match &series.experiment {
        Experiment::Ipc(typed) => Some(typed.parameters.size),
        Experiment::Pace(typed) => typed.parameters.size,
        Experiment::Sweep(typed) => typed.parameters.size,
        _ => None,
    }
}

pub(super) fn album(series: &[&Series]) -> Album {
    let mut by_rest: BTreeMap<String, Vec<&Series>> = BTreeMap::new();
    for &series in series.iter().filter(|series| size(series).is_some_and(|size| size > 0)) {
        let apart = |name: &str| name != "size" && is_apart(name);
        let key = [quantity_name(series.quantity), &shared(series, apart)].join(", ");
        by_rest.entry(key.trim_end_matches(", ").to_owned()).or_default().push(series);
    }
    super::group::album("Latency by size", by_rest, |label, series| picture(label, &series))
}

fn picture(label: &str, series: &[&Series]) -> Option<Picture> {
    let mut by_name: Vec<(String, Vec<&Series>)> = Vec::new();
    for (name, series) in names(series).into_iter().zip(series) {
        match by_name.iter().position(|(known, _)| *known == name) {
            Some(at) => by_name[at].1.push(series),
            None if by_name.len() < MOST_LINES => by_name.push((name, vec![series])),
            None => {}
        }
    }
    // A line of one size shows no course.
    let differ = |series: &[&Series]| series.windows(2).any(|pair| size(pair[0]) != size(pair[1]));
    by_name.retain(|(_, series)| differ(series));
    by_name.sort_by_key(|(_, series)| series.iter().filter_map(|series| series.summary.p50).min());
    let mut lines: Vec<Line> =
        by_name.iter().enumerate().map(|(i, (name, series))| line(name, series, i < AT_FIRST)).collect();
    let sizes: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect();
    Some(Picture {
        title: format!("Latency by size, {label}"),
        about: "The median for each size of message; the value tells p99 as well. Lower is better.".into(),
        x: Axis::log("size of a message, in bytes", sizes, 2.0, &bytes)?,
        y: outlier::vertical(&format!("{label}, median"), &mut lines, None)?,
        table: table(&by_name),
        lines,
        letters: None,
    })
}

/// `64`, `16 k`, `1 M`, as sizes are typed.
fn bytes(size: f64) -> String {
    match size.round() as u64 {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} M", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} k", n >> 10),
        n => n.to_string(),
    }
}

fn line(name: &str, series: &[&Series], shown: bool) -> Line {
    let point = |series: &&Series| {
        let (size, p50) = (size(series)?, series.summary.p50?);
        let p99 = units::known(series.summary.p99);
        let says = format!("{} bytes: p50 {}, p99 {p99}", size, units::duration(p50));
        Some(Point { x: size as f64, y: p50 as f64, says, mark: true, ..Point::default() })
    };
    let mut points: Vec<Point> = series.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Line { label: name.into(), shown, form: Form::Curve, points }
}

fn table(by_name: &[(String, Vec<&Series>)]) -> Table {
    let headings = ["series", "bytes", "n", "p50", "p99", "max"];
    let row = |name: &str, series: &Series| {
        let s = &series.summary;
        let size = size(series).unwrap_or(0);
        vec![
            name.to_owned(),
            size.to_string(),
            units::count(s.count),
            units::known(s.p50),
            units::known(s.p99),
            units::known(s.max),
        ]
    };
    Table::plain(&headings, by_name.iter().flat_map(|(name, series)| series.iter().map(|one| row(name, one))).collect())
}

//! Messages: latency over their size, a line for each way to pass them, and a heat map of CPU pairs. The map has a square for each pair,
//! darker if slower, with the figure if there is room.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{Experiment, Series};

use crate::document::{Album, Axis, Form, Line, Picture, Point, Table, ends};
use crate::format::{gathered, units};
use crate::pictures::group::{AT_FIRST, MOST_LINES, album, is_apart, names, quantity_name, shared};

/// A message's size in bytes.
fn size(series: &Series) -> Option<u64> {
    match &series.experiment {
        Experiment::Ipc(typed) => Some(typed.parameters.size),
        Experiment::Pace(typed) => typed.parameters.size,
        Experiment::Sweep(typed) => typed.parameters.size,
        _ => None,
    }
}

pub(super) fn sizes(series: &[&Series]) -> Album {
    let mut by_rest: BTreeMap<String, Vec<&Series>> = BTreeMap::new();
    for &series in series.iter().filter(|series| size(series).is_some_and(|size| size > 0)) {
        let apart = |name: &str| name != "size" && is_apart(name);
        let key = [quantity_name(series.quantity), &shared(series, apart)].join(", ");
        by_rest.entry(key.trim_end_matches(", ").to_owned()).or_default().push(series);
    }
    album("Latency by size", by_rest, |label, series| picture(label, &series))
}

fn picture(label: &str, series: &[&Series]) -> Option<Picture> {
    let mut by_name: Vec<(String, Vec<&Series>)> = gathered(names(series).into_iter().zip(series.iter().copied()));
    by_name.truncate(MOST_LINES);
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
        y: Axis::vertical(&format!("{label}, median"), &mut lines, None)?,
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
        let [p50, p99, max] = [s.p50, s.p99, s.max].map(units::known);
        vec![name.to_owned(), size(series).unwrap_or(0).to_string(), units::count(s.count), p50, p99, max]
    };
    Table::plain(&headings, by_name.iter().flat_map(|(name, series)| series.iter().map(|one| row(name, one))).collect())
}

/// One pair of CPUs.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The sender's CPU and the receiver's.
    pub(crate) cpus: [u32; 2],
    /// Samples.
    pub(crate) count: u64,
    /// Median, 99th percentile and maximum.
    pub(crate) figures: [Option<i64>; 3],
}

/// The map of these pairs, whose figures are called `what`.
pub(crate) fn map(title: String, what: &str, pairs: &[Pair]) -> Album {
    let cpus: BTreeSet<u32> = pairs.iter().flat_map(|pair| pair.cpus).collect();
    let cpus: Vec<u32> = cpus.into_iter().collect();
    let log = |ns: i64| (ns.max(1) as f64).ln();
    let (low, high) = ends(pairs.iter().filter_map(|pair| pair.figures[0]).map(log)).unwrap_or((0.0, 1.0));
    let place = |cpu: u32| cpus.binary_search(&cpu).unwrap_or(0) as f64;
    let square = |pair: &Pair| {
        let ([from, to], [p50, p99, _]) = (pair.cpus, pair.figures);
        let figure = units::duration(p50?);
        Some(Point {
            x: place(to),
            y: place(from),
            says: format!("CPU {from} to CPU {to}: p50 {figure}, p99 {}", units::known(p99)),
            tag: Some(figure),
            shade: if high > low { (log(p50?) - low) / (high - low) } else { 0.0 },
            ..Point::default()
        })
    };
    let points = pairs.iter().filter_map(square).collect();
    let picture = Picture {
        about: format!("The median {what} for each pair of CPUs; the stronger the colour, the slower."),
        x: axis("to CPU", &cpus),
        y: axis("from CPU", &cpus),
        lines: vec![Line { label: title.clone(), shown: true, form: Form::Cells, points }],
        title,
        table: map_table(pairs),
        letters: Some("p50; the sender's CPU down, the receiver's across."),
    };
    Album { kind: "From CPU to CPU", pictures: vec![(String::new(), picture)], ..Album::default() }
}

fn axis(title: &str, cpus: &[u32]) -> Axis {
    let ticks = cpus.iter().enumerate().map(|(i, cpu)| (i as f64, cpu.to_string())).collect();
    Axis::ticked(title, -0.5, cpus.len() as f64 - 0.5, ticks)
}

fn map_table(pairs: &[Pair]) -> Table {
    let figure = units::known;
    let row = |pair: &Pair| {
        let ([from, to], [p50, p99, max]) = (pair.cpus, pair.figures);
        vec![from.to_string(), to.to_string(), units::count(pair.count), figure(p50), figure(p99), figure(max)]
    };
    Table::plain(&["from CPU", "to CPU", "n", "p50", "p99", "max"], pairs.iter().map(row).collect())
}

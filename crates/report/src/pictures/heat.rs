//! Heat map of CPU pairs: a square for each pair, darker if slower, with the figure if there is room.

use crate::document::{Album, Axis, Form, Line, Picture, Point, Table, ends};
use crate::format::units;

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
pub(crate) fn album(title: String, what: &str, pairs: &[Pair]) -> Album {
    let mut cpus: Vec<u32> = pairs.iter().flat_map(|pair| pair.cpus).collect();
    cpus.sort_unstable();
    cpus.dedup();
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
        table: table(pairs),
        letters: Some("p50; the sender's CPU down, the receiver's across."),
    };
    Album { kind: "From CPU to CPU", pictures: vec![(String::new(), picture)], ..Album::default() }
}

fn axis(title: &str, cpus: &[u32]) -> Axis {
    let ticks = cpus.iter().enumerate().map(|(i, cpu)| (i as f64, cpu.to_string())).collect();
    Axis::ticked(title, -0.5, cpus.len() as f64 - 0.5, ticks)
}

fn table(pairs: &[Pair]) -> Table {
    let figure = units::known;
    let row = |pair: &Pair| {
        let ([from, to], [p50, p99, max]) = (pair.cpus, pair.figures);
        vec![from.to_string(), to.to_string(), units::count(pair.count), figure(p50), figure(p99), figure(max)]
    };
    Table::plain(&["from CPU", "to CPU", "n", "p50", "p99", "max"], pairs.iter().map(row).collect())
}

//! From which CPU to which: a square for each pair, the stronger its colour the slower, with the figure in it where there is room.

use std::collections::BTreeMap;

use punctual_record::{Run, Series};

use crate::html::plot::{Axis, Form, Line, Picture, Point};
use crate::plain::plain;
use crate::style::Style;
use crate::units;

use super::group::{int, is_apart, quantity_name, shared};
use super::size::BETWEEN;
use super::{Album, MOST};

/// Fewer pairs are no map: two CPUs have four.
const FEWEST: usize = 3;
/// Up to so many CPUs a figure fits into a square.
const FITS: usize = 12;
/// CPUs are numbered beside the axes up to this many; of more, only some.
const NUMBERED: usize = 32;

/// A map for each subject, conditions and parameters that has pairs of CPUs.
pub(super) fn album(run: &Run, series: &[&Series]) -> Album {
    let _ = run;
    let mut maps: BTreeMap<String, Vec<&Series>> = BTreeMap::new();
    for &series in series.iter().filter(|series| pair(series).is_some() && series.summary.p50.is_some()) {
        let style = Style::default();
        let apart = |name: &str| is_apart(name) && name != "place" || name == "receive";
        let words = [plain(&series.subject, &style), plain(&series.conditions, &style), shared(series, apart)];
        let label: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
        maps.entry(label.join(", ")).or_default().push(series);
    }
    let mut album = Album { kind: "From CPU to CPU", ..Album::default() };
    for (label, series) in maps.into_iter().filter(|(_, series)| series.len() >= FEWEST) {
        if album.pictures.len() == MOST {
            album.left_out += 1;
        } else {
            let picture = picture(&label, &series);
            album.pictures.push((label, picture));
        }
    }
    album
}

fn pair(series: &Series) -> Option<(i64, i64)> {
    Some((int(series, &BETWEEN[..1])?, int(series, &BETWEEN[1..])?))
}

fn picture(label: &str, series: &[&Series]) -> Picture {
    let mut cpus: Vec<i64> =
        series.iter().filter_map(|series| pair(series)).flat_map(|(from, to)| [from, to]).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let medians = || series.iter().filter_map(|series| series.summary.p50).map(|ns| (ns.max(1) as f64).ln());
    let (low, high) = crate::html::plot::ends(medians()).unwrap_or((0.0, 1.0));
    let shade = |ns: i64| if high > low { ((ns.max(1) as f64).ln() - low) / (high - low) } else { 0.5 };
    let place = |cpu: i64| cpus.iter().position(|its| *its == cpu).unwrap_or(0) as f64;
    let style = Style::default();
    let cell = |series: &&Series| {
        let ((from, to), p50) = (pair(series)?, series.summary.p50?);
        let p99 = series.summary.p99.map_or(style.absent().to_owned(), |ns| units::duration(ns, &style));
        let figure = units::duration(p50, &style);
        Some(Point {
            x: place(to),
            y: place(from),
            says: format!("CPU {from} to CPU {to}: p50 {figure}, p99 {p99}"),
            tag: (cpus.len() <= FITS).then_some(figure),
            shade: shade(p50),
            ..Point::default()
        })
    };
    let points = series.iter().filter_map(cell).collect();
    let what = series.first().map_or("", |series| quantity_name(series.quantity));
    Picture {
        title: format!("From CPU to CPU, {label}"),
        about: format!("The median {what} for each pair of CPUs; the stronger the colour, the slower."),
        x: axis("to CPU", &cpus),
        y: axis("from CPU", &cpus),
        lines: vec![Line { label: label.into(), shown: true, form: Form::Cells, points }],
        table: table(series),
    }
}

fn axis(title: &str, cpus: &[i64]) -> Axis {
    let every = cpus.len().div_ceil(NUMBERED).max(1);
    let ticks = cpus.iter().enumerate().step_by(every).map(|(i, cpu)| (i as f64, cpu.to_string())).collect();
    Axis::ticked(title, -0.5, cpus.len() as f64 - 0.5, ticks)
}

fn table(series: &[&Series]) -> (Vec<String>, Vec<Vec<String>>) {
    let style = Style::default();
    let headings = ["from CPU", "to CPU", "n", "p50", "p99", "max"].map(String::from).to_vec();
    let figure = |ns: Option<i64>| ns.map_or(style.absent().to_owned(), |ns| units::duration(ns, &style));
    let row = |series: &&Series| {
        let (from, to) = pair(series)?;
        let s = &series.summary;
        Some(vec![from.to_string(), to.to_string(), units::count(s.count), figure(s.p50), figure(s.p99), figure(s.max)])
    };
    (headings, series.iter().filter_map(row).collect())
}

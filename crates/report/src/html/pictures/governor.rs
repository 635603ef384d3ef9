//! How a rested CPU gets up to speed: the duration of one loop after another, a line for each governor.

use punctual_record::{Quantity, Run, Series};

use crate::html::plot::{Axis, Form, Line, Picture, Point};
use crate::style::Style;
use crate::units;

use super::group::{int, names};
use super::{AT_FIRST, Album, MOST_LINES};

/// Most loops that are drawn; of more, every second, third... is.
const MOST_LOOPS: usize = 600;

pub(super) fn album(run: &Run, series: &[&Series]) -> Album {
    let looped: Vec<&Series> = series
        .iter()
        .copied()
        .filter(|series| series.quantity == Quantity::Loop && series.samples.as_ref().is_some_and(|all| all.len() > 1))
        .take(MOST_LINES)
        .collect();
    let names = names(run, &looped);
    let ramps: Vec<(String, &Series, Vec<i64>)> =
        names.into_iter().zip(looped).map(|(name, series)| (name, series, ramp(series))).collect();
    let picture = picture(&ramps);
    Album {
        kind: "Getting up to speed",
        pictures: picture.map(|its| (String::new(), its)).into_iter().collect(),
        left_out: 0,
    }
}

/// For each loop of a round its duration in the middle one of the rounds, which stand one after another in `samples`.
fn ramp(series: &Series) -> Vec<i64> {
    let samples = series.samples.as_deref().unwrap_or_default();
    let loops =
        int(series, &["loops"]).and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=samples.len()).contains(n));
    let loops = loops.unwrap_or(samples.len());
    let middle = |i: usize| {
        let mut of_rounds: Vec<i64> = samples.iter().skip(i).step_by(loops).copied().collect();
        of_rounds.sort_unstable();
        of_rounds.get(of_rounds.len() / 2).copied()
    };
    (0..loops).filter_map(middle).collect()
}

fn picture(ramps: &[(String, &Series, Vec<i64>)]) -> Option<Picture> {
    let lines: Vec<Line> =
        ramps.iter().enumerate().map(|(i, (name, _, ramp))| line(name, ramp, i < AT_FIRST)).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let longest = ramps.iter().map(|(_, _, ramp)| ramp.len()).max().filter(|n| *n > 0)?;
    Some(Picture {
        title: "Getting up to speed".into(),
        about: "The same work again and again, from a rested CPU on: how long each loop took (the median of the rounds). Lower is faster."
            .into(),
        x: Axis::linear("loop", 1.0, longest as f64, 10, &|n| format!("{n:.0}")),
        y: Axis::log_ns("duration of a loop", points().map(|point| point.y))?,
        table: table(ramps),
        lines,
    })
}

fn line(name: &str, ramp: &[i64], shown: bool) -> Line {
    let style = Style::default();
    let every = ramp.len().div_ceil(MOST_LOOPS).max(1);
    let marked = (ramp.len() / 10).max(1);
    let point = |(i, ns): (usize, &i64)| Point {
        x: (i + 1) as f64,
        y: *ns as f64,
        says: format!("loop {}: {}", i + 1, units::duration(*ns, &style)),
        mark: i % marked == 0,
        ..Point::default()
    };
    let points = ramp.iter().enumerate().step_by(every).map(point).collect();
    Line { label: name.into(), shown, form: Form::Curve, points }
}

fn table(ramps: &[(String, &Series, Vec<i64>)]) -> (Vec<String>, Vec<Vec<String>>) {
    let style = Style::default();
    let headings = ["series", "loops", "first", "final", "p50", "to full speed"].map(String::from).to_vec();
    let figure = |ns: Option<i64>| ns.map_or(style.absent().to_owned(), |ns| units::duration(ns, &style));
    let row = |(name, series, ramp): &(String, &Series, Vec<i64>)| {
        vec![
            name.clone(),
            units::count(ramp.len() as u64),
            figure(ramp.first().copied()),
            figure(ramp.last().copied()),
            figure(series.summary.p50),
            figure(int(series, &["to_full_speed_ns"])),
        ]
    };
    (headings, ramps.iter().map(row).collect())
}

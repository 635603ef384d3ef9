//! Speed ramp of a rested CPU: the duration of each loop, a line per governor.

use crate::document::{Album, Axis, Form, Line, Picture, Point, Table};
use crate::format::units;

use super::group::{AT_FIRST, MOST_LINES};
use super::outlier;

/// Most loops that are drawn; of more, every second, third... is.
const MOST_LOOPS: usize = 600;

/// The loops under one governor.
#[derive(Debug)]
pub(crate) struct Loops {
    /// The governor.
    pub(crate) name: String,
    /// For each loop of a round its duration in the middle one of the rounds.
    pub(crate) typical: Vec<i64>,
    /// From rest to full speed.
    pub(crate) to_full_speed_ns: Option<i64>,
    /// Median of all loops.
    pub(crate) p50: Option<i64>,
}

/// The picture; None of single loops.
pub(crate) fn album(ramps: Vec<Loops>) -> Option<Album> {
    let ramps: Vec<Loops> = ramps.into_iter().filter(|ramp| ramp.typical.len() > 1).take(MOST_LINES).collect();
    let picture = picture(&ramps)?;
    Some(Album { kind: "Getting up to speed", pictures: vec![(String::new(), picture)], ..Album::default() })
}

fn picture(ramps: &[Loops]) -> Option<Picture> {
    let mut lines: Vec<Line> =
        ramps.iter().enumerate().map(|(i, ramp)| line(&ramp.name, &ramp.typical, i < AT_FIRST)).collect();
    let longest = ramps.iter().map(|ramp| ramp.typical.len()).max()?;
    Some(Picture {
        title: "Getting up to speed".into(),
        about: "The same work again and again, from a rested CPU on: how long each loop took (the median of the rounds). Lower is faster."
            .into(),
        x: Axis::linear("loop", 1.0, longest as f64, 10, &|n| format!("{n:.0}")),
        y: outlier::vertical("duration of a loop", &mut lines, None)?,
        table: table(ramps),
        lines,
        letters: Some("loop number"),
    })
}

fn line(name: &str, ramp: &[i64], shown: bool) -> Line {
    let every = ramp.len().div_ceil(MOST_LOOPS).max(1);
    let marked = (ramp.len() / 10).max(1);
    let point = |(i, ns): (usize, &i64)| Point {
        x: (i + 1) as f64,
        y: *ns as f64,
        says: format!("loop {}: {}", i + 1, units::duration(*ns)),
        mark: i % marked == 0,
        ..Point::default()
    };
    let points = ramp.iter().enumerate().step_by(every).map(point).collect();
    Line { label: name.into(), shown, form: Form::Curve, points }
}

fn table(ramps: &[Loops]) -> Table {
    let headings = ["series", "loops", "first", "final", "p50", "to full speed"];
    let row = |ramp: &Loops| {
        vec![
            ramp.name.clone(),
            units::count(ramp.typical.len() as u64),
            units::known(ramp.typical.first().copied()),
            units::known(ramp.typical.last().copied()),
            units::known(ramp.p50),
            units::known(ramp.to_full_speed_ns),
        ]
    };
    Table::plain(&headings, ramps.iter().map(row).collect())
}

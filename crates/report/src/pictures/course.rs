//! Durations in the order in which they came: round by round, which shows drift and disturbance that comes and goes, and loop by loop of a
//! rested CPU, a line per governor.

use punctual_record::{RoundFigures, Series};

use crate::document::{Album, Axis, Form, Line, Picture, Point, Table, ends};
use crate::format::units;
use crate::pictures::group::{AT_FIRST, Group, MOST_LINES, Member, place_of_baseline, quantity_name, shown};

/// Lines shown at first.
const ROUNDS_AT_FIRST: usize = 6;
/// Most rounds that are drawn of a series; of more, every second, third... is.
const MOST_ROUNDS: usize = 400;
/// A round counts as disturbed when its thread was preempted this many times as often as in the middle round...
const TIMES: u64 = 3;
/// ...and at least so often, for once is nothing.
const LEAST: u64 = 2;

pub(super) fn rounds(group: &Group<'_>) -> Option<Picture> {
    let drawn =
        |member: &&Member<'_>| member.series.rounds.iter().filter(|round| round.summary.p50.is_some()).count() > 1;
    let members: Vec<&Member<'_>> = group.members.iter().filter(drawn).take(MOST_LINES).collect();
    let mut lines: Vec<Line> =
        members.iter().zip(shown(&members, ROUNDS_AT_FIRST)).map(|(member, shown)| line(member, shown)).collect();
    let (first, last) = ends(lines.iter().flat_map(|line| &line.points).map(|point| point.x))?;
    Some(Picture {
        title: group.title("Round by round"),
        about: group.about(
            "The median of each round, over the time of the run. A ring: the thread was preempted far more often than in its other rounds.",
        ),
        x: Axis::linear("time since the run began, in s", first.floor(), last.ceil(), 8, &|s| format!("{}", (s * 100.0).round() / 100.0)),
        y: Axis::vertical(&format!("{}, median", quantity_name(group.quantity)), &mut lines, place_of_baseline(&members))?,
        table: table(&members),
        lines,
        letters: None,
    })
}

fn line(member: &Member<'_>, shown: bool) -> Line {
    let rounds = &member.series.rounds;
    let limit = disturbed_above(member.series);
    let every = rounds.len().div_ceil(MOST_ROUNDS).max(1);
    let point = |round: &RoundFigures| {
        Some(Point {
            x: round.started_ns as f64 / 1e9,
            y: round.summary.p50? as f64,
            says: says(round),
            mark: rounds.len() <= 100,
            ring: is_disturbed(round, limit),
            ..Point::default()
        })
    };
    let kept = rounds.iter().enumerate().filter(|(i, round)| i % every == 0 || is_disturbed(round, limit));
    let mut points: Vec<Point> = kept.filter_map(|(_, round)| point(round)).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Line { label: member.label.clone(), shown, form: Form::Curve, points }
}

/// More preemptions than these are a disturbance; None where they are not known.
fn disturbed_above(series: &Series) -> Option<u64> {
    let mut all: Vec<u64> = series.rounds.iter().filter_map(|round| round.involuntary_switches).collect();
    all.sort_unstable();
    let middle = *all.get(all.len() / 2)?;
    Some(middle.saturating_mul(TIMES).max(LEAST))
}

fn is_disturbed(round: &RoundFigures, limit: Option<u64>) -> bool {
    limit.zip(round.involuntary_switches).is_some_and(|(limit, switches)| switches > limit)
}

fn says(round: &RoundFigures) -> String {
    let [p50, p99, max] = [round.summary.p50, round.summary.p99, round.summary.max].map(units::known);
    let (number, started) = (round.round, round.started_ns as f64 / 1e9);
    let mut text = format!("round {number}, {started:.2} s: p50 {p50}, p99 {p99}, max {max}");
    if let Some(n) = round.involuntary_switches {
        text.push_str(&format!(", preempted {} times", units::count(n)));
    }
    text
}

/// A row per series: how far its rounds lie apart.
fn table(members: &[&Member<'_>]) -> Table {
    let headings = ["series", "rounds", "least median", "largest median", "disturbed rounds"];
    let row = |member: &&Member<'_>| {
        let rounds = &member.series.rounds;
        let medians = || rounds.iter().filter_map(|round| round.summary.p50);
        let limit = disturbed_above(member.series);
        let disturbed = units::or_absent(limit, |_| {
            units::count(rounds.iter().filter(|round| is_disturbed(round, limit)).count() as u64)
        });
        let [least, largest] = [medians().min(), medians().max()].map(units::known);
        vec![member.label.clone(), units::count(rounds.len() as u64), least, largest, disturbed]
    };
    Table::plain(&headings, members.iter().map(row).collect())
}

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
pub(crate) fn ramps(ramps: Vec<Loops>) -> Option<Album> {
    let ramps: Vec<Loops> = ramps.into_iter().filter(|ramp| ramp.typical.len() > 1).take(MOST_LINES).collect();
    let picture = ramp(&ramps)?;
    Some(Album { kind: "Getting up to speed", pictures: vec![(String::new(), picture)], ..Album::default() })
}

fn ramp(ramps: &[Loops]) -> Option<Picture> {
    let mut lines: Vec<Line> =
        ramps.iter().enumerate().map(|(i, ramp)| loop_line(&ramp.name, &ramp.typical, i < AT_FIRST)).collect();
    let longest = ramps.iter().map(|ramp| ramp.typical.len()).max()?;
    Some(Picture {
        title: "Getting up to speed".into(),
        about: "The same work again and again, from a rested CPU on: how long each loop took (the median of the rounds). Lower is faster."
            .into(),
        x: Axis::linear("loop", 1.0, longest as f64, 10, &|n| format!("{n:.0}")),
        y: Axis::vertical("duration of a loop", &mut lines, None)?,
        table: ramp_table(ramps),
        lines,
        letters: Some("loop number"),
    })
}

fn loop_line(name: &str, ramp: &[i64], shown: bool) -> Line {
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

fn ramp_table(ramps: &[Loops]) -> Table {
    let headings = ["series", "loops", "first", "final", "p50", "to full speed"];
    let row = |ramp: &Loops| {
        let ends = [ramp.typical.first().copied(), ramp.typical.last().copied()];
        let [first, last, p50, to_full_speed] = [ends[0], ends[1], ramp.p50, ramp.to_full_speed_ns].map(units::known);
        vec![ramp.name.clone(), units::count(ramp.typical.len() as u64), first, last, p50, to_full_speed]
    };
    Table::plain(&headings, ramps.iter().map(row).collect())
}

//! Dot plots for the first screen: a panel per case, a row per way. A mark is the median, a bar behind it the interval that
//! holds it, a line leads to the 99th percentile.

use punctual_record::{Interval, Quantity, Run, Series, Summary};

use crate::document::{Album, Axis, Form, Line, Picture, Point, Table, ends};
use crate::format::units;

use super::group::{Group, Member, groups};

/// Most panels: a screen has room for no more.
const PANELS: usize = 4;
/// Most rows of a panel that nobody chose.
const ROWS: usize = 20;

/// One case.
#[derive(Debug)]
pub(crate) struct Panel {
    /// The case: `wait 100 µs`.
    pub(crate) title: String,
    /// Its rows, from the top.
    pub(crate) rows: Vec<Dot>,
}

/// A row.
#[derive(Debug, Clone)]
pub(crate) struct Dot {
    /// Its name.
    pub(crate) name: String,
    /// The median.
    pub(crate) p50: Option<i64>,
    /// The interval that holds the true median with 95 % confidence.
    pub(crate) interval: Option<Interval>,
    /// The 99th percentile.
    pub(crate) p99: Option<i64>,
    /// Whether the others are compared with it.
    pub(crate) baseline: bool,
    /// Whether the verdict advises it.
    pub(crate) advised: bool,
}

impl Dot {
    /// A series beside others.
    pub(crate) fn new(name: &str, series: &Series) -> Self {
        let Summary { p50, p99, ci95, .. } = &series.summary;
        Self { name: name.to_owned(), p50: *p50, interval: ci95.p50, p99: *p99, baseline: false, advised: false }
    }
}

/// The panels, all on one scale; `None` of fewer than two rows.
pub(crate) fn album(mut panels: Vec<Panel>) -> Option<Album> {
    panels.iter_mut().for_each(|panel| panel.rows.retain(|row| row.p50.is_some()));
    panels.retain(|panel| panel.rows.len() >= 2);
    let more = panels.len().saturating_sub(PANELS);
    panels.truncate(PANELS);
    let figures = || panels.iter().flat_map(|panel| panel.rows.iter().flat_map(|row| [row.p50, row.p99]));
    let (low, high) = ends(figures().flatten().map(|ns| ns.max(1) as f64))?;
    let axis = Axis::log_ns("", [low, high])?;
    let pictures = panels.into_iter().map(|panel| (panel.title.clone(), picture(panel, axis.clone())));
    let missing = if more > 0 { format!("{more} more cases are in the tables.") } else { String::new() };
    Some(Album { pictures: pictures.collect(), side_by_side: true, missing, ..Album::default() })
}

/// The series of an experiment that says nothing of its own: the best ways of each case.
pub(crate) fn overview(run: &Run, series: &[&Series], advised: &[&Series]) -> Option<Album> {
    use Quantity::{Away, CallCost, Lateness, OneWay, Overshoot, PeriodJitter, Response, RoundTrip};
    let latencies = [Away, CallCost, Lateness, OneWay, Overshoot, PeriodJitter, Response, RoundTrip];
    let latency = |group: &&Group<'_>| latencies.contains(&group.quantity) && !group.is_ordered();
    let panel = |group: &Group<'_>| {
        let row = |member: &Member<'_>| Dot {
            baseline: member.is_baseline,
            advised: member.is_advised,
            ..Dot::new(&name(group, member), member.series)
        };
        let more = group.members.len().saturating_sub(ROWS);
        let more = if more > 0 { format!(" (the best {ROWS}; {more} more in the tables)") } else { String::new() };
        Panel { title: format!("{}{more}", group.label), rows: group.members.iter().map(row).take(ROWS).collect() }
    };
    album(groups(run, series, advised).iter().filter(latency).map(panel).collect())
}

/// The subject, with its conditions where they are not those of the baseline.
fn name(group: &Group<'_>, member: &Member<'_>) -> String {
    let Some(base) = group.members.first().filter(|first| first.is_baseline) else { return member.name.clone() };
    let subject = member.series.subject.clone();
    let conditions = member.series.conditions.clone();
    match (member.series.conditions == base.series.conditions, member.series.subject == base.series.subject) {
        (true, _) => subject,
        (false, true) => conditions,
        (false, false) => format!("{subject}, {conditions}"),
    }
}

fn picture(panel: Panel, x: Axis) -> Picture {
    let names: Vec<String> = panel.rows.iter().map(|row| row.name.clone()).collect();
    let y = Axis::names(&names);
    // A line's number is its mark and its colour in the style sheet, so each is there, if need be without points.
    let line = |label: &str, belongs: fn(&Dot) -> bool| {
        Line::new(label, Form::Spans, (0..).zip(&panel.rows).filter(|(_, row)| belongs(row)).map(point).collect())
    };
    let advised = line("advised", |row| row.advised && !row.baseline);
    let square = if advised.points.is_empty() { "" } else { " A square is advised." };
    let mut lines = vec![line("measured", |row| !row.baseline && !row.advised), advised];
    if let Some(base) = panel.rows.iter().find(|row| row.baseline) {
        lines.extend([line(&base.name, |row| row.baseline), guide(base, &y)]);
    }
    let dashed = lines.last().filter(|line| line.form == Form::Curve);
    let dashed = dashed.map_or(String::new(), |guide| format!(" The dashed line is the {}.", guide.label));
    let about = format!(
        "A mark is the median, the bar behind it its 95 % interval, the line reaches to p99.{square}{dashed} The scale is logarithmic; left is better."
    );
    let cells = |row: &Dot| vec![row.name.clone(), units::known(row.p50), units::known(row.p99)];
    let table = Table::plain(&["", "p50", "p99"], panel.rows.iter().map(cells).collect());
    Picture { title: panel.title, about, x, y, lines, table, letters: None }
}

fn point((place, row): (i32, &Dot)) -> Point {
    let p50 = row.p50.unwrap_or(1).max(1) as f64;
    let p99 = row.p99.map_or(p50, |ns| ns.max(1) as f64);
    let interval =
        |interval: Interval| format!(" [{} {}]", units::duration(interval.low), units::duration(interval.high));
    let interval = row.interval.map_or(String::new(), interval);
    Point {
        x: p50,
        y: -f64::from(place),
        says: format!("{}: p50 {}{interval}, p99 {}", row.name, units::known(row.p50), units::known(row.p99)),
        mark: true,
        span: Some((p50, p99)),
        interval: row.interval.map(|interval| (interval.low.max(1) as f64, interval.high.max(1) as f64)),
        ..Point::default()
    }
}

/// A row of two sides: the old and the new median, and the old and the new 99th percentile, ns.
#[derive(Debug, Clone)]
pub(crate) struct Overlaid {
    /// Its name.
    pub(crate) name: String,
    /// The medians.
    pub(crate) p50: [f64; 2],
    /// The 99th percentiles.
    pub(crate) p99: Option<[f64; 2]>,
}

/// How far old and new are from the middle of their row.
const APART: f64 = 0.2;

/// Old and new over each other, a row each; `None` of none.
pub(crate) fn overlaid(rows: &[Overlaid]) -> Option<Album> {
    let figures = rows.iter().flat_map(|row| row.p50.into_iter().chain(row.p99.into_iter().flatten()));
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let line = |side: (usize, &str)| {
        Line::new(side.1, Form::Spans, (0..).zip(rows).map(|(place, row)| side_of(row, place, side)).collect())
    };
    let cells = |row: &Overlaid| {
        let [old, new] = row.p50.map(units::duration_fine);
        vec![row.name.clone(), old, new]
    };
    let picture = Picture {
        title: "Old and new".to_owned(),
        about: "The upper mark, a circle, is the old median, the lower one, a square, the new; the line reaches to p99. The figures are \
                the medians. The scale is logarithmic; left is better."
            .to_owned(),
        x: Axis::log_ns("", figures)?,
        y: Axis::names(&names),
        lines: [(0, "old"), (1, "new")].map(line).to_vec(),
        table: Table::plain(&["", "old", "new"], rows.iter().map(cells).collect()),
        letters: None,
    };
    Some(Album { pictures: vec![(String::new(), picture)], side_by_side: true, ..Album::default() })
}

fn side_of(row: &Overlaid, place: i32, (side, label): (usize, &str)) -> Point {
    let p50 = row.p50[side].max(1.0);
    let p99 = row.p99.map(|p99| p99[side].max(1.0));
    let told = p99.map_or(String::new(), |ns| format!(", p99 {}", units::duration_fine(ns)));
    Point {
        x: p50,
        y: -f64::from(place) + if side == 0 { APART } else { -APART },
        says: format!("{}, {label}: p50 {}{told}", row.name, units::duration_fine(p50)),
        mark: true,
        span: p99.map(|p99| (p50.min(p99), p99.max(p50))),
        ..Point::default()
    }
}

/// The baseline's median, across all rows.
fn guide(base: &Dot, y: &Axis) -> Line {
    let ns = base.p50.unwrap_or(1).max(1);
    let point = |y: f64| Point { x: ns as f64, y, says: units::duration(ns), ..Point::default() };
    Line::new(format!("median of '{}'", base.name), Form::Curve, vec![point(y.low), point(y.high)])
}

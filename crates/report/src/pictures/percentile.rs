//! Latency by percentile: how late the best, the median, the 99th of a hundred was. The tail is as wide as the middle.

use punctual_record::{Distribution, Quantile};

use crate::document::{Axis, Form, Line, Picture, Point, Table, ends};
use crate::format::units;

use super::group::{AT_FIRST, Group, MOST_LINES, Member, place_of_baseline, quantity_name, shown};
use super::outlier;

/// Percentiles that are drawn, in millionths.
const DRAWN: [u32; 19] = [
    100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 980_000, 990_000, 995_000, 998_000, 999_000, 999_500,
    999_800, 999_900, 999_950, 999_980, 999_990, 999_995, 999_999,
];
/// Those that carry the line's mark.
const MARKED: [u32; 5] = [500_000, 900_000, 990_000, 999_000, 999_900];

pub(super) fn picture(group: &Group<'_>) -> Option<Picture> {
    if group.is_ordered() {
        return None;
    }
    let members: Vec<&Member<'_>> =
        group.members.iter().filter(|member| member.distribution().is_some()).take(MOST_LINES).collect();
    let mut lines: Vec<Line> =
        members.iter().zip(shown(&members, AT_FIRST)).map(|(member, shown)| line(member, shown)).collect();
    let (_, right) = ends(lines.iter().flat_map(|line| &line.points).map(|point| point.x))?;
    let ticks = ["min", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999"];
    let mut ticks: Vec<(f64, String)> = ticks.iter().enumerate().map(|(i, name)| (i as f64, (*name).into())).collect();
    ticks.insert(1, (place(0.5), "p50".into()));
    ticks.retain(|(at, _)| *at <= right);
    Some(Picture {
        title: group.title("Latency by percentile"),
        about: group.about(
            "Lower is better; the flatter a line, the steadier. Each step to the right is ten times rarer; the last point is the maximum.",
        ),
        x: Axis::ticked("percentile", 0.0, right.max(1.0), ticks),
        y: outlier::vertical(quantity_name(group.quantity), &mut lines, place_of_baseline(&members))?,
        table: table(&members),
        lines,
        letters: None,
    })
}

/// Where a quantile stands: each nine is one step.
fn place(ratio: f64) -> f64 {
    -(1.0 - ratio).log10()
}

fn line(member: &Member<'_>, shown: bool) -> Line {
    Line {
        label: member.label.clone(),
        shown,
        form: Form::Curve,
        points: member.distribution().map_or(Vec::new(), points),
    }
}

fn points(distribution: &Distribution) -> Vec<Point> {
    let Some((min, max)) = distribution.extremes() else { return Vec::new() };
    let said = |name: &str, ns: i64| format!("{name} {}", units::duration(ns));
    let mut points = vec![Point { x: 0.0, y: min as f64, says: said("min", min), mark: true, ..Point::default() }];
    for millionths in DRAWN {
        let Some(quantile) = Quantile::from_millionths(millionths) else { continue };
        if let Some(ns) = distribution.percentile(quantile) {
            points.push(Point {
                x: place(quantile.ratio()),
                y: ns as f64,
                says: said(&name(millionths), ns),
                mark: MARKED.contains(&millionths),
                ..Point::default()
            });
        }
    }
    let last = place(1.0 - 1.0 / distribution.count() as f64);
    if last.is_finite() && last > points.last().map_or(0.0, |point| point.x) {
        points.push(Point { x: last, y: max as f64, says: said("max", max), mark: true, ..Point::default() });
    }
    points
}

/// `p99.9` of 999 000.
fn name(millionths: u32) -> String {
    let text = format!("{:.4}", f64::from(millionths) / 1e4);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn table(members: &[&Member<'_>]) -> Table {
    let headings = ["series", "n", "min", "p50", "p90", "p99", "p99.9", "max"];
    let row = |member: &&Member<'_>| {
        let s = &member.series.summary;
        let figures = [s.min, s.p50, s.p90, s.p99, s.p999, s.max].map(units::known);
        [vec![member.label.clone(), units::count(s.count)], figures.to_vec()].concat()
    };
    Table::of(&headings, members.iter().map(row).collect())
}

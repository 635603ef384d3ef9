//! Samples by rank and by size: latency by percentile, with a tail as wide as the middle, and histograms.
//!
//! Percentiles tell how late the best, the median, the 99th of a hundred was. A histogram has the share of samples per class, on two
//! logarithmic axes so that the tail shows.

use punctual_record::{Distribution, Quantile};

use crate::document::{Axis, Form, Line, Picture, Point, Table, ends};
use crate::format::units;
use crate::pictures::group::{AT_FIRST, Group, MOST_LINES, Member, place_of_baseline, quantity_name, shown};

/// Percentiles that are drawn, in millionths.
const DRAWN: [u32; 19] = [
    100_000, 250_000, 500_000, 750_000, 900_000, 950_000, 980_000, 990_000, 995_000, 998_000, 999_000, 999_500,
    999_800, 999_900, 999_950, 999_980, 999_990, 999_995, 999_999,
];
/// Those that carry the line's mark.
const MARKED: [u32; 5] = [500_000, 900_000, 990_000, 999_000, 999_900];

pub(super) fn percentiles(group: &Group<'_>) -> Option<Picture> {
    if group.is_ordered() {
        return None;
    }
    let members: Vec<&Member<'_>> =
        group.members.iter().filter(|member| member.distribution().is_some()).take(MOST_LINES).collect();
    let mut lines: Vec<Line> =
        members.iter().zip(shown(&members, AT_FIRST)).map(|(member, shown)| curve(member, shown)).collect();
    Some(Picture {
        title: group.title("Latency by percentile"),
        about: group.about(
            "Lower is better; the flatter a line, the steadier. Each step to the right is ten times rarer; the last point is the maximum.",
        ),
        x: percentile_axis(&lines)?,
        y: Axis::vertical(quantity_name(group.quantity), &mut lines, place_of_baseline(&members))?,
        table: percentile_table(&members),
        lines,
        letters: None,
    })
}

/// The horizontal axis, as far as the lines reach.
fn percentile_axis(lines: &[Line]) -> Option<Axis> {
    let (_, right) = ends(lines.iter().flat_map(|line| &line.points).map(|point| point.x))?;
    let ticks = ["min", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999"];
    let mut ticks: Vec<(f64, String)> = ticks.iter().enumerate().map(|(i, name)| (i as f64, (*name).into())).collect();
    ticks.insert(1, (place(0.5), "p50".into()));
    ticks.retain(|(at, _)| *at <= right);
    Some(Axis::ticked("percentile", 0.0, right.max(1.0), ticks))
}

/// Where a quantile stands: each nine is one step.
fn place(ratio: f64) -> f64 {
    -(1.0 - ratio).log10()
}

fn curve(member: &Member<'_>, shown: bool) -> Line {
    let points = member.distribution().map_or(Vec::new(), points);
    Line { shown, ..Line::new(&member.label, Form::Curve, points) }
}

fn points(distribution: &Distribution) -> Vec<Point> {
    let Some((_, max)) = distribution.extremes() else { return Vec::new() };
    let mut points = Curve::from_samples(distribution).points();
    let last = place(1.0 - 1.0 / distribution.count() as f64);
    if last.is_finite() && last > points.last().map_or(0.0, |point| point.x) {
        let says = format!("max {}", units::duration(max));
        points.push(Point { x: last, y: max as f64, says, mark: true, ..Point::default() });
    }
    points
}

/// Values at percentiles, in millionths; 0 is the minimum.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Curve(Vec<(u32, i64)>);

impl Curve {
    /// As far as the samples support percentiles.
    pub(crate) fn from_samples(distribution: &Distribution) -> Self {
        let least = distribution.extremes().map(|(min, _)| (0, min));
        let value =
            |millionths: u32| Some((millionths, distribution.percentile(Quantile::from_millionths(millionths)?)?));
        Self(least.into_iter().chain(DRAWN.into_iter().filter_map(value)).collect())
    }

    /// The median of several curves at each percentile that all of them have.
    pub(crate) fn median(curves: &[Self]) -> Self {
        let at = |place: usize| -> Option<(u32, i64)> {
            let mut values: Vec<i64> =
                curves.iter().map(|curve| curve.0.get(place).map(|(_, ns)| *ns)).collect::<Option<_>>()?;
            values.sort_unstable();
            Some((curves.first()?.0[place].0, *values.get(values.len() / 2)?))
        };
        Self((0..).map_while(at).collect())
    }

    fn points(&self) -> Vec<Point> {
        let point = |&(millionths, ns): &(u32, i64)| Point {
            x: place(f64::from(millionths) / 1e6),
            y: ns as f64,
            says: format!("{} {}", name(millionths), units::duration(ns)),
            mark: millionths == 0 || MARKED.contains(&millionths),
            ..Point::default()
        };
        self.0.iter().map(point).collect()
    }

    /// Old and new over each other; `None` where one of them has no samples.
    pub(crate) fn overlaid(old: &Self, new: &Self, title: String, quantity: &str) -> Option<Picture> {
        let mut lines =
            [("old", old), ("new", new)].map(|(label, curve)| Line::new(label, Form::Curve, curve.points()));
        let drawn = lines.iter().all(|line| line.points.len() > 1);
        let x = percentile_axis(&lines).filter(|_| drawn)?;
        let y = Axis::vertical(quantity, &mut lines, Some(0))?;
        let lines = lines.to_vec();
        let both = old.0.iter().zip(&new.0).filter(|(old, _)| old.0 == 0 || MARKED.contains(&old.0));
        let row =
            |(old, new): (&(u32, i64), &(u32, i64))| vec![name(old.0), units::duration(old.1), units::duration(new.1)];
        let table = Table::plain(&["percentile", "old", "new"], both.map(row).collect());
        let about = "Lower is better. Of several runs of a side, the median at each percentile.".to_owned();
        Some(Picture { title, about, x, y, lines, table, letters: None })
    }
}

/// `p99.9` of 999 000, `min` of 0.
fn name(millionths: u32) -> String {
    if millionths == 0 {
        return "min".to_owned();
    }
    let text = format!("{:.4}", f64::from(millionths) / 1e4);
    format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn percentile_table(members: &[&Member<'_>]) -> Table {
    let headings = ["series", "n", "min", "p50", "p90", "p99", "p99.9", "max"];
    let row = |member: &&Member<'_>| {
        let s = &member.series.summary;
        let figures = [s.min, s.p50, s.p90, s.p99, s.p999, s.max].map(units::known);
        [vec![member.label.clone(), units::count(s.count)], figures.to_vec()].concat()
    };
    Table::plain(&headings, members.iter().map(row).collect())
}

/// Classes to a power of ten.
const PER_DECADE: f64 = 10.0;
/// Lines shown at first: more would hide each other.
const HISTOGRAMS_AT_FIRST: usize = 3;

pub(super) fn histogram(group: &Group<'_>) -> Option<Picture> {
    if group.is_ordered() {
        return None;
    }
    let members: Vec<(&Member<'_>, Vec<Class>)> = group
        .members
        .iter()
        .filter_map(|member| Some((member, classes(member.distribution()?))))
        .take(MOST_LINES)
        .collect();
    let named: Vec<&Member<'_>> = members.iter().map(|(member, _)| *member).collect();
    let at_first = shown(&named, HISTOGRAMS_AT_FIRST);
    let mut lines: Vec<Line> =
        members.iter().zip(at_first).map(|((member, classes), shown)| steps(&member.label, classes, shown)).collect();
    let shares = || members.iter().flat_map(|(_, classes)| classes.iter().map(|class| class.share));
    let lowest = shares().filter(|share| *share > 0.0).fold(1.0, f64::min);
    let mut y = Axis::log("share of the samples", [lowest, 1.0], 10.0, &|share| units::share(share))?;
    y.ticks.retain(|(share, _)| (share.log10() - share.log10().round()).abs() < 1e-6);
    Some(Picture {
        title: group.title("Histogram"),
        about: group.about(
            "How the samples spread: a narrow peak far left is best. Both scales are logarithmic, or rare samples would not show.",
        ),
        x: Axis::horizontal(quantity_name(group.quantity), &mut lines)?,
        y,
        table: table(&members),
        lines,
        letters: None,
    })
}

/// Samples from `from_ns` up to `to_ns`.
struct Class {
    from_ns: f64,
    to_ns: f64,
    count: u64,
    share: f64,
}

/// Classes on a logarithmic grid, from the first that holds a sample to the last. What is below 1 ns is in the first.
fn classes(distribution: &Distribution) -> Vec<Class> {
    let index = |ns: i64| ((ns.max(1) as f64).log10() * PER_DECADE).floor() as i64;
    let (below, above) = distribution.overflow();
    let Some((min, max)) = distribution.extremes() else { return Vec::new() };
    let (first, last) = (index(min), index(max));
    let mut counts = vec![0_u64; (last - first + 1).max(1) as usize];
    let mut add = |at: i64, count: u64| {
        let place = (at - first).clamp(0, last - first) as usize;
        counts[place] = counts[place].saturating_add(count);
    };
    distribution.buckets().iter().for_each(|bucket| add(index(bucket.high), bucket.count));
    add(first, below);
    add(last, above);
    let total = distribution.count().max(1) as f64;
    let edge = |at: i64| 10_f64.powf(at as f64 / PER_DECADE);
    let class = |(i, count): (usize, u64)| {
        let at = first + i as i64;
        Class { from_ns: edge(at), to_ns: edge(at + 1), count, share: count as f64 / total }
    };
    counts.into_iter().enumerate().map(class).collect()
}

fn steps(label: &str, classes: &[Class], shown: bool) -> Line {
    let mut points = Vec::with_capacity(classes.len() + 2);
    if let Some(first) = classes.first() {
        points.push(Point { x: first.from_ns, y: 0.0, says: "nothing below".into(), ..Point::default() });
    }
    for class in classes {
        let says = format!("{}: {} ({})", span(class), units::count(class.count), units::share(class.share));
        points.push(Point { x: class.from_ns, y: class.share, says, mark: class.share >= 0.2, ..Point::default() });
    }
    if let Some(last) = classes.last() {
        points.push(Point { x: last.to_ns, y: 0.0, says: "nothing above".into(), ..Point::default() });
    }
    Line { label: label.into(), shown, form: Form::Steps, points }
}

fn span(class: &Class) -> String {
    format!("{} to {}", units::duration(class.from_ns as i64), units::duration(class.to_ns as i64))
}

/// The classes that hold samples.
fn table(members: &[(&Member<'_>, Vec<Class>)]) -> Table {
    let headings = ["series", "from", "samples", "share"];
    let row = |label: &str, class: &Class| {
        vec![label.to_owned(), span(class), units::count(class.count), units::share(class.share)]
    };
    let held = |(member, classes): &(&Member<'_>, Vec<Class>)| -> Vec<Vec<String>> {
        classes.iter().filter(|class| class.count > 0).map(|class| row(&member.label, class)).collect()
    };
    Table::plain(&headings, members.iter().flat_map(held).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use punctual_record::Recorder;

    proptest! {
        #[test]
        fn no_sample_is_lost(values in prop::collection::vec(-1000i64..10_000_000_000, 1..200)) {
            let mut recorder = Recorder::new();
            values.iter().for_each(|value| recorder.record(*value));
            let classes = classes(&recorder.distribution());
            prop_assert_eq!(classes.iter().map(|class| class.count).sum::<u64>(), values.len() as u64);
        }
    }
}

//! The upper end of an axis that few values far beyond all others do not push up. Their figures stand at that end.
//!
//! In go lines; out comes the end. What lies beyond it keeps its value; the exporters draw it at the end of the axis.

use crate::document::{Axis, Line, Point, ends, sorted};
use crate::format::units;

/// The largest share of values that may lie beyond the end.
const MOST: f64 = 0.2;
/// The fewest values among which one is an outlier.
const FEWEST: usize = 4;
/// A value beyond is at least this many times the largest within: an order of magnitude.
const TIMES: f64 = 10.0;

/// The vertical axis of lines in ns. `baseline`: the line whose median stays within.
pub(super) fn vertical(title: &str, lines: &mut [Line], baseline: Option<usize>) -> Option<Axis> {
    let end = end(lines, baseline, |point| point.y.max(point.up_to.unwrap_or(0.0)))?;
    let within = |value: f64| value.min(end);
    let axis =
        Axis::log_ns(title, lines.iter().flat_map(|line| &line.points).map(|point| within(point.y)).chain([end]))?;
    for line in lines {
        let label = line.label.clone();
        mark(line, |point| {
            let highest = point.y.max(point.up_to.unwrap_or(0.0));
            let name = point.tag.as_deref().unwrap_or(&label);
            (highest > axis.high).then(|| {
                let figure = if point.y > axis.high { "" } else { "p99 " };
                format!("{name}: {figure}{} ↑", units::duration(highest as i64))
            })
        });
    }
    Some(axis)
}

/// The horizontal axis of lines in ns, likewise; the largest share of a line beyond carries the figure.
pub(super) fn horizontal(title: &str, lines: &mut [Line]) -> Option<Axis> {
    let end = end(lines, None, |point| point.x)?;
    let places = lines.iter().flat_map(|line| &line.points).map(|point| point.x.min(end));
    let axis = Axis::log_ns(title, places.chain([end]))?;
    for line in lines {
        let beyond = line.points.iter_mut().filter(|point| point.x > axis.high);
        if let Some(point) = beyond.max_by(|a, b| a.y.total_cmp(&b.y)) {
            point.tag = Some(format!("{}: {} →", line.label, units::duration(point.x as i64)));
            point.mark = true;
        }
    }
    Some(axis)
}

/// Each first point of those beyond in a row gets its text and a mark.
fn mark(line: &mut Line, text: impl Fn(&Point) -> Option<String>) {
    let mut before = false;
    for point in &mut line.points {
        let text = text(point);
        let first = text.is_some() && !before;
        before = text.is_some() && point.up_to.is_none();
        if first {
            (point.tag, point.mark) = (text, true);
        }
    }
}

/// The largest value within: first whole lines are left out by their medians, then single points.
fn end(lines: &[Line], baseline: Option<usize>, value: impl Fn(&Point) -> f64) -> Option<f64> {
    let levels: Vec<f64> = lines.iter().map(|line| middle(line.points.iter().map(&value))).collect();
    let least = baseline.and_then(|line| levels.get(line).copied()).unwrap_or(0.0);
    let level = bound(&levels).map_or(f64::INFINITY, |bound| bound.max(least));
    let kept = lines.iter().zip(&levels).filter(|(_, middle)| **middle <= level);
    let points: Vec<f64> = kept.flat_map(|(line, _)| line.points.iter().map(&value)).collect();
    let bound = bound(&points).map(|bound| bound.max(least));
    bound.or_else(|| ends(points).map(|(_, high)| high))
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let sorted = sorted(values);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The largest value below a gap that is wider than the whole range below it. `None`: there is no such gap.
fn bound(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values.iter().map(|value| value.max(1.0)));
    if sorted.len() < FEWEST {
        return None;
    }
    let few = ((sorted.len() as f64 * MOST) as usize).max(1);
    let widest = (sorted.len() - few..sorted.len()).max_by(|a, b| {
        let gap = |at: usize| sorted[at] / sorted[at - 1];
        gap(*a).total_cmp(&gap(*b))
    })?;
    let (below, gap) = (sorted[widest - 1] / sorted[0], sorted[widest] / sorted[widest - 1]);
    (gap > below.max(TIMES)).then(|| sorted[widest - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Form;

    fn lines(all: &[&[f64]]) -> Vec<Line> {
        let point = |(i, y): (usize, &f64)| Point { x: i as f64 + 1.0, y: *y, ..Point::default() };
        let line = |ys: &&[f64]| Line {
            label: "line".into(),
            shown: true,
            form: Form::Curve,
            points: ys.iter().enumerate().map(point).collect(),
        };
        all.iter().map(line).collect()
    }

    /// Messages on one CPU: seven ways of 7 to 21 µs, and one that polls until its time slice ends.
    const MESSAGES: [&[f64]; 5] =
        [&[7_540.0, 9_780.0], &[9_550.0, 13_300.0], &[7_940.0, 14_400.0], &[18_900.0, 21_200.0], &[7.98e6, 7.99e6]];

    #[test]
    fn a_line_far_beyond_all_others_ends_up_at_the_edge_with_its_figure() {
        let mut lines = lines(&MESSAGES);
        let axis = vertical("", &mut lines, None).unwrap();
        assert!(axis.high < 100_000.0, "{axis:?}");
        assert_eq!(lines[4].points[0].tag.as_deref(), Some("line: 7.98 ms ↑"));
        assert_eq!((lines[4].points[1].tag.as_deref(), lines[0].points[0].tag.as_deref()), (None, None));
    }

    #[test]
    fn the_baseline_is_never_cut_off() {
        let mut lines = lines(&MESSAGES);
        assert!(vertical("", &mut lines, Some(4)).unwrap().high >= 7.98e6);
    }

    #[test]
    fn a_spread_without_a_gap_is_shown_whole() {
        let mut lines =
            lines(&[&[79.0, 30_000.0], &[369.0, 1.6e6], &[38_000.0, 4e6], &[91_500.0, 4e6], &[98_000.0, 3e6]]);
        let axis = vertical("", &mut lines, None).unwrap();
        assert!(axis.high >= 4e6 && lines.iter().flat_map(|line| &line.points).all(|point| point.tag.is_none()));
    }

    #[test]
    fn one_disturbed_round_does_not_squash_the_others() {
        let mut lines = lines(&[&[90_000.0, 91_000.0, 92_000.0, 30e6, 90_500.0, 91_000.0], &[88_000.0; 6]]);
        let axis = vertical("", &mut lines, Some(0)).unwrap();
        assert!(axis.high < 1e6, "{axis:?}");
        assert_eq!(lines[0].points[3].tag.as_deref(), Some("line: 30.0 ms ↑"));
    }
}

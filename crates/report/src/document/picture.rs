//! Pictures as data: two axes with their ticks, lines of points, and their figures as a table. Exporters draw them.
//!
//! An axis of lines ends where few values far beyond all others do not push it up. What lies beyond the end keeps its value, and its figure
//! stands there; the exporters draw it at the end of the axis.

use crate::document::Table;
use crate::format::units;

/// Pictures of one kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Album {
    /// What the kind is called; empty where the section says it.
    pub kind: &'static str,
    /// What distinguishes a picture from the others, and the picture.
    pub pictures: Vec<(String, Picture)>,
    /// What they leave out. Empty: nothing.
    pub missing: String,
    /// Small ones that a page shows all at once, each with its figures beside its rows. Otherwise it shows one at a time.
    pub side_by_side: bool,
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub about: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
    /// The figures behind it.
    pub table: Table,
    /// The caption of its drawing in letters. Absent: it is not drawn in letters.
    pub letters: Option<&'static str>,
}

/// One entry of the legend and its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub label: String,
    /// Whether it is shown at first.
    pub shown: bool,
    /// How its points are drawn.
    pub form: Form,
    /// Its points, in order.
    pub points: Vec<Point>,
}

impl Line {
    /// A line that is shown at first.
    pub(crate) fn new(label: impl Into<String>, form: Form, points: Vec<Point>) -> Self {
        Self { label: label.into(), shown: true, form, points }
    }
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Joined by straight lines.
    Curve,
    /// As steps: each point holds until the next one.
    Steps,
    /// Each on its own, with a line to its upper end.
    Dots,
    /// As squares of a grid, shaded.
    Cells,
    /// Each on its own, with a line across from one end of what it stands for to the other.
    Spans,
    /// As bars, from one end of what each stands for to the other. The tag is inside where there is room.
    Bars,
}

/// A point.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Its place.
    pub x: f64,
    /// Its place.
    pub y: f64,
    /// What is said of it, beside the line's name.
    pub says: String,
    /// Carries the line's mark.
    pub mark: bool,
    /// Carries a ring: something disturbed it.
    pub ring: bool,
    /// Text drawn beside it, or in a cell where there is room.
    pub tag: Option<String>,
    /// Upper end of what it stands for.
    pub up_to: Option<f64>,
    /// Both ends, across, of what it stands for.
    pub span: Option<(f64, f64)>,
    /// Both ends, across, of the interval that holds its true place.
    pub interval: Option<(f64, f64)>,
    /// How dark a cell is, 0 to 1.
    pub shade: f64,
}

/// How values are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it is, with its unit where the ticks do not carry one.
    pub title: String,
    /// How values are laid out.
    pub scale: Scale,
    /// The lower end, as a value.
    pub low: f64,
    /// The upper end, as a value.
    pub high: f64,
    /// Tick marks: value and label.
    pub ticks: Vec<(f64, String)>,
}

/// The smallest and the largest of the finite values; None of nothing.
pub(crate) fn ends(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// The finite values, the smallest first.
pub(crate) fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

impl Axis {
    /// Durations in ns on a logarithmic axis; what is below 1 ns stands at 1 ns.
    pub(crate) fn log_ns(title: &str, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let label = |ns: f64| units::exact(ns as i64);
        Self::log(title, values.into_iter().map(|ns| ns.max(1.0)), 10.0, &label)
    }

    /// A logarithmic axis around values above zero, widened to the next tick on either side. Ticks stand at powers of
    /// `base`; where these are few, also at 2 and 5 times powers of ten.
    pub(crate) fn log(
        title: &str,
        values: impl IntoIterator<Item = f64>,
        base: f64,
        label: &dyn Fn(f64) -> String,
    ) -> Option<Self> {
        let (low, high) = ends(values.into_iter().filter(|value| *value > 0.0))?;
        let steps = |value: f64| value.ln() / base.ln();
        let decades = steps(high / low);
        let between: &[f64] = if base != 10.0 || decades > 4.0 {
            &[1.0]
        } else if decades > 1.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
        };
        let every = ((decades / 14.0).ceil() as i32).max(1);
        let (first, last) = (steps(low).floor() as i32 - 1, steps(high).ceil() as i32 + 1);
        let powers = (first..=last).filter(|power| power % every == 0);
        let marks: Vec<f64> =
            powers.flat_map(|power| between.iter().map(move |part| part * base.powi(power))).collect();
        // A value that is a tick itself stays at the end of the axis in spite of rounding.
        let from = marks.iter().rev().find(|mark| **mark <= low * 1.000_001).copied().unwrap_or(low);
        let to = marks.iter().find(|mark| **mark >= high * 0.999_999).copied().unwrap_or(high);
        let to = if to > from { to } else { from * base };
        let inside = |mark: &f64| *mark >= from * 0.999_999 && *mark <= to * 1.000_001;
        let ticks = marks.into_iter().filter(inside).map(|mark| (mark, label(mark))).collect();
        Some(Self { title: title.into(), scale: Scale::Log, low: from, high: to, ticks })
    }

    /// A linear axis from `low` to `high`. It has at most `count` steps of 1, 2 or 5 times a power of ten.
    pub(crate) fn linear(title: &str, low: f64, high: f64, count: u32, label: &dyn Fn(f64) -> String) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let least = (high - low) / f64::from(count.max(1));
        let power = 10_f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0].map(|part| part * power).into_iter().find(|step| *step >= least);
        let step = step.unwrap_or(10.0 * power);
        // Multiplied, not added up: rounding does not grow.
        let (first, last) = ((low / step).ceil() as i64, (high / step + 1e-9).floor() as i64);
        let marks = (first..=last).map(|i| i as f64 * step);
        Self::ticked(title, low, high, marks.map(|mark| (mark, label(mark))).collect())
    }

    /// A linear axis with these ticks.
    pub(crate) fn ticked(title: &str, low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        Self { title: title.into(), scale: Scale::Linear, low, high, ticks }
    }

    /// A vertical axis with a name at each of 0, 1, 2 and so on from the top. What is named first stands at 0. Values are minus the
    /// place.
    pub(crate) fn names(names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(i, name)| (-(i as f64), name.clone())).collect();
        Self::ticked("", -(names.len().max(1) as f64) + 0.4, 0.6, ticks)
    }

    /// Where a value stands, from 0 at the lower end to 1 at the upper. What lies beyond an end stands there.
    pub(crate) fn part(&self, value: f64) -> f64 {
        let place = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
        };
        (place(value.clamp(self.low, self.high)) - place(self.low)) / (place(self.high) - place(self.low))
    }
}

/// The largest share of values that may lie beyond the end.
const MOST: f64 = 0.2;
/// The fewest values among which one is an outlier.
const FEWEST: usize = 4;
/// A value beyond is at least this many times the largest within: an order of magnitude.
const TIMES: f64 = 10.0;

impl Axis {
    /// The vertical axis of lines in ns, without its outliers. `baseline`: the line whose median stays within.
    pub(crate) fn vertical(title: &str, lines: &mut [Line], baseline: Option<usize>) -> Option<Self> {
        let end = end(lines, baseline, |point| point.y.max(point.up_to.unwrap_or(0.0)))?;
        let places = lines.iter().flat_map(|line| &line.points).map(|point| point.y.min(end));
        let axis = Self::log_ns(title, places.chain([end]))?;
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
    pub(crate) fn horizontal(title: &str, lines: &mut [Line]) -> Option<Self> {
        let end = end(lines, None, |point| point.x)?;
        let places = lines.iter().flat_map(|line| &line.points).map(|point| point.x.min(end));
        let axis = Self::log_ns(title, places.chain([end]))?;
        for line in lines {
            let beyond = line.points.iter_mut().filter(|point| point.x > axis.high);
            if let Some(point) = beyond.max_by(|a, b| a.y.total_cmp(&b.y)) {
                point.tag = Some(format!("{}: {} →", line.label, units::duration(point.x as i64)));
                point.mark = true;
            }
        }
        Some(axis)
    }
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
    use proptest::prelude::*;

    #[test]
    fn ticks_of_times_are_round() {
        let axis = Axis::log_ns("", [52_000.0, 930_000.0]).unwrap();
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["50 µs", "100 µs", "200 µs", "500 µs", "1 ms"]);
        assert_eq!(Axis::log_ns("", []), None);
    }

    #[test]
    fn linear_ticks_are_round_and_few() {
        let axis = Axis::linear("", 0.0, 12.0, 8, &|value| value.to_string());
        let labels: Vec<&str> = axis.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["0", "2", "4", "6", "8", "10", "12"]);
    }

    proptest! {
        #[test]
        fn all_values_are_within_and_there_are_ticks(values in prop::collection::vec(1.0f64..1e12, 1..20)) {
            let axis = Axis::log_ns("", values.iter().copied()).unwrap();
            prop_assert!(axis.low < axis.high);
            prop_assert!(values.iter().all(|v| *v >= axis.low * 0.999 && *v <= axis.high * 1.001));
            prop_assert!((1..=40).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            prop_assert!(axis.ticks.iter().all(|(mark, label)| (0.0..=1.0).contains(&axis.part(*mark)) && !label.is_empty()));
        }

        #[test]
        fn linear_ticks_stay_within(low in -1e9f64..1e9, span in 1e-6f64..1e9, count in 1u32..12) {
            let axis = Axis::linear("", low, low + span, count, &|value| value.to_string());
            prop_assert!(axis.ticks.len() <= count as usize + 1);
            prop_assert!(axis.ticks.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(axis.ticks.iter().all(|(mark, _)| *mark >= low - span * 1e-6 && *mark <= low + span * (1.0 + 1e-6)));
        }
    }

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
        let axis = Axis::vertical("", &mut lines, None).unwrap();
        assert!(axis.high < 100_000.0, "{axis:?}");
        assert_eq!(lines[4].points[0].tag.as_deref(), Some("line: 7.98 ms ↑"));
        assert_eq!((lines[4].points[1].tag.as_deref(), lines[0].points[0].tag.as_deref()), (None, None));
    }

    #[test]
    fn the_baseline_is_never_cut_off() {
        let mut lines = lines(&MESSAGES);
        assert!(Axis::vertical("", &mut lines, Some(4)).unwrap().high >= 7.98e6);
    }

    #[test]
    fn a_spread_without_a_gap_is_shown_whole() {
        let mut lines =
            lines(&[&[79.0, 30_000.0], &[369.0, 1.6e6], &[38_000.0, 4e6], &[91_500.0, 4e6], &[98_000.0, 3e6]]);
        let axis = Axis::vertical("", &mut lines, None).unwrap();
        assert!(axis.high >= 4e6 && lines.iter().flat_map(|line| &line.points).all(|point| point.tag.is_none()));
    }

    #[test]
    fn one_disturbed_round_does_not_squash_the_others() {
        let mut lines = lines(&[&[90_000.0, 91_000.0, 92_000.0, 30e6, 90_500.0, 91_000.0], &[88_000.0; 6]]);
        let axis = Axis::vertical("", &mut lines, Some(0)).unwrap();
        assert!(axis.high < 1e6, "{axis:?}");
        assert_eq!(lines[0].points[3].tag.as_deref(), Some("line: 30.0 ms ↑"));
    }
}

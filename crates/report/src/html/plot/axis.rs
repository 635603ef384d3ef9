//! An axis: from where to where, on which scale, with which ticks.
//!
//! Values are taken to their place before plotters sees them (logarithms where the scale is logarithmic), so that every plot has
//! one type of coordinates; tick marks of a linear axis are those that plotters proposes.

use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::style::Style;
use crate::units;

/// How values are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm.
    Log,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::html) struct Axis {
    /// What it is, with its unit where the ticks do not carry one.
    pub(in crate::html) title: String,
    /// How values are laid out.
    pub(super) scale: Scale,
    /// The lower end, as a value.
    pub(in crate::html) low: f64,
    /// The upper end, as a value.
    pub(in crate::html) high: f64,
    /// Tick marks: value and label.
    pub(in crate::html) ticks: Vec<(f64, String)>,
    /// Room for a vertical axis' labels, in pixels.
    pub(in crate::html) room: i32,
}

/// Room for figures with their units.
const FIGURES_PX: i32 = 76;
/// About the width of a letter, and the most that names may take.
const LETTER_PX: usize = 7;
const NAMES_PX: usize = 280;

/// The smallest and the largest of the finite values; None of nothing.
pub(in crate::html) fn ends(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.into_iter().filter(|value| value.is_finite());
    finite.fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

impl Axis {
    /// Durations in ns on a logarithmic axis; what is below 1 ns stands at 1 ns.
    pub(in crate::html) fn log_ns(title: &str, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let label = |ns: f64| units::exact(ns as i64, &Style::default());
        Self::log(title, values.into_iter().map(|ns| ns.max(1.0)), 10.0, &label)
    }

    /// A logarithmic axis around the values, which are above zero, widened to the next tick on either side, with ticks at
    /// powers of `base`, and at 2 and 5 times those of ten where there are few.
    pub(in crate::html) fn log(
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
        Some(Self { title: title.into(), scale: Scale::Log, low: from, high: to, ticks, room: FIGURES_PX })
    }

    /// A linear axis from `low` to `high` with about `count` ticks.
    pub(in crate::html) fn linear(
        title: &str,
        low: f64,
        high: f64,
        count: usize,
        label: &dyn Fn(f64) -> String,
    ) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let marks = RangedCoordf64::from(low..high).key_points(BoldPoints(count));
        Self::ticked(title, low, high, marks.into_iter().map(|mark| (mark, label(mark))).collect())
    }

    /// A linear axis with these ticks.
    pub(in crate::html) fn ticked(title: &str, low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        Self { title: title.into(), scale: Scale::Linear, low, high, ticks, room: FIGURES_PX }
    }

    /// A vertical axis with a name at each of 0, 1, 2... from the top; what is named first stands at 0. Values are minus the place.
    pub(in crate::html) fn names(names: &[String]) -> Self {
        let letters = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let most = NAMES_PX / LETTER_PX;
        let cut = |name: &String| match name.char_indices().nth(most) {
            Some((end, _)) => format!("{}…", &name[..end]),
            None => name.clone(),
        };
        let ticks = names.iter().enumerate().map(|(i, name)| (-(i as f64), cut(name))).collect();
        let room = (letters.min(most + 1) * LETTER_PX) as i32 + 20;
        let low = -(names.len().max(1) as f64) + 0.4;
        Self { title: String::new(), scale: Scale::Linear, low, high: 0.6, ticks, room }
    }

    /// Where a value stands, in the coordinates that plotters is given; what lies beyond an end stands there.
    pub(super) fn place(&self, value: f64) -> f64 {
        let within = value.clamp(self.low, self.high);
        match self.scale {
            Scale::Linear => within,
            Scale::Log => within.log10(),
        }
    }

    /// The coordinates of the two ends.
    pub(super) fn range(&self) -> std::ops::Range<f64> {
        self.place(self.low)..self.place(self.high)
    }

    /// The coordinates of the ticks.
    fn marks(&self) -> Vec<f64> {
        self.ticks.iter().map(|(value, _)| self.place(*value)).collect()
    }

    /// The label of the tick at these coordinates.
    pub(super) fn label(&self, place: f64) -> String {
        let near = |(value, _): &&(f64, String)| (self.place(*value) - place).abs() < 1e-9;
        self.ticks.iter().find(near).map_or(String::new(), |(_, label)| label.clone())
    }
}

/// An axis as plotters wants it: evenly laid out coordinates, with the axis' own ticks.
pub(super) struct Ticked {
    even: RangedCoordf64,
    marks: Vec<f64>,
}

impl From<&Axis> for Ticked {
    fn from(axis: &Axis) -> Self {
        Self { even: axis.range().into(), marks: axis.marks() }
    }
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn range(&self) -> std::ops::Range<f64> {
        self.even.range()
    }

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.even.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }
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

    proptest! {
        #[test]
        fn all_values_are_within_and_there_are_ticks(values in prop::collection::vec(1.0f64..1e12, 1..20)) {
            let axis = Axis::log_ns("", values.iter().copied()).unwrap();
            prop_assert!(axis.low < axis.high);
            prop_assert!(values.iter().all(|v| *v >= axis.low * 0.999 && *v <= axis.high * 1.001));
            prop_assert!((1..=40).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            prop_assert!(axis.marks().iter().all(|mark| !axis.label(*mark).is_empty()));
        }
    }
}

//! Bars of time, one below the other.

use crate::document::{Axis, Point};
use crate::format::units;

/// An axis of times.
pub(super) fn axis(title: &str, low: f64, high: f64) -> Axis {
    Axis::linear(title, low, high, 8, &|value| units::exact(value))
}

/// A piece of the bar of this row, what is said of it and its tag.
pub(super) fn bar(row: i32, (from, to): (f64, f64), says: String, tag: String) -> Point {
    let (x, y) = (f64::midpoint(from, to), -f64::from(row));
    Point { x, y, says, span: Some((from, to)), tag: Some(tag), ..Point::default() }
}

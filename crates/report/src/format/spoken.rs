//! Figures within a sentence: the number and its unit stay on one line.

use super::prose::unbroken;
use super::units::{self, Whole};

/// `71.2 µs`.
pub(crate) fn duration(ns: impl Whole) -> String {
    unbroken(&units::duration(ns))
}

/// A computed duration.
pub(crate) fn fine(ns: f64) -> String {
    unbroken(&units::duration_fine(ns))
}

/// A duration that someone typed.
pub(crate) fn exact(ns: impl Whole) -> String {
    unbroken(&units::exact(ns))
}

/// A share in per cent.
pub(crate) fn share(share: f64) -> String {
    unbroken(&units::share(share))
}

/// `24.7 instead of 74.2 µs`, on one line; with both units where they differ.
pub(crate) fn instead(after: i64, before: i64) -> String {
    let (after, before) = (units::duration(after), units::duration(before));
    let after = match (after.split_once(' '), before.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => number,
        _ => after.as_str(),
    };
    format!("{} instead of {}", unbroken(after), unbroken(&before))
}

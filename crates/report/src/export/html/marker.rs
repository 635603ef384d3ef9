//! Marks that distinguish lines without colour: eight shapes, and four dash patterns.

use std::fmt::Write as _;

/// Shapes, as many as the style sheet has colours.
pub(super) const SHAPES: usize = 8;
/// Ways of dashing in the style sheet.
pub(super) const DASHES: usize = 4;

/// The class of the line with this number: its colour, and its dashes.
pub(super) fn class(line: usize) -> String {
    format!("s{} d{}", line % SHAPES, (line / SHAPES) % DASHES)
}

/// Appends a mark around a point to the data of a path; `half` is half its width.
pub(super) fn draw(out: &mut String, line: usize, (x, y): (i32, i32), half: i32) {
    let (h, d) = (half, half * 2);
    let part = half * 7 / 10;
    // Writing into a string does not fail.
    let _ = match line % SHAPES {
        0 => write!(out, "M{} {y}a{h} {h} 0 1 0 {d} 0a{h} {h} 0 1 0 -{d} 0z", x - h),
        1 => write!(out, "M{} {}h{d}v{d}h-{d}z", x - h, y - h),
        2 => write!(out, "M{x} {}l{h} {d}h-{d}z", y - h),
        3 => write!(out, "M{x} {}l{h} {h}l-{h} {h}l-{h} -{h}z", y - h),
        4 => write!(out, "M{x} {}l-{h} -{d}h{d}z", y + h),
        5 => write!(
            out,
            "M{} {}l{} {}m0 -{}l-{} {}",
            x - part,
            y - part,
            part * 2,
            part * 2,
            part * 2,
            part * 2,
            part * 2
        ),
        6 => write!(out, "M{} {y}h{d}M{x} {}v{d}", x - h, y - h),
        _ => write!(out, "M{} {y}l{h} -{h}v{d}z", x - h),
    };
}

/// A mark for what lies beyond the end of an axis: a cross on it.
pub(super) fn beyond((x, y): (i32, i32), half: i32) -> String {
    format!("M{} {}l{d} {d}m0 -{d}l-{d} {d}", x - half, y - half, d = half * 2)
}

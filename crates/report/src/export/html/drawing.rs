//! Axes, marks and the places of labels as SVG.
//!
//! Takes a [`Picture`]. Returns the lines behind the data, the axes and their labels, where values stand on them, and marks
//! that distinguish lines without colour: eight shapes, and four dash patterns. The page's style sheet has their looks. No label beside a mark
//! covers another or leaves the drawing.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::document::{Axis, Form, Line, Picture, Point, Row};
use crate::format::cut;

/// Units of the drawing to one pixel at its natural size: coordinates are whole, and lines are smooth.
pub(super) const FINE: i32 = 4;
/// Natural size in pixels.
const SIZE: (i32, i32) = (760, 400);
/// Pixels around the data: above, to the right, below.
const AROUND: (i32, i32, i32) = (8, 30, 54);
/// Height of a row of a picture of names.
const ROW: i32 = 26;
/// Left of the data: for figures with their units, and the most letters of a name.
const LEFT: (i32, usize) = (84, 40);
/// Beside a name: the space before it, a tick mark and what stands between them.
const BESIDE: i32 = 14;
/// A small picture's width with names of usual length, the space around the data above and below, a row, and a figure beside a row. The last
/// is the most letters of a name.
const SMALL: Small = Small { width: 400, name: 150, above: 22, below: 26, row: 21, figure: 58, letters: 24 };
/// Between the labels of a horizontal axis.
const BETWEEN: i32 = 12;
/// Length of a tick mark.
const TICK: i32 = 5;
/// Most squares across that have room for a figure each.
const FITS: f64 = 12.0;
/// Most labels of an axis whose ticks are squares.
const NUMBERED: usize = 32;

/// Sizes of a small picture, in pixels and letters.
struct Small {
    width: i32,
    name: i32,
    above: i32,
    below: i32,
    row: i32,
    figure: i32,
    letters: usize,
}

/// Where values stand, in units of the drawing.
pub(super) struct Frame<'a> {
    picture: &'a Picture,
    /// Width and height of the whole.
    pub(super) size: (i32, i32),
    /// From left to right and from top to bottom, where the data stand.
    data: [i32; 4],
    /// Most letters of a name.
    letters: usize,
}

impl<'a> Frame<'a> {
    /// The frame that the picture needs.
    pub(super) fn around(picture: &'a Picture) -> Self {
        let is_named = picture.lines.iter().any(|line| matches!(line.form, Form::Spans | Form::Bars));
        let left = if is_named { BESIDE + widest(&picture.y, LEFT.1) } else { 0 }.max(LEFT.0);
        let rows = ROW * picture.y.ticks.len() as i32;
        let height = if is_named { rows + AROUND.0 + AROUND.2 } else { SIZE.1 };
        let data = [left, SIZE.0 - AROUND.1, AROUND.0, height - AROUND.2].map(|pixels| pixels * FINE);
        Self { picture, size: (SIZE.0 * FINE, height * FINE), data, letters: LEFT.1 }
    }

    /// A small frame for rows with their figures beside them, which fits a phone.
    pub(super) fn small(picture: &'a Picture) -> Self {
        let rows = SMALL.row * picture.y.ticks.len() as i32;
        let left = BESIDE + widest(&picture.y, SMALL.letters);
        // Long names make it wider, and leave the data their room.
        let width = SMALL.width + (left - SMALL.name).max(0);
        let right = width - SMALL.figure * (picture.table.columns.len() as i32 - 1) - 4;
        let data = [left, right.max(left + SMALL.figure), SMALL.above, SMALL.above + rows].map(|pixels| pixels * FINE);
        let size = (width * FINE, (SMALL.above + rows + SMALL.below) * FINE);
        Self { picture, size, data, letters: SMALL.letters }
    }

    /// The figures beside the rows of a small picture, under their headings.
    pub(super) fn figures(&self) -> Markup {
        let count = self.picture.table.columns.len();
        let end = |column: usize| self.size.0 - (SMALL.figure * (count - 1 - column) as i32) * FINE;
        let headings = self.picture.table.columns.iter().enumerate().skip(1);
        html! {
            @for (i, column) in headings { text class="head" x=(end(i)) y=(13 * FINE) text-anchor="end" { (column.heading) } }
            @for ((place, _), row) in self.picture.y.ticks.iter().zip(&self.picture.table.rows) {
                @if let Row::Cells(cells, _) = row {
                    @for (i, cell) in cells.iter().enumerate().skip(1) {
                        text x=(end(i)) y=(self.place(self.picture.x.low, *place).1 + 4 * FINE) text-anchor="end" { (cell) }
                    }
                }
            }
        }
    }

    /// From values to units of the drawing.
    pub(super) fn place(&self, x: f64, y: f64) -> (i32, i32) {
        let [left, right, top, bottom] = self.data.map(f64::from);
        let across = left + self.picture.x.part(x) * (right - left);
        let down = bottom - self.picture.y.part(y) * (bottom - top);
        (across.round() as i32, down.round() as i32)
    }

    /// Whether the point lies within both axes.
    pub(super) fn holds(&self, point: &Point) -> bool {
        point.x <= self.picture.x.high && point.y <= self.picture.y.high
    }

    /// Whether a figure fits into a square.
    pub(super) fn fits(&self) -> bool {
        self.picture.x.high - self.picture.x.low <= FITS
    }

    /// The lines behind the data, the axes and their labels.
    pub(super) fn axes(&self) -> Markup {
        let (x, y) = (&self.picture.x, &self.picture.y);
        let [left, right, top, bottom] = self.data;
        let (mut grid, mut axis) = (String::new(), format!("M{left} {top}V{bottom}H{right}"));
        let widest = widest(x, usize::MAX);
        // The outer labels stand half outside.
        let across = (((right - left) / FINE + widest) / (widest + BETWEEN)).max(2) as usize;
        let across = across.min(NUMBERED);
        // A tick whose label has no room has its line all the same.
        for (value, _) in labelled(x, NUMBERED) {
            let at = self.place(*value, y.low).0;
            // Writing into a string does not fail.
            let _ = write!(grid, "M{at} {bottom}V{top}");
            let _ = write!(axis, "M{at} {bottom}v{}", TICK * FINE);
        }
        for (value, _) in labelled(y, NUMBERED) {
            let at = self.place(x.low, *value).1;
            let _ = write!(grid, "M{left} {at}H{right}");
            let _ = write!(axis, "M{left} {at}h-{}", TICK * FINE);
        }
        let (middle, centre) = ((left + right) / 2, (top + bottom) / 2);
        html! {
            path class="grid" d=(grid) {}
            path class="axis" d=(axis) {}
            @for (value, label) in labelled(x, across) {
                text x=(self.place(*value, y.low).0) y=(bottom + 20 * FINE) text-anchor="middle" { (label) }
            }
            @for (value, label) in labelled(y, NUMBERED) {
                text x=(left - 9 * FINE) y=(self.place(x.low, *value).1 + 4 * FINE) text-anchor="end" { (cut(label, self.letters)) }
            }
            @if !x.title.is_empty() {
                text x=(middle) y=(self.size.1 - 10 * FINE) text-anchor="middle" { (x.title) }
            }
            @if !y.title.is_empty() {
                text transform=(format!("translate({} {centre}) rotate(-90)", 16 * FINE)) text-anchor="middle" { (y.title) }
            }
        }
    }
}

/// The ticks that have room for their labels, at most `most`.
fn labelled(axis: &Axis, most: usize) -> impl Iterator<Item = &(f64, String)> {
    axis.ticks.iter().step_by(axis.ticks.len().div_ceil(most).max(1))
}

/// Width of the widest label in pixels. Longer labels are cut to this number of letters.
fn widest(axis: &Axis, letters: usize) -> i32 {
    let width = |label: &str| cut(label, letters).chars().map(width).sum::<i32>();
    let widest = axis.ticks.iter().map(|(_, label)| width(label)).max().unwrap_or(0);
    (widest + FINE - 1) / FINE
}

/// At least the width of a letter in units of the drawing. DejaVu Sans is the widest font that the page names.
fn width(letter: char) -> i32 {
    match letter {
        ' ' | '-' | '.' | ',' | ':' | ';' | '(' | ')' | '/' | 'f' | 'i' | 'j' | 'l' | 'r' | 't' => 22,
        'm' | 'w' | 'M' | 'W' | '…' => 52,
        'a'..='z' | '0'..='9' | '_' | 'µ' => 33,
        'A'..='Z' => 42,
        _ => 52,
    }
}

/// Shapes, as many as the style sheet has colours.
const SHAPES: usize = 8;
/// Ways of dashing in the style sheet.
const DASHES: usize = 4;

/// The class of the line with this number: its colour, and its dashes.
pub(super) fn class(line: usize) -> String {
    format!("s{} d{}", line % SHAPES, (line / SHAPES) % DASHES)
}

/// A mark around a point as the data of a path; `half` is half its width.
pub(super) fn mark(line: usize, (x, y): (i32, i32), half: i32) -> String {
    let (h, d) = (half, half * 2);
    match line % SHAPES {
        0 => format!("M{} {y}a{h} {h} 0 1 0 {d} 0a{h} {h} 0 1 0 -{d} 0z", x - h),
        1 => format!("M{} {}h{d}v{d}h-{d}z", x - h, y - h),
        2 => format!("M{x} {}l{h} {d}h-{d}z", y - h),
        3 => format!("M{x} {}l{h} {h}l-{h} {h}l-{h} -{h}z", y - h),
        4 => format!("M{x} {}l-{h} -{d}h{d}z", y + h),
        5 => cross((x, y), half * 7 / 10),
        6 => format!("M{} {y}h{d}M{x} {}v{d}", x - h, y - h),
        _ => format!("M{} {y}l{h} -{h}v{d}z", x - h),
    }
}

/// A cross, which also marks what lies beyond the end of an axis.
pub(super) fn cross((x, y): (i32, i32), half: i32) -> String {
    format!("M{} {}l{d} {d}m0 -{d}l-{d} {d}", x - half, y - half, d = half * 2)
}

/// Height of a name, in units of the drawing.
const HEIGHT: i32 = 13 * FINE;

/// About the width of a letter.
const LETTER: i32 = 7 * FINE;

/// From a mark to its name.
const GAP: i32 = 8 * FINE;

/// A name's place: where its text begins or ends, and which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    /// Across.
    pub(super) x: i32,
    /// The base line.
    pub(super) y: i32,
    /// Whether the text ends here rather than begins.
    pub(super) ends: bool,
}

/// A rectangle.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

impl Area {
    fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    fn is_inside(&self, size: (i32, i32)) -> bool {
        self.left >= 0 && self.top >= 0 && self.right <= size.0 && self.bottom <= size.1
    }
}

/// The places of all labels, by line and point. A label without room is left to the table and the pointer.
pub(super) fn tags(lines: &[Line], frame: &Frame<'_>) -> Vec<Vec<Option<Tag>>> {
    let mut taken: Vec<Area> = lines
        .iter()
        .flat_map(|line| line.points.iter().filter(|point| point.mark))
        .map(|point| {
            let (x, y) = frame.place(point.x, point.y);
            Area { left: x - GAP / 2, top: y - GAP / 2, right: x + GAP / 2, bottom: y + GAP / 2 }
        })
        .collect();
    let mut place = |at: (i32, i32), text: &str| {
        let width = text.chars().count() as i32 * LETTER;
        let found = candidates(at)
            .map(|tag| (tag, area(tag, width)))
            .find(|(_, area)| area.is_inside(frame.size) && !taken.iter().any(|other| other.meets(area)));
        found.map(|(tag, area)| {
            taken.push(area);
            tag
        })
    };
    let of_line = |line: &Line| -> Vec<Option<Tag>> {
        // A bar has its tag inside.
        let tag = |point: &Point| point.tag.clone().filter(|_| line.form != Form::Bars);
        line.points.iter().map(|point| place(frame.place(point.x, point.y), &tag(point)?)).collect()
    };
    lines.iter().map(of_line).collect()
}

/// Right and left of the mark, then ever further above and below it.
fn candidates((x, y): (i32, i32)) -> impl Iterator<Item = Tag> {
    let rows = [0, -1, 1, -2, 2, -3, 3, -4, 4];
    let middle = y + HEIGHT * 35 / 100;
    rows.into_iter().flat_map(move |row| {
        [false, true].map(|ends| Tag { x: if ends { x - GAP } else { x + GAP }, y: middle + row * HEIGHT, ends })
    })
}

fn area(tag: Tag, width: i32) -> Area {
    let left = if tag.ends { tag.x - width } else { tag.x };
    Area { left, top: tag.y - HEIGHT * 3 / 4, right: left + width, bottom: tag.y + HEIGHT / 4 }
}

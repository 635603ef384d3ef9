//! Places of the labels beside marks: no label covers another or leaves the drawing.

use crate::document::{Form, Line, Point};
use crate::export::html::drawing::{FINE, Frame};

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
pub(super) fn places(lines: &[Line], frame: &Frame<'_>) -> Vec<Vec<Option<Tag>>> {
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

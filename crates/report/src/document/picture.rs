//! Pictures as data: two axes, lines of points, and their figures as a table. Exporters draw them.

use super::{Axis, Table};

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
    /// How dark a cell is, 0 to 1.
    pub shade: f64,
}

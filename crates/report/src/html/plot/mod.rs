//! A picture: axes drawn by plotters, data as SVG that the page's script can read values from and switch on and off.
//!
//! In goes a [`Picture`]: two axes and lines of points in values. Out comes a `figure` with a legend of check boxes, the drawing, and
//! the figures behind it as a table. Without a script it is complete but for values under the pointer.

mod axis;
mod figure;
mod marker;
mod sheet;
mod tags;

use std::cell::RefCell;
use std::rc::Rc;

use plotters::chart::ChartBuilder;
use plotters::drawing::IntoDrawingArea as _;
use plotters::style::{IntoFont as _, TRANSPARENT};

pub(super) use axis::{Axis, ends};
pub(super) use figure::figure;

use axis::Ticked;
use sheet::{AXIS, GRID, Ink, Sheet, TEXT};

/// Units of the drawing to one pixel at its natural size: plotters places in whole units, and lines should be smooth.
pub(super) const FINE: i32 = 4;
/// Natural width in pixels.
const WIDTH: i32 = 760;
/// Natural height in pixels.
const HEIGHT: i32 = 400;
/// Height that the rows of a picture of names take, and what stands above and below them.
const ROW: (i32, i32) = (26, 80);
/// Size of letters, in pixels.
const LETTERS: f64 = 13.0;

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    /// What it shows.
    pub(super) title: String,
    /// How to read it.
    pub(super) about: String,
    /// The horizontal axis.
    pub(super) x: Axis,
    /// The vertical axis.
    pub(super) y: Axis,
    /// The lines, in the order of the legend.
    pub(super) lines: Vec<Line>,
    /// The figures behind it: headings and rows.
    pub(super) table: (Vec<String>, Vec<Vec<String>>),
}

/// One entry of the legend and its points.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Its name.
    pub(super) label: String,
    /// Whether it is shown before anybody chooses.
    pub(super) shown: bool,
    /// How its points are drawn.
    pub(super) form: Form,
    /// Its points, in order.
    pub(super) points: Vec<Point>,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
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
}

/// A point.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Point {
    /// Its place.
    pub(super) x: f64,
    /// Its place.
    pub(super) y: f64,
    /// What is said of it, beside the line's name.
    pub(super) says: String,
    /// Carries the line's mark.
    pub(super) mark: bool,
    /// Carries a ring: something disturbed it.
    pub(super) ring: bool,
    /// Text drawn beside it.
    pub(super) tag: Option<String>,
    /// Upper end of what it stands for.
    pub(super) up_to: Option<f64>,
    /// Both ends, across, of what it stands for.
    pub(super) span: Option<(f64, f64)>,
    /// How dark a cell is, 0 to 1.
    pub(super) shade: f64,
}

/// Axes, drawn, and where values stand on them.
pub(super) struct Frame {
    /// The axes as SVG elements.
    svg: String,
    /// From values to units of the drawing.
    place: Box<dyn Fn(f64, f64) -> (i32, i32)>,
    /// Width and height in units of the drawing.
    size: (i32, i32),
}

impl Frame {
    /// Draws the axes; None if plotters refuses, which it does for nothing that an [`Axis`] can be.
    pub(super) fn of(picture: &Picture) -> Option<Self> {
        let (x, y) = (&picture.x, &picture.y);
        let spans = picture.lines.iter().any(|line| line.form == Form::Spans);
        let height = if spans { ROW.0 * y.ticks.len() as i32 + ROW.1 } else { HEIGHT };
        let size = (WIDTH * FINE, height * FINE);
        let (sheet, ink): (Sheet, Rc<RefCell<Ink>>) = Sheet::new((size.0 as u32, size.1 as u32));
        let letters = ("sans-serif", LETTERS * f64::from(FINE));
        let (x, y) = (x.clone(), y.clone());
        let place = {
            let area = sheet.into_drawing_area();
            let mut chart = ChartBuilder::on(&area)
                .margin(8 * FINE)
                .margin_right(30 * FINE)
                .x_label_area_size(46 * FINE)
                .y_label_area_size(y.room * FINE)
                .build_cartesian_2d(Ticked::from(&x), Ticked::from(&y))
                .ok()?;
            chart
                .configure_mesh()
                .x_labels(x.ticks.len().max(1))
                .y_labels(y.ticks.len().max(1))
                .bold_line_style(GRID)
                .light_line_style(TRANSPARENT)
                .axis_style(AXIS)
                .label_style(letters.into_font().color(&TEXT))
                .axis_desc_style(letters.into_font().color(&TEXT))
                .set_all_tick_mark_size(5 * FINE)
                .x_label_formatter(&|at| x.label(*at))
                .y_label_formatter(&|at| y.label(*at))
                .x_desc(x.title.clone())
                .y_desc(y.title.clone())
                .draw()
                .ok()?;
            let (left, top) = chart.backend_coord(&(x.range().start, y.range().end));
            let (right, bottom) = chart.backend_coord(&(x.range().end, y.range().start));
            let (x, y) = (x.clone(), y.clone());
            Box::new(move |at_x: f64, at_y: f64| {
                let part = |axis: &Axis, at: f64| {
                    let range = axis.range();
                    (axis.place(at) - range.start) / (range.end - range.start)
                };
                let across = f64::from(left) + part(&x, at_x) * f64::from(right - left);
                let down = f64::from(bottom) + part(&y, at_y) * f64::from(top - bottom);
                (across.round() as i32, down.round() as i32)
            })
        };
        let svg = ink.borrow().svg();
        Some(Self { svg, place, size })
    }
}

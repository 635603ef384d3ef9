//! The sheet that plotters draws axes on: SVG whose looks are left to the page's style sheet.
//!
//! plotters knows colours, a page that is light or dark knows roles. So three colours stand for three roles ([`GRID`],
//! [`AXIS`], [`TEXT`]), and what is drawn in them becomes an element of that class. Lines of one role become one path.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;

use plotters::style::RGBColor;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontTransform,
};

/// Stands for the lines behind the data.
pub(super) const GRID: RGBColor = RGBColor(1, 0, 0);
/// Stands for the axes.
pub(super) const AXIS: RGBColor = RGBColor(2, 0, 0);
/// Stands for text.
pub(super) const TEXT: RGBColor = RGBColor(3, 0, 0);

/// What was drawn.
#[derive(Debug, Default)]
pub(super) struct Ink {
    grid: String,
    axis: String,
    text: String,
}

impl Ink {
    /// The drawing as SVG elements; every text in it is escaped.
    pub(super) fn svg(&self) -> String {
        format!("<path class=\"grid\" d=\"{}\"/><path class=\"axis\" d=\"{}\"/>{}", self.grid, self.axis, self.text)
    }

    fn lines(&mut self, color: BackendColor) -> Option<&mut String> {
        if color.alpha == 0.0 {
            return None;
        }
        Some(if color.rgb == (GRID.0, GRID.1, GRID.2) { &mut self.grid } else { &mut self.axis })
    }
}

/// The backend.
#[derive(Debug)]
pub(super) struct Sheet {
    size: (u32, u32),
    ink: Rc<RefCell<Ink>>,
}

impl Sheet {
    /// An empty sheet of this size, and what will have been drawn on it.
    pub(super) fn new(size: (u32, u32)) -> (Self, Rc<RefCell<Ink>>) {
        let ink = Rc::new(RefCell::new(Ink::default()));
        (Self { size, ink: Rc::clone(&ink) }, ink)
    }
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// Writing into a string does not fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

impl DrawingBackend for Sheet {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.draw_line((x, y), (x + 1, y), &color)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        (to_x, to_y): BackendCoord,
        style: &S,
        _: bool,
    ) -> Drawn {
        self.draw_path([(x, y), (to_x, y), (to_x, to_y), (x, to_y), (x, y)], style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        if let Some(out) = self.ink.borrow_mut().lines(style.color()) {
            for (i, (x, y)) in path.into_iter().enumerate() {
                put(out, format_args!("{}{x} {y}", if i == 0 { 'M' } else { 'L' }));
            }
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        self.draw_path(path, style)
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, (x, y): BackendCoord) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // From the anchor to the base line of the letters, in parts of their size.
        let down = match style.anchor().v_pos {
            VPos::Top => 0.78,
            VPos::Center => 0.35,
            VPos::Bottom => -0.22,
        } * style.size();
        let down = down.round();
        let turn = match style.transform() {
            FontTransform::None => String::new(),
            FontTransform::Rotate90 => format!(" transform=\"rotate(90 {x} {y})\""),
            FontTransform::Rotate180 => format!(" transform=\"rotate(180 {x} {y})\""),
            FontTransform::Rotate270 => format!(" transform=\"rotate(270 {x} {y})\""),
        };
        let text = maud::html! { (text) }.into_string();
        put(
            &mut self.ink.borrow_mut().text,
            format_args!("<text x=\"{x}\" y=\"{y}\" dy=\"{down}\" text-anchor=\"{anchor}\"{turn}>{text}</text>"),
        );
        Ok(())
    }

    /// Without font files only an estimate: figures and lower-case letters of common sans-serif fonts are about half as
    /// wide as high.
    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let width = text.chars().count() as f64 * style.size() * 0.52;
        Ok((width.round() as u32, style.size().round() as u32))
    }
}

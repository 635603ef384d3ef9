//! A table as data: columns, rows, and the priority of columns when space is short.

use std::borrow::Cow;

use super::Paint;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading. Sanitize text from a run.
    pub heading: Cow<'static, str>,
    /// Alignment of its cells.
    pub align: Align,
    /// Priority when space is short: the lowest is dropped first; [`Column::ALWAYS`] stays.
    pub keep: u8,
    /// Joined to the previous column: one space between them rather than two, and both are dropped together.
    pub joined: bool,
    /// A heading that it shares with its neighbours, above its own; empty: none.
    pub over: String,
}

impl Column {
    /// For `keep`: never dropped, only truncated as a last resort.
    pub const ALWAYS: u8 = u8::MAX;

    /// A column of text.
    #[must_use]
    pub const fn left(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Left, keep, joined: false, over: String::new() }
    }

    /// A column of figures.
    #[must_use]
    pub const fn right(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Right, keep, joined: false, over: String::new() }
    }

    /// A column of small drawings: each cell is a bar for each letter, from `▁` to `█`.
    #[must_use]
    pub const fn drawn(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Drawn, keep, joined: false, over: String::new() }
    }

    /// A column whose heading comes from the run.
    #[must_use]
    pub fn named(heading: String, align: Align, keep: u8) -> Self {
        Self { heading: Cow::Owned(heading), align, keep, joined: false, over: String::new() }
    }

    /// Under a heading that it shares with its neighbours.
    #[must_use]
    pub(crate) fn over(mut self, heading: &str) -> Self {
        heading.clone_into(&mut self.over);
        self
    }

    /// A column that explains the one before it.
    #[must_use]
    pub const fn joined(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Left, keep, joined: true, over: String::new() }
    }
}

/// To which side cells are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Figures.
    Right,
    /// Drawings, which need letters of one width; as text.
    Drawn,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// One cell per column, and how they look. Cells are printed as they are: neutralise what comes from a run.
    Cells(Vec<String>, Paint),
    /// A line across all columns that heads the rows below it.
    Label(String),
}

impl Row {
    /// A row of plain text.
    #[must_use]
    pub fn plain(cells: Vec<String>) -> Self {
        Self::Cells(cells, Paint::Plain)
    }
}

/// Columns and rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// The rows, from the top; each has a cell for each column, missing ones count as empty.
    pub rows: Vec<Row>,
}

impl Table {
    /// A table of few columns, all of which stay: text in the first, figures in the others.
    #[must_use]
    pub fn of(headings: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        let column = |(i, heading): (usize, &&'static str)| match i {
            0 => Column::left(heading, Column::ALWAYS),
            _ => Column::right(heading, Column::ALWAYS),
        };
        let columns = headings.iter().enumerate().map(column).collect();
        Self { columns, rows: rows.into_iter().map(Row::plain).collect() }
    }
}

//! A table for a terminal: aligned columns, one line per row, never wrapped.
//!
//! Where the terminal is too narrow, whole columns go, in an order that the table's maker gives, and the caller is told
//! which. The alignment is done here rather than by a table crate: those fit a table by wrapping or truncating cells,
//! and what is needed is dropping columns and rows that stay one line; what is left to do is padding.

use std::borrow::Cow;

use textwrap::core::display_width;

use crate::plain::cut;
use crate::style::{Paint, Style};

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What stands above it. Neutralise what comes from a run.
    pub heading: Cow<'static, str>,
    /// To which side its cells are pushed.
    pub align: Align,
    /// When it goes where space is short: the lowest first; [`Column::ALWAYS`] stays.
    pub keep: u8,
    /// Belongs to the column before it: one space between them rather than two, and it goes when that one goes.
    pub joined: bool,
}

impl Column {
    /// For `keep`: never dropped, only cut off where nothing else helps.
    pub const ALWAYS: u8 = u8::MAX;

    /// A column of text.
    #[must_use]
    pub const fn left(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Left, keep, joined: false }
    }

    /// A column of figures.
    #[must_use]
    pub const fn right(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Right, keep, joined: false }
    }

    /// A column whose heading comes from the run.
    #[must_use]
    pub fn named(heading: String, align: Align, keep: u8) -> Self {
        Self { heading: Cow::Owned(heading), align, keep, joined: false }
    }

    /// A column that explains the one before it.
    #[must_use]
    pub const fn joined(heading: &'static str, keep: u8) -> Self {
        Self { heading: Cow::Borrowed(heading), align: Align::Left, keep, joined: true }
    }
}

/// To which side cells are pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Figures.
    Right,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// One cell per column, and how they look. Cells are printed as they are: neutralise what comes from a run.
    Cells(Vec<String>, Paint),
    /// A line across all columns that heads the rows below it.
    Label(String),
}

/// Columns and rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// The rows, from the top; each has a cell for each column, missing ones count as empty.
    pub rows: Vec<Row>,
}

/// A table as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The lines, each at most as wide as the style says, before colour.
    pub text: String,
    /// The columns that found no room, by their headings; a joined one with that of the column it explains.
    pub dropped: Vec<String>,
}

const INDENT: usize = 2;

impl Table {
    /// The table within the style's columns.
    #[must_use]
    pub fn render(&self, style: &Style) -> Rendered {
        let widths = self.widths();
        let shown = self.shown(&widths, style.columns());
        let widths = self.squeezed(widths, &shown, style.columns());
        let dropped = (0..self.columns.len()).filter(|i| !shown.contains(i)).map(|i| self.full_heading(i)).collect();
        let mut text = String::new();
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading.to_string()).collect();
        text.push_str(&style.paint(Paint::Faint, &self.line(&headings, &shown, &widths, style)));
        text.push('\n');
        for row in &self.rows {
            match row {
                Row::Cells(cells, paint) => {
                    text.push_str(&style.paint(*paint, &self.line(cells, &shown, &widths, style)));
                }
                Row::Label(label) => {
                    let line = cut(&format!("{:INDENT$}{label}", ""), style.columns(), style);
                    text.push_str(&style.paint(Paint::Faint, &line));
                }
            }
            text.push('\n');
        }
        Rendered { text, dropped }
    }

    fn full_heading(&self, column: usize) -> String {
        let heading = &self.columns[column].heading;
        match column.checked_sub(1).filter(|_| self.columns[column].joined) {
            Some(owner) => format!("{} {heading}", self.columns[owner].heading),
            None => heading.to_string(),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |i: usize| {
            self.rows.iter().filter_map(move |row| match row {
                Row::Cells(cells, _) => cells.get(i).map(|cell| display_width(cell)),
                Row::Label(_) => None,
            })
        };
        (0..self.columns.len())
            .map(|i| widest(i).chain([display_width(&self.columns[i].heading)]).max().unwrap_or(0))
            .collect()
    }

    /// The columns that fit, by their index.
    fn shown(&self, widths: &[usize], room: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        while self.total(widths, &shown) > room {
            let goes = shown.iter().copied().filter(|&i| self.columns[i].keep != Column::ALWAYS);
            let Some(goes) = goes.min_by_key(|&i| self.columns[i].keep) else { break };
            shown.retain(|&i| i != goes && !(i == goes + 1 && self.columns[i].joined));
        }
        shown
    }

    fn total(&self, widths: &[usize], shown: &[usize]) -> usize {
        let gaps: usize = shown.iter().enumerate().map(|(place, &i)| self.gap(place, i)).sum();
        shown.iter().map(|&i| widths[i]).sum::<usize>() + gaps
    }

    fn gap(&self, place: usize, column: usize) -> usize {
        if place == 0 || !self.columns[column].joined { INDENT } else { 1 }
    }

    /// Text columns made narrower, the widest first, where the columns that always stay do not fit.
    fn squeezed(&self, mut widths: Vec<usize>, shown: &[usize], room: usize) -> Vec<usize> {
        const LEAST: usize = 6;
        while self.total(&widths, shown) > room {
            let text = shown.iter().copied().filter(|&i| self.columns[i].align == Align::Left && widths[i] > LEAST);
            let Some(widest) = text.max_by_key(|&i| widths[i]) else { break };
            widths[widest] -= 1;
        }
        widths
    }

    fn line(&self, cells: &[String], shown: &[usize], widths: &[usize], style: &Style) -> String {
        let mut line = String::new();
        for (place, &i) in shown.iter().enumerate() {
            let cell = cut(cells.get(i).map_or("", String::as_str), widths[i], style);
            let padding = " ".repeat(widths[i].saturating_sub(display_width(&cell)));
            line.push_str(&" ".repeat(self.gap(place, i)));
            match self.columns[i].align {
                Align::Left => line.extend([cell, padding]),
                Align::Right => line.extend([padding, cell]),
            }
        }
        cut(line.trim_end(), style.columns(), style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(name: &str) -> Table {
        Table {
            columns: vec![
                Column::left("method", Column::ALWAYS),
                Column::right("p50", Column::ALWAYS),
                Column::joined("[95 %]", 1),
                Column::right("max", 2),
            ],
            rows: vec![
                Row::Cells(vec![name.into(), "41 ns".into(), "[40 42]".into(), "1.20 ms".into()], Paint::Plain),
                Row::Label("rounds to 1 ms".into()),
            ],
        }
    }

    #[test]
    fn the_lowest_goes_first_and_is_named() {
        let wide = table("spin").render(&Style { width: 80, ..Style::default() });
        assert_eq!(wide.dropped, Vec::<String>::new());
        assert_eq!(wide.text, "  method    p50 [95 %]       max\n  spin    41 ns [40 42]  1.20 ms\n  rounds to 1 ms\n");
        let long = "a_name_of_twenty_chr";
        let narrow = table(long).render(&Style { width: 40, ..Style::default() });
        assert_eq!(narrow.dropped, ["p50 [95 %]"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(name in "\\PC{0,200}", width in 0usize..200) {
            let style = Style { width, ..Style::default() };
            for line in table(&name).render(&style).text.lines() {
                prop_assert!(display_width(line) <= style.columns());
            }
        }
    }
}

//! A table for a terminal: aligned columns, one line per row, never wrapped.
//!
//! If the terminal is too narrow, whole columns are dropped by priority, and the caller gets their names. Table crates
//! wrap or truncate cells instead, and rows must stay one line. What remains is padding.

use std::collections::BTreeSet;

use textwrap::core::display_width;

use super::style::Style;
use super::style::{cut, cut_inside};
use crate::document::{Align, Column, Paint, Row, Table};

/// A table as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    /// The lines, each at most as wide as the style says, before colour.
    pub(super) text: String,
    /// The columns that found no room, by their headings; a joined one with that of the column it explains.
    pub(super) dropped: Vec<String>,
}

const INDENT: usize = 2;

/// The text, cut to this number of terminal columns.
type Cut = fn(&str, usize, &Style) -> String;

impl Table {
    /// The table within the style's columns.
    pub(super) fn render(&self, style: &Style) -> Rendered {
        if style.unicode { self.laid_out(style) } else { self.spelled(style).laid_out(style) }
    }

    fn laid_out(&self, style: &Style) -> Rendered {
        let widths = self.widths();
        let shown = self.shown(&widths, style.columns());
        let widths = self.squeezed(widths, &shown, style.columns());
        let cuts: Vec<Cut> = widths.iter().enumerate().map(|(i, width)| self.cut(i, *width, style)).collect();
        let dropped = (0..self.columns.len()).filter(|i| !shown.contains(i)).map(|i| self.full_heading(i)).collect();
        let across = |text: &str| {
            let line = format!("{:INDENT$}{text}", "").replace('\u{a0}', " ");
            style.paint(Paint::Faint, &cut(&line, style.columns(), style))
        };
        let line = |cells: &[String]| self.line(cells, &shown, (&widths, &cuts), style);
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading.to_string()).collect();
        let headings = self.shared_headings(&shown, &widths, style).into_iter().chain([line(&headings)]);
        let headings = headings.map(|heading| style.paint(Paint::Faint, &heading));
        let rows = self.rows.iter().map(|row| match row {
            Row::Cells(cells, paint) => style.paint(*paint, &line(cells)),
            Row::Label(label) => across(label),
        });
        let rest = self.rest().map(|rest| across(&style.spelled(&rest)));
        let text = headings.chain(rows).chain(rest).map(|line| line + "\n").collect();
        Rendered { text, dropped }
    }

    /// The same in ASCII, where the style asks for it.
    fn spelled(&self, style: &Style) -> Self {
        let cells = |cells: &[String]| cells.iter().map(|cell| style.spelled(cell).into_owned()).collect();
        let row = |row: &Row| match row {
            Row::Cells(content, paint) => Row::Cells(cells(content), *paint),
            Row::Label(label) => Row::Label(style.spelled(label).into_owned()),
        };
        let column = |column: &Column| Column {
            heading: style.spelled(&column.heading).into_owned().into(),
            over: style.spelled(&column.over).into_owned(),
            ..column.clone()
        };
        let rows = self.rows.iter().map(row).collect();
        Self { columns: self.columns.iter().map(column).collect(), rows, ranking: self.ranking.clone() }
    }

    fn full_heading(&self, column: usize) -> String {
        let heading = &self.columns[column].heading;
        match column.checked_sub(1).filter(|_| self.columns[column].joined) {
            Some(owner) => format!("{} {heading}", self.columns[owner].heading),
            None => heading.to_string(),
        }
    }

    fn widths(&self) -> Vec<usize> {
        let texts = |i: usize| self.cells(i).chain([self.columns[i].heading.as_ref()]);
        (0..self.columns.len()).map(|i| texts(i).map(display_width).max().unwrap_or(0)).collect()
    }

    /// The cells of a column.
    fn cells(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| match row {
            Row::Cells(cells, _) => cells.get(column).map(String::as_str),
            Row::Label(_) => None,
        })
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

    /// The headings that columns share, centred over them; `None` where none do.
    fn shared_headings(&self, shown: &[usize], widths: &[usize], style: &Style) -> Option<String> {
        let mut line = String::new();
        let mut place = 0;
        for group in shown.chunk_by(|&a, &b| self.columns[a].over == self.columns[b].over) {
            let over = self.columns[group[0]].over.as_str();
            let gaps: usize = (place..).zip(group).map(|(place, &i)| self.gap(place, i)).sum();
            let width = gaps + group.iter().map(|&i| widths[i]).sum::<usize>();
            let text = cut(over, width, style);
            let right = if group.len() > 1 { (width - display_width(&text)) / 3 } else { 0 };
            let left = width - display_width(&text) - right;
            line.extend([" ".repeat(left), text, " ".repeat(right)]);
            place += group.len();
        }
        (!line.trim().is_empty()).then(|| cut(line.trim_end(), style.columns(), style))
    }

    /// How the cells of a column are cut: different ones stay different.
    fn cut(&self, column: usize, width: usize, style: &Style) -> Cut {
        let cells: BTreeSet<&str> = self.cells(column).collect();
        let seen: BTreeSet<String> = cells.iter().map(|cell| cut(cell, width, style)).collect();
        if seen.len() < cells.len() { cut_inside } else { cut }
    }

    fn line(&self, cells: &[String], shown: &[usize], (widths, cuts): (&[usize], &[Cut]), style: &Style) -> String {
        let mut line = String::new();
        for (place, &i) in shown.iter().enumerate() {
            let cell = cuts[i](cells.get(i).map_or("", String::as_str), widths[i], style);
            let padding = " ".repeat(widths[i].saturating_sub(display_width(&cell)));
            line.push_str(&" ".repeat(self.gap(place, i)));
            match self.columns[i].align {
                Align::Left | Align::Drawn => line.extend([cell, padding]),
                Align::Right => line.extend([padding, cell]),
            }
        }
        cut(&line.trim_end().replace('\u{a0}', " "), style.columns(), style)
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
            ranking: None,
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

    #[test]
    fn names_that_end_differently_stay_different() {
        let row =
            |name: &str| Row::Cells(vec![name.into(), "41 ns".into(), String::new(), String::new()], Paint::Plain);
        let lines = |names: [&str; 2]| -> Vec<String> {
            let both = Table { rows: names.map(row).into(), ..table("") };
            let text = both.render(&Style { width: 40, ..Style::default() }).text;
            text.lines().skip(1).map(str::to_owned).collect()
        };
        assert_eq!(
            lines(["clock_nanosleep_abs, SCHED_FIFO 10", "clock_nanosleep_abs, SCHED_FIFO 40"]),
            ["  clock_nanosleep…, SCHED_FIFO 10  41 ns", "  clock_nanosleep…, SCHED_FIFO 40  41 ns"]
        );
        let plain = lines(["clock_nanosleep_abs, SCHED_FIFO 10", "nanosleep"]);
        assert_eq!(plain[0], "  clock_nanosleep_abs, SCHED_FIF…  41 ns", "only where it is needed");
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

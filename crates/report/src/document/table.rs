//! A table as data: columns, rows, and the priority of columns when space is short. [`Columns`] defines it column by column, so
//! that heading, priority and cell of a column stand in one line.

use std::borrow::Cow;

use punctual_record::{Interval, Key, Summary};

use super::Paint;
use crate::format::units::{self, Whole};

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
    pub fn left(heading: &'static str, keep: u8) -> Self {
        Self::new(heading, Align::Left, keep)
    }

    /// A column of figures.
    #[must_use]
    pub fn right(heading: &'static str, keep: u8) -> Self {
        Self::new(heading, Align::Right, keep)
    }

    /// A column of small drawings: each cell is a bar for each letter, from `▁` to `█`.
    #[must_use]
    pub fn drawn(heading: &'static str, keep: u8) -> Self {
        Self::new(heading, Align::Drawn, keep)
    }

    /// A column of its own, under a heading that may come from the run.
    #[must_use]
    pub fn new(heading: impl Into<Cow<'static, str>>, align: Align, keep: u8) -> Self {
        Self { heading: heading.into(), align, keep, joined: false, over: String::new() }
    }

    /// A column that explains the one before it.
    #[must_use]
    pub fn joined(heading: &'static str, keep: u8) -> Self {
        Self { joined: true, ..Self::left(heading, keep) }
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
    /// How a first screen leaves rows out; absent: from the end, without a word.
    pub ranking: Option<Ranking>,
}

/// What a first screen leaves out of a table, and what it says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// What the rows are ranked by.
    pub by: String,
    /// The name of each row and its figure, in the order of the figures.
    pub figures: Vec<(String, String)>,
    /// The names of the rows that stay: a sentence names them.
    pub named: Vec<String>,
    /// The names of the rows that were left out.
    pub left_out: Vec<String>,
    /// How many of its first cells name a row; 0 counts as 1.
    pub cells: usize,
    /// What is said of rows without a figure, where something is: `without a shown difference`.
    pub without: &'static str,
}

impl Ranking {
    /// `5 more, 80.1 µs to 3.01 ms (p50)`; `9 more: 2 by −12 % to +86 % (change), 7 without a shown difference`.
    fn rest(&self) -> Option<String> {
        let left_out = self
            .figures
            .iter()
            .filter(|(name, figure)| self.left_out.contains(name) && !figure.is_empty() && figure != units::ABSENT);
        let known: Vec<&str> = left_out.map(|(_, figure)| figure.as_str()).collect();
        let (by, without, all) = (&self.by, self.without, self.left_out.len());
        let range = match (known.first(), known.last()) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last} ({by})"),
            (Some(only), _) => format!("{only} ({by})"),
            (None, _) => String::new(),
        };
        let unknown = if without.is_empty() { 0 } else { all.saturating_sub(known.len()) };
        (all > 0).then(|| match (known.len(), unknown) {
            (0, 0) => format!("{all} more"),
            (_, 0) => format!("{all} more, {range}"),
            (0, _) => format!("{all} more {without}"),
            (known, unknown) => format!("{all} more: {known} by {range}, {unknown} {without}"),
        })
    }

    /// What the row with these cells is called.
    fn name(&self, cells: &[String]) -> String {
        cells[..self.cells.max(1).min(cells.len())].join(" ")
    }
}

impl Table {
    /// Sorted by this column; these rows stay on a first screen.
    #[must_use]
    pub(crate) fn ranked(self, by: &str, named: Vec<String>) -> Self {
        let at = self.columns.iter().position(|column| column.heading == by).unwrap_or(0);
        let figure = |row: &Row| match row {
            Row::Cells(cells, _) => Some((cells.first()?.clone(), cells.get(at)?.clone())),
            Row::Label(_) => None,
        };
        let figures = self.rows.iter().filter_map(figure).collect();
        self.ranked_by(by, figures, named)
    }

    /// Ranked by these figures, given in their order with the names of their rows.
    #[must_use]
    pub(crate) fn ranked_by(mut self, by: &str, figures: Vec<(String, String)>, named: Vec<String>) -> Self {
        self.ranking = Some(Ranking { by: by.to_owned(), figures, named, ..Ranking::default() });
        self
    }

    /// Leaves out the last row that no sentence names. Returns whether there was one beside this many.
    pub(crate) fn leave_one_out(&mut self, least: usize) -> bool {
        if self.rows.len() <= least {
            return false;
        }
        let Some(ranking) = &mut self.ranking else {
            self.rows.pop();
            // A line that heads no row says nothing.
            while let Some(Row::Label(_)) = self.rows.last() {
                self.rows.pop();
            }
            return true;
        };
        let spare = |row: &Row| match row {
            Row::Cells(cells, _) => !ranking.named.contains(&ranking.name(cells)),
            Row::Label(_) => false,
        };
        let Some(at) = self.rows.iter().rposition(spare) else { return false };
        if let Row::Cells(cells, _) = self.rows.remove(at) {
            ranking.left_out.push(ranking.name(&cells));
        }
        true
    }

    /// The line that stands for the rows that were left out.
    pub(crate) fn rest(&self) -> Option<String> {
        self.ranking.as_ref()?.rest()
    }

    /// A table of few columns, all of which stay: text in the first, figures in the others.
    #[must_use]
    pub fn plain(headings: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        let column = |(i, heading): (usize, &&'static str)| match i {
            0 => Column::left(heading, Column::ALWAYS),
            _ => Column::right(heading, Column::ALWAYS),
        };
        let columns = headings.iter().enumerate().map(column).collect();
        Self { columns, rows: rows.into_iter().map(Row::plain).collect(), ranking: None }
    }
}

/// The columns of a table whose rows are of `T`s.
pub(crate) struct Columns<'f, T> {
    columns: Vec<(Column, Cell<'f, T>)>,
}

type Cell<'f, T> = Box<dyn Fn(&T) -> String + 'f>;

impl<'f, T> Columns<'f, T> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { columns: Vec::new() }
    }

    /// A column made by hand.
    pub(crate) fn column(mut self, column: Column, cell: impl Fn(&T) -> String + 'f) -> Self {
        self.columns.push((column, Box::new(cell)));
        self
    }

    /// Text.
    pub(crate) fn left(self, heading: &'static str, keep: u8, cell: impl Fn(&T) -> String + 'f) -> Self {
        self.column(Column::left(heading, keep), cell)
    }

    /// A figure in words of its own.
    pub(crate) fn right(self, heading: &'static str, keep: u8, cell: impl Fn(&T) -> String + 'f) -> Self {
        self.column(Column::right(heading, keep), cell)
    }

    /// A figure that may be absent.
    pub(crate) fn known<F>(
        self,
        heading: &'static str,
        keep: u8,
        figure: impl Fn(&T) -> Option<F> + 'f,
        show: impl Fn(F) -> String + 'f,
    ) -> Self {
        self.right(heading, keep, move |row| units::or_absent(figure(row), &show))
    }

    /// A duration.
    pub(crate) fn ns<N: Whole + 'f>(
        self,
        heading: &'static str,
        keep: u8,
        figure: impl Fn(&T) -> Option<N> + 'f,
    ) -> Self {
        self.known(heading, keep, figure, units::duration)
    }

    /// Durations of a summary, each with its place when space is short. The last word of a heading is the name of its figure:
    /// `p99`, `late p99`.
    pub(crate) fn summary<const N: usize>(
        self,
        figures: [(&'static str, u8); N],
        summary: impl Fn(&T) -> Option<&Summary> + Copy + 'f,
    ) -> Self {
        figures.into_iter().fold(self, |columns, (heading, keep)| {
            let key = heading.rsplit(' ').next().and_then(Key::named);
            columns.ns(heading, keep, move |row| key?.figure(summary(row)?))
        })
    }

    /// A computed duration.
    pub(crate) fn fine(self, heading: &'static str, keep: u8, figure: impl Fn(&T) -> Option<f64> + 'f) -> Self {
        self.known(heading, keep, figure, units::duration_fine)
    }

    /// A count.
    pub(crate) fn count(self, heading: &'static str, keep: u8, figure: impl Fn(&T) -> Option<u64> + 'f) -> Self {
        self.known(heading, keep, figure, units::count)
    }

    /// A share from 0 to 1.
    pub(crate) fn share(self, heading: &'static str, keep: u8, figure: impl Fn(&T) -> Option<f64> + 'f) -> Self {
        self.known(heading, keep, figure, units::share)
    }

    /// A duration with its 95 % confidence interval, which goes at `keep_interval`.
    pub(crate) fn estimate(
        self,
        heading: &'static str,
        (keep, keep_interval): (u8, u8),
        figure: impl Fn(&T) -> (Option<i64>, Option<Interval>) + Copy + 'f,
    ) -> Self {
        let interval = move |row: &T| match figure(row) {
            (Some(figure), Some(interval)) => units::interval_like(interval, figure),
            _ => String::new(),
        };
        self.ns(heading, keep, move |row| figure(row).0).column(Column::joined("[95 %]", keep_interval), interval)
    }

    /// Context switches per operation: own and forced.
    pub(crate) fn switches(
        self,
        heading: &'static str,
        keep: u8,
        figure: impl Fn(&T) -> (Option<f64>, Option<f64>) + 'f,
    ) -> Self {
        let show = |(own, forced): (f64, f64)| format!("{}+{}", units::per_op(own), units::per_op(forced));
        self.known(heading, keep, move |row| figure(row).0.zip(figure(row).1), show)
    }

    /// Adds columns where they are needed.
    pub(crate) fn when(self, needed: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if needed { more(self) } else { self }
    }

    /// Adds columns that share a heading above their own.
    pub(crate) fn over(self, heading: &str, more: impl FnOnce(Self) -> Self) -> Self {
        let before = self.columns.len();
        let mut all = more(self);
        all.columns[before..].iter_mut().for_each(|(column, _)| heading.clone_into(&mut column.over));
        all
    }

    /// Drops the last column unless it is needed.
    pub(crate) fn only_if(mut self, needed: bool) -> Self {
        if !needed {
            self.columns.pop();
        }
        self
    }

    /// A row.
    pub(crate) fn row(&self, of: &T, paint: Paint) -> Row {
        Row::Cells(self.columns.iter().map(|(_, cell)| cell(of)).collect(), paint)
    }

    /// A table of these rows.
    pub(crate) fn table(&self, rows: Vec<Row>) -> Table {
        Table { columns: self.columns.iter().map(|(column, _)| column.clone()).collect(), rows, ranking: None }
    }

    /// A table with a plain row for each of the first, and a line that counts the others.
    pub(crate) fn first(&self, most: usize, rows: &[T], what: &str) -> Table {
        let mut table = self.plain(rows.iter().take(most));
        if rows.len() > most {
            let more = units::count((rows.len() - most) as u64);
            table.rows.push(Row::Label(format!("and {more} more {what}")));
        }
        table
    }

    /// A table with a plain row for each.
    pub(crate) fn plain<'r>(&self, rows: impl IntoIterator<Item = &'r T>) -> Table
    where
        T: 'r,
    {
        self.table(rows.into_iter().map(|row| self.row(row, Paint::Plain)).collect())
    }
}

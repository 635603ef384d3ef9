//! Tables of CSV, column by column. A cell is made of text or of a number, and nothing else: no name controls a terminal
//! or a spreadsheet.

use std::io::Write;

use punctual_record::Param;

use crate::format::sanitize;

/// A column: its name, and a cell for each row.
pub(super) type Cells = (Cell, Vec<Cell>);

/// What begins a formula in a spreadsheet (OWASP, "CSV Injection"; the last four are the wide forms). Tabs and line breaks
/// do not get there: the sanitizer replaces them.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A cell.
#[derive(Debug, Clone)]
pub(super) struct Cell(String);

impl Cell {
    /// Text, sanitized. An apostrophe stands before what a spreadsheet would take for a formula: at the beginning, or after
    /// a semicolon, which separates cells in many countries.
    pub(super) fn text(text: &str) -> Self {
        let text = sanitize(text);
        let mut plain = String::with_capacity(text.len() + 1);
        let mut begins = true;
        for c in text.chars() {
            if begins && FORMULA.contains(&c) {
                plain.push('\'');
            }
            begins = c == ';' || begins && (c.is_whitespace() || c == '"');
            plain.push(c);
        }
        Self(plain)
    }

    /// A number, as it is; empty of nothing.
    pub(super) fn number(figure: Option<impl Number>) -> Self {
        Self(figure.map_or_else(String::new, |figure| figure.to_string()))
    }

    /// A parameter; empty of none.
    pub(super) fn parameter(value: Option<&Param>) -> Self {
        match value {
            None => Self(String::new()),
            Some(Param::Int(n)) => Self::number(Some(*n)),
            Some(Param::Real(x)) => Self::number(Some(*x)),
            Some(flag @ Param::Flag(_)) => Self(flag.to_string()),
            Some(Param::Text(text)) => Self::text(text),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A number, which cannot be a formula.
pub(super) trait Number: ToString {}
impl Number for i64 {}
impl Number for u64 {}
impl Number for usize {}
impl Number for f64 {}

/// Whether a column has any value; of no rows, all have.
pub(super) fn has_values((_, cells): &Cells) -> bool {
    cells.is_empty() || cells.iter().any(|cell| !cell.is_empty())
}

/// The table with a header, lines ended by `\r\n` as RFC 4180 has it.
pub(super) fn written(table: &[Cells], writer: &mut dyn Write) -> std::io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(writer);
    csv.write_record(table.iter().map(|(name, _)| &name.0)).map_err(io)?;
    let rows = table.first().map_or(0, |(_, cells)| cells.len());
    for row in 0..rows {
        csv.write_record(table.iter().map(|(_, cells)| &cells[row].0)).map_err(io)?;
    }
    csv.flush()
}

fn io(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_formula_and_a_number_stays_one() {
        for (text, plain) in [
            ("=cmd|x", "'=cmd|x"),
            ("-1+1", "'-1+1"),
            ("\t@SUM(1)", " '@SUM(1)"),
            ("\r=1", "?=1"),
            ("＋1", "'＋1"),
            ("a; =1-1", "a; '=1-1"),
            ("a=b-c", "a=b-c"),
            ("[31mred", "[31mred"),
        ] {
            assert_eq!(Cell::text(text).0, plain);
        }
        assert_eq!(Cell::number(Some(-5_i64)).0, "-5");
        assert_eq!(Cell::number(Some(-0.5)).0, "-0.5");
        assert_eq!(Cell::parameter(Some(&Param::Int(-5))).0, "-5");
        assert_eq!(Cell::parameter(Some(&Param::Text("-5".into()))).0, "'-5");
    }
}

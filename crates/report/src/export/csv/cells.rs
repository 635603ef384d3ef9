//! Tables of CSV, column by column.

use std::io::Write;

/// A column: its name, and a cell for each row.
pub(super) type Cells = (String, Vec<String>);

/// A cell; empty of nothing.
pub(super) fn cell(figure: Option<impl ToString>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}

/// Whether a column has any value; of no rows, all have.
pub(super) fn has_values((_, cells): &Cells) -> bool {
    cells.is_empty() || cells.iter().any(|cell| !cell.is_empty())
}

/// The table with a header, lines ended by `\r\n` as RFC 4180 has it.
pub(super) fn written(table: &[Cells], writer: &mut dyn Write) -> std::io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(writer);
    csv.write_record(table.iter().map(|(name, _)| name)).map_err(io)?;
    let rows = table.first().map_or(0, |(_, cells)| cells.len());
    for row in 0..rows {
        csv.write_record(table.iter().map(|(_, cells)| &cells[row])).map_err(io)?;
    }
    csv.flush()
}

pub(super) fn io(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

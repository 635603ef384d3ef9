//! A run as CSV (RFC 4180): one row per series, every scalar figure, for spreadsheets and scripts.
//!
//! The columns are, in this order and with these names, which stay:
//! - `experiment`, `subject`, `conditions`, `quantity` (`overshoot`, `lateness`, ...);
//! - one column per parameter that any series of the run has, in alphabetical order. Its name is as in the
//!   record (`asked_ns`, `size`);
//! - `count`, `negative`, `overflow`;
//! - `min_ns`, `p50_ns`, `p50_low_ns`, `p50_high_ns`, `p90_ns`, `p99_ns`, `p99_low_ns`, `p99_high_ns`, `p999_ns`, `max_ns`,
//!   `mean_ns`, `stdev_ns`. `low` and `high` are the ends of the 95 % confidence interval;
//! - `cpu_ns_per_op`, `cpu_share` (0 to 1), `voluntary_switches_per_op`, `involuntary_switches_per_op`;
//! - `elapsed_p50_ns`, `error_share`: of calls that wait for a duration. They are what was asked plus p50, and p50 as a
//!   share of what was asked;
//! - `merged_runs`: of a merged run, how many of its runs have the series.
//!
//! A run of ramps alone (`punctual governor ramp`) has a row per loop instead: `loop`, and a column per governor, in ns.
//!
//! A run without series that says why threads woke up late (`punctual why -- PROGRAM`) has a row per call and cause.
//!
//! A figure that is absent is an empty cell. A column that would be empty in every row is left out. No name
//! controls a terminal or a spreadsheet (docs/outputs.md, "Names of others").

use std::collections::BTreeSet;
use std::io::Write;

use punctual_record::{CallCauses, CauseTime, Causes, Param, Run, Series};

use crate::export::exporter::Error;
use crate::family::figures::{elapsed, error};
use crate::family::ramp;
use crate::format::naming::{self, code_of};
use crate::format::sanitize;

/// A figure: its name, and its cell.
type Figure = (&'static str, fn(&Series) -> Cell);

/// Of a merged run: how many runs have the series.
const RUNS: Figure = ("merged_runs", |series| Cell::number(Some(series.parts.len()).filter(|runs| *runs > 0)));

/// The columns after the parameters.
const FIGURES: [Figure; 22] = [
    ("count", |series| Cell::number(Some(series.summary.count))),
    ("negative", |series| Cell::number(Some(series.summary.negative))),
    ("overflow", |series| Cell::number(Some(series.summary.overflow))),
    ("min_ns", |series| Cell::number(series.summary.min)),
    ("p50_ns", |series| Cell::number(series.summary.p50)),
    ("p50_low_ns", |series| Cell::number(series.summary.ci95.p50.map(|interval| interval.low))),
    ("p50_high_ns", |series| Cell::number(series.summary.ci95.p50.map(|interval| interval.high))),
    ("p90_ns", |series| Cell::number(series.summary.p90)),
    ("p99_ns", |series| Cell::number(series.summary.p99)),
    ("p99_low_ns", |series| Cell::number(series.summary.ci95.p99.map(|interval| interval.low))),
    ("p99_high_ns", |series| Cell::number(series.summary.ci95.p99.map(|interval| interval.high))),
    ("p999_ns", |series| Cell::number(series.summary.p999)),
    ("max_ns", |series| Cell::number(series.summary.max)),
    ("mean_ns", |series| Cell::number(series.summary.mean)),
    ("stdev_ns", |series| Cell::number(series.summary.stdev)),
    ("cpu_ns_per_op", |series| Cell::number(series.cpu_ns_per_op)),
    ("cpu_share", |series| Cell::number(series.cpu_share)),
    ("voluntary_switches_per_op", |series| Cell::number(series.voluntary_switches_per_op)),
    ("involuntary_switches_per_op", |series| Cell::number(series.involuntary_switches_per_op)),
    ("elapsed_p50_ns", |series| Cell::number(elapsed(series))),
    ("error_share", |series| Cell::number(error(series))),
    RUNS,
];

/// Writes the run's series; without any, the causes of its wake-ups.
///
/// # Errors
/// Errors of the writer.
pub fn write(run: &Run, writer: &mut dyn Write) -> Result<(), Error> {
    let causes = run.causes.as_ref().filter(|_| run.series.is_empty());
    let table = match causes {
        _ if ramp::is_all(run) => loops(run),
        Some(causes) => table_of_causes(causes),
        None => identity(run).into_iter().chain(figures(run, &FIGURES)).collect(),
    };
    Ok(written(&table, writer)?)
}

/// A column for each of these figures that any series has.
fn figures<'r>(run: &'r Run, wanted: &'r [Figure]) -> impl Iterator<Item = Cells> + 'r {
    let column = |(name, cell): &Figure| (Cell::text(name), run.series.iter().map(cell).collect());
    wanted.iter().map(column).filter(has_values)
}

/// The files of a run's distributions, a row each: the file, then the columns that say which series it has.
///
/// # Errors
/// What the writer reports.
pub fn index(run: &Run, files: &[String], writer: &mut dyn Write) -> std::io::Result<()> {
    let mut table = vec![(Cell::text("file"), files.iter().map(|file| Cell::text(file)).collect())];
    table.extend(identity(run).into_iter().chain(figures(run, &[FIGURES[0], RUNS])));
    written(&table, writer)
}

/// The loops of ramps, a row each, for gnuplot.
fn loops(run: &Run) -> Vec<Cells> {
    let lines = ramp::lines(run);
    let longest = lines.iter().map(|(_, loops)| loops.len()).max().unwrap_or(0);
    let numbers = (Cell::text("loop"), (1..=longest).map(|number| Cell::number(Some(number))).collect());
    let durations = lines.iter().map(|(governor, loops)| {
        (Cell::text(governor), (0..longest).map(|index| Cell::number(loops.get(index).copied())).collect())
    });
    std::iter::once(numbers).chain(durations).collect()
}

/// What tells a series, and a column for each parameter.
fn identity(run: &Run) -> Vec<Cells> {
    let parameters: Vec<_> = run.series.iter().map(|series| series.experiment.parameters()).collect();
    let column = |name: &str, cell: &dyn Fn(&Series) -> Cell| (Cell::text(name), run.series.iter().map(cell).collect());
    let mut table: Vec<Cells> = vec![
        column("experiment", &|series| Cell::text(series.experiment.name())),
        column("subject", &|series| Cell::text(&series.subject)),
        column("conditions", &|series| Cell::text(&naming::label_of(run, &series.conditions))),
        column("quantity", &|series| Cell::text(series.quantity.name())),
    ];
    let names: BTreeSet<&String> = parameters.iter().flat_map(|parameters| parameters.keys()).collect();
    for name in names {
        table.push((
            Cell::text(name),
            parameters.iter().map(|parameters| Cell::parameter(parameters.get(name))).collect(),
        ));
    }
    table
}

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
}

/// A number, which cannot be a formula.
pub(super) trait Number: ToString {}
impl Number for i64 {}
impl Number for u64 {}
impl Number for usize {}
impl Number for f64 {}

/// Whether a column has any value; of no rows, all have.
fn has_values((_, cells): &Cells) -> bool {
    cells.is_empty() || cells.iter().any(|cell| !cell.0.is_empty())
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

type CellOf = fn(&CallCauses, &CauseTime) -> Cell;

/// The columns, by their names in the record.
const COLUMNS: [(&str, CellOf); 12] = [
    ("thread", |call, _| Cell::text(&call.thread)),
    ("call", |call, _| Cell::text(&call.call)),
    ("nominal_ns", |call, _| Cell::number(call.nominal_ns)),
    ("wake_ups", |call, _| Cell::number(Some(call.late.count))),
    ("part", |_, one| Cell::text(&code_of(&one.part))),
    ("cause", |_, one| Cell::text(&code_of(&one.cause))),
    ("culprit", |_, one| Cell::text(one.culprit.as_deref().unwrap_or_default())),
    ("count", |_, one| Cell::number(Some(one.time.count))),
    ("total_ns", |_, one| Cell::number(Some(one.time.total_ns))),
    ("p50_ns", |_, one| Cell::number(Some(one.time.p50_ns))),
    ("p99_ns", |_, one| Cell::number(one.time.p99_ns)),
    ("max_ns", |_, one| Cell::number(Some(one.time.max_ns))),
];

/// The table, column by column; a column without any value is left out.
fn table_of_causes(causes: &Causes) -> Vec<Cells> {
    let rows = || causes.calls.iter().flat_map(|call| call.causes.iter().map(move |one| (call, one)));
    let column = |(name, cell): (&str, CellOf)| (Cell::text(name), rows().map(|(call, one)| cell(call, one)).collect());
    COLUMNS.into_iter().map(column).filter(has_values).collect()
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

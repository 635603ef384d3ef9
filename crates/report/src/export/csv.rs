//! A run as CSV (RFC 4180): one row per series, every scalar figure, for spreadsheets and scripts.
//!
//! The columns are, in this order and with these names, which stay:
//! - `experiment`, `subject`, `conditions`, `quantity` (`overshoot`, `lateness`, ...);
//! - one column per parameter that any series of the run has, in alphabetical order, named as in the record
//!   (`asked_ns`, `size`);
//! - `count`, `negative`, `overflow`;
//! - `min_ns`, `p50_ns`, `p50_low_ns`, `p50_high_ns`, `p90_ns`, `p99_ns`, `p99_low_ns`, `p99_high_ns`, `p999_ns`, `max_ns`,
//!   `mean_ns`, `stdev_ns`; `low` and `high` are the ends of the 95 % confidence interval;
//! - `cpu_ns_per_op`, `cpu_share` (0 to 1), `voluntary_switches_per_op`, `involuntary_switches_per_op`;
//! - `elapsed_p50_ns`, `error_share`: of calls that wait for a duration, what was asked plus p50, and p50 as a share of what
//!   was asked.
//!
//! A run of ramps alone (`punctual governor ramp`) has a row per loop instead: `loop`, and a column per governor, in ns.
//!
//! A run without series that says why threads woke up late (`punctual why -- PROGRAM`) has a row per call and cause.
//!
//! A figure that is absent is an empty cell. A column that would be empty in every row is left out. Names stand as they are in the record; nothing is escaped beyond the
//! quoting of CSV.

mod causes;

use std::collections::BTreeSet;
use std::io::Write;

use crate::naming;
use punctual_record::{Interval, Param, Run, Series};

use crate::family::ramp;
use crate::family::wait::asked;

use super::exporter::{Error, Exporter};

/// CSV.
#[derive(Debug, Clone, Copy)]
pub struct Csv;

const BEFORE: [&str; 4] = ["experiment", "subject", "conditions", "quantity"];
const AFTER: [&str; 21] = [
    "count",
    "negative",
    "overflow",
    "min_ns",
    "p50_ns",
    "p50_low_ns",
    "p50_high_ns",
    "p90_ns",
    "p99_ns",
    "p99_low_ns",
    "p99_high_ns",
    "p999_ns",
    "max_ns",
    "mean_ns",
    "stdev_ns",
    "cpu_ns_per_op",
    "cpu_share",
    "voluntary_switches_per_op",
    "involuntary_switches_per_op",
    "elapsed_p50_ns",
    "error_share",
];

impl Exporter<Run> for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn write(&self, run: &Run, out: &mut dyn Write) -> Result<(), Error> {
        Ok(rows(run, out)?)
    }
}

/// The run's series.
fn rows(run: &Run, writer: &mut dyn Write) -> std::io::Result<()> {
    if ramp::is_all(run) {
        return ramp::columns(run, writer).map_err(io);
    }
    if let Some(causes) = run.causes.as_ref().filter(|_| run.series.is_empty()) {
        return written(&causes::table(causes), writer);
    }
    let mut table = identity(run);
    let figures: Vec<[String; AFTER.len()]> = run.series.iter().map(figures).collect();
    for (at, name) in AFTER.into_iter().enumerate() {
        let cells: Vec<String> = figures.iter().map(|its| its[at].clone()).collect();
        if cells.is_empty() || cells.iter().any(|cell| !cell.is_empty()) {
            table.push((name.to_owned(), cells));
        }
    }
    written(&table, writer)
}

/// The files of a run's distributions, a row each: the file, then the columns that say which series it has.
///
/// # Errors
/// What the writer reports.
pub fn index(run: &Run, files: &[String], writer: &mut dyn Write) -> std::io::Result<()> {
    let mut table = vec![("file".to_owned(), files.to_vec())];
    table.extend(identity(run));
    table.push(("count".to_owned(), run.series.iter().map(|series| series.summary.count.to_string()).collect()));
    written(&table, writer)
}

/// A column: its name, and a cell for each series.
type Cells = (String, Vec<String>);

/// The columns under [`BEFORE`], and one for each parameter.
fn identity(run: &Run) -> Vec<Cells> {
    let parameters: Vec<_> = run.series.iter().map(|series| series.experiment.parameters()).collect();
    let cells = |of: &dyn Fn(&Series) -> String| run.series.iter().map(of).collect();
    let all: [Vec<String>; BEFORE.len()] = [
        cells(&|series| series.experiment.name().to_owned()),
        cells(&|series| series.subject.clone()),
        cells(&|series| naming::label_of(run, &series.conditions)),
        cells(&|series| series.quantity.name().to_owned()),
    ];
    let mut table: Vec<Cells> = BEFORE.map(str::to_owned).into_iter().zip(all).collect();
    let names: BTreeSet<&String> = parameters.iter().flat_map(|its| its.keys()).collect();
    for name in names {
        let cells = parameters.iter().map(|its| its.get(name).map_or_else(String::new, Param::to_string));
        table.push((name.clone(), cells.collect()));
    }
    table
}

/// The table with a header, lines ended by `\r\n` as RFC 4180 has it.
fn written(table: &[Cells], writer: &mut dyn Write) -> std::io::Result<()> {
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(writer);
    csv.write_record(table.iter().map(|(name, _)| name)).map_err(io)?;
    let rows = table.first().map_or(0, |(_, cells)| cells.len());
    for row in 0..rows {
        csv.write_record(table.iter().map(|(_, cells)| &cells[row])).map_err(io)?;
    }
    csv.flush()
}

fn io(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// The cells under [`AFTER`].
fn figures(series: &Series) -> [String; AFTER.len()] {
    let s = &series.summary;
    let int = |value: Option<i64>| value.map_or(String::new(), |value| value.to_string());
    let real = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let low = |interval: Option<Interval>| int(interval.map(|interval| interval.low));
    let high = |interval: Option<Interval>| int(interval.map(|interval| interval.high));
    [
        s.count.to_string(),
        s.negative.to_string(),
        s.overflow.to_string(),
        int(s.min),
        int(s.p50),
        low(s.ci95.p50),
        high(s.ci95.p50),
        int(s.p90),
        int(s.p99),
        low(s.ci95.p99),
        high(s.ci95.p99),
        int(s.p999),
        int(s.max),
        real(s.mean),
        real(s.stdev),
        real(series.cpu_ns_per_op),
        real(series.cpu_share),
        real(series.voluntary_switches_per_op),
        real(series.involuntary_switches_per_op),
        int(asked::elapsed(series)),
        real(asked::error(series)),
    ]
}

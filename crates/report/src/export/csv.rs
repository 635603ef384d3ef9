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
//! A figure that is absent is an empty cell. A column that would be empty in every row is left out. Names stand as they are in the record; nothing is escaped beyond the
//! quoting of CSV.

mod causes;
mod cells;

use std::collections::BTreeSet;
use std::io::Write;

use crate::naming;
use punctual_record::{Run, Series};

use crate::family::ramp;
use crate::family::wait::asked;

use super::exporter::{Error, Exporter};
use cells::{Cells, cell, has_values, io, written};

/// CSV.
#[derive(Debug, Clone, Copy)]
pub struct Csv;

/// A figure: its name, and its cell.
type Figure = (&'static str, fn(&Series) -> String);

/// Of a merged run: how many runs have the series.
const RUNS: Figure = ("merged_runs", |series| cell(Some(series.parts.len()).filter(|runs| *runs > 0)));

/// The columns after the parameters.
const FIGURES: [Figure; 22] = [
    ("count", |series| series.summary.count.to_string()),
    ("negative", |series| series.summary.negative.to_string()),
    ("overflow", |series| series.summary.overflow.to_string()),
    ("min_ns", |series| cell(series.summary.min)),
    ("p50_ns", |series| cell(series.summary.p50)),
    ("p50_low_ns", |series| cell(series.summary.ci95.p50.map(|its| its.low))),
    ("p50_high_ns", |series| cell(series.summary.ci95.p50.map(|its| its.high))),
    ("p90_ns", |series| cell(series.summary.p90)),
    ("p99_ns", |series| cell(series.summary.p99)),
    ("p99_low_ns", |series| cell(series.summary.ci95.p99.map(|its| its.low))),
    ("p99_high_ns", |series| cell(series.summary.ci95.p99.map(|its| its.high))),
    ("p999_ns", |series| cell(series.summary.p999)),
    ("max_ns", |series| cell(series.summary.max)),
    ("mean_ns", |series| cell(series.summary.mean)),
    ("stdev_ns", |series| cell(series.summary.stdev)),
    ("cpu_ns_per_op", |series| cell(series.cpu_ns_per_op)),
    ("cpu_share", |series| cell(series.cpu_share)),
    ("voluntary_switches_per_op", |series| cell(series.voluntary_switches_per_op)),
    ("involuntary_switches_per_op", |series| cell(series.involuntary_switches_per_op)),
    ("elapsed_p50_ns", |series| cell(asked::elapsed(series))),
    ("error_share", |series| cell(asked::error(series))),
    RUNS,
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
    let figures = FIGURES.map(|(name, cell)| (name.to_owned(), run.series.iter().map(cell).collect()));
    table.extend(figures.into_iter().filter(has_values));
    written(&table, writer)
}

/// The files of a run's distributions, a row each: the file, then the columns that say which series it has.
///
/// # Errors
/// What the writer reports.
pub fn index(run: &Run, files: &[String], writer: &mut dyn Write) -> std::io::Result<()> {
    let mut table = vec![("file".to_owned(), files.to_vec())];
    table.extend(identity(run));
    let more = [FIGURES[0], RUNS].map(|(name, cell)| (name.to_owned(), run.series.iter().map(cell).collect()));
    table.extend(more.into_iter().filter(has_values));
    written(&table, writer)
}

/// What tells a series, and a column for each parameter.
fn identity(run: &Run) -> Vec<Cells> {
    let parameters: Vec<_> = run.series.iter().map(|series| series.experiment.parameters()).collect();
    let column = |name: &str, of: &dyn Fn(&Series) -> String| (name.to_owned(), run.series.iter().map(of).collect());
    let mut table: Vec<Cells> = vec![
        column("experiment", &|series| series.experiment.name().to_owned()),
        column("subject", &|series| series.subject.clone()),
        column("conditions", &|series| naming::label_of(run, &series.conditions)),
        column("quantity", &|series| series.quantity.name().to_owned()),
    ];
    let names: BTreeSet<&String> = parameters.iter().flat_map(|its| its.keys()).collect();
    for name in names {
        table.push((name.clone(), parameters.iter().map(|its| cell(its.get(name))).collect()));
    }
    table
}

//! A run as CSV (RFC 4180): one row per series, every scalar figure, for spreadsheets and scripts.
//!
//! The columns are, in this order and with these names, which stay:
//! - `experiment`, `subject`, `conditions`, `quantity` (`overshoot`, `lateness`, ...);
//! - one column per parameter that any series of the run has, in alphabetical order, named as in the record
//!   (`asked_ns`, `size`);
//! - `count`, `negative`, `overflow`;
//! - `min_ns`, `p50_ns`, `p50_low_ns`, `p50_high_ns`, `p90_ns`, `p99_ns`, `p99_low_ns`, `p99_high_ns`, `p999_ns`, `max_ns`,
//!   `mean_ns`, `stdev_ns`; `low` and `high` are the ends of the 95 % confidence interval;
//! - `cpu_ns_per_op`, `cpu_share` (0 to 1), `voluntary_switches_per_op`, `involuntary_switches_per_op`.
//!
//! A run of ramps alone (`punctual governor ramp`) has a row per loop instead: `loop`, and a column per governor, in ns.
//!
//! A figure that is absent is an empty cell. Names stand as they are in the record; nothing is escaped beyond the
//! quoting of CSV.

use std::collections::BTreeSet;
use std::io::Write;

use crate::naming;
use punctual_record::{Interval, Param, Run, Series};

use crate::family::ramp;

use super::exporter::{Error, Exporter};

/// CSV.
#[derive(Debug, Clone, Copy)]
pub struct Csv;

const BEFORE: [&str; 4] = ["experiment", "subject", "conditions", "quantity"];
const AFTER: [&str; 19] = [
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
];

impl Exporter<Run> for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn write(&self, run: &Run, out: &mut dyn Write) -> Result<(), Error> {
        Ok(rows(run, out)?)
    }
}

/// The run's series, with a header, lines ended by `\r\n` as RFC 4180 has it.
fn rows(run: &Run, writer: &mut dyn Write) -> std::io::Result<()> {
    if ramp::is_all(run) {
        return ramp::columns(run, writer).map_err(io);
    }
    let parameters: BTreeSet<String> =
        run.series.iter().flat_map(|series| series.experiment.parameters().into_keys()).collect();
    let mut csv = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(writer);
    csv.write_record(BEFORE.iter().copied().chain(parameters.iter().map(String::as_str)).chain(AFTER)).map_err(io)?;
    for series in &run.series {
        let mut cells = vec![
            series.experiment.name().to_owned(),
            series.subject.clone(),
            naming::label_of(run, &series.conditions),
            series.quantity.name().to_owned(),
        ];
        let its = series.experiment.parameters();
        cells.extend(parameters.iter().map(|name| its.get(name).map_or_else(String::new, Param::to_string)));
        cells.extend(figures(series));
        csv.write_record(&cells).map_err(io)?;
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
fn figures(series: &Series) -> [String; 19] {
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
    ]
}

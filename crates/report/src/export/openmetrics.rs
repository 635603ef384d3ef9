//! A run as OpenMetrics text (version 1.0), which Prometheus reads, for instance through node_exporter's textfile collector.
//!
//! All families are gauges, because a run is over and nothing counts on. Percentiles could be a `summary`, but
//! OpenMetrics forbids negative values there, and early wake-ups must not be hidden.
//!
//! - `punctual_<quantity>_seconds{statistic="min|p50|p90|p99|p999|max|mean"}`, for each quantity of the run, with the ends of the 95 %
//!   confidence intervals as `p50_low`, `p50_high`, `p99_low`, `p99_high`;
//! - `punctual_samples`, `punctual_samples_negative`, `punctual_samples_overflow`;
//! - `punctual_cpu_seconds` per operation, `punctual_cpu_ratio`, `punctual_switches` per operation with `kind="voluntary|involuntary"`;
//! - `punctual_cause_seconds` per wake-up with `thread`, `call`, `part`, `cause` and `culprit`, `punctual_call_late_seconds`,
//!   `punctual_wake_ups`, `punctual_wake_ups_split`, `punctual_events_lost`;
//! - `punctual_run_info`, `punctual_run_start_seconds` (since 1970), `punctual_run_duration_seconds`, `punctual_run_complete`,
//!   `punctual_steal_ratio`, and of a merged run `punctual_run_merged_runs`.
//!
//! Labels are `experiment`, `subject`, `conditions`, `quantity` and the parameters by their names in the record. A
//! parameter with a reserved name gets the prefix `parameter_`. A series with the same labels as an earlier one gets
//! `repeat="2"`, `"3"`...

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use punctual_record::{CallCauses, CauseTime, Causes, Quantity, Run, Series};

use crate::export::exporter::Error;
use crate::format::naming::{self, code_of};
use crate::format::sanitize;

/// Labels that parameters may not take.
const TAKEN: [&str; 7] = ["experiment", "subject", "conditions", "quantity", "statistic", "kind", "repeat"];

/// Writes the run's series and the causes of its wake-ups.
///
/// # Errors
/// Errors of the writer.
pub fn write(run: &Run, mut writer: &mut dyn Write) -> Result<(), Error> {
    let labelled = labelled(run);
    let quantities: BTreeSet<Quantity> = run.series.iter().map(|series| series.quantity).collect();
    for quantity in quantities {
        let help = "Percentiles, extremes and mean of one series each; low and high are the ends of the 95 % confidence interval.";
        let own = labelled.iter().filter(|(series, _)| series.quantity == quantity);
        let values = own.flat_map(|(series, labels)| statistics(series, labels));
        gauges(&mut writer, (&format!("{}_seconds", quantity.name()), SECONDS, help), values)?;
    }
    per_series(&mut writer, &labelled)?;
    of_causes(&mut writer, run.causes.as_ref())?;
    of_run(&mut writer, run)?;
    writer.write_all(b"# EOF\n")?;
    Ok(writer.flush()?)
}

/// Percentiles, extremes and mean of a series.
fn statistics(series: &Series, labels: &str) -> Vec<Gauge> {
    let s = &series.summary;
    let (p50, p99) = (s.ci95.p50, s.ci95.p99);
    let figures = [
        ("min", s.min),
        ("p50", s.p50),
        ("p50_low", p50.map(|interval| interval.low)),
        ("p50_high", p50.map(|interval| interval.high)),
        ("p90", s.p90),
        ("p99", s.p99),
        ("p99_low", p99.map(|interval| interval.low)),
        ("p99_high", p99.map(|interval| interval.high)),
        ("p999", s.p999),
        ("max", s.max),
    ];
    let whole = figures.into_iter().filter_map(|(name, ns)| Some((name, ns? as f64)));
    let mean = s.mean.filter(|mean| mean.is_finite()).map(|mean| ("mean", mean));
    let value = |(statistic, ns)| (format!("{labels},statistic=\"{statistic}\""), ns / 1e9);
    whole.chain(mean).map(value).collect()
}

/// A family with one value for each series that has it.
type PerSeries = (&'static str, Option<&'static str>, &'static str, fn(&Series) -> Option<f64>);

const PER_SERIES: [PerSeries; 5] = [
    ("samples", None, "Samples of a series.", |series| Some(series.summary.count as f64)),
    ("samples_negative", None, "Samples below zero: early.", |series| Some(series.summary.negative as f64)),
    ("samples_overflow", None, "Samples beyond the histogram's range; they are counted in all ranks.", |series| {
        Some(series.summary.overflow as f64)
    }),
    ("cpu_seconds", Some("seconds"), "CPU time of the measured thread per operation.", |series| {
        series.cpu_ns_per_op.map(|ns| ns / 1e9)
    }),
    ("cpu_ratio", Some("ratio"), "Share of one CPU that the measured thread used, 0 to 1.", |series| series.cpu_share),
];

fn per_series(writer: &mut impl Write, labelled: &[(&Series, String)]) -> io::Result<()> {
    for (name, unit, help, value) in PER_SERIES {
        let values = labelled.iter().map(|(series, labels)| (labels.clone(), value(series)));
        known_gauges(writer, (name, unit, help), values)?;
    }
    let switches = |(series, labels): &(&Series, String)| {
        [("voluntary", series.voluntary_switches_per_op), ("involuntary", series.involuntary_switches_per_op)]
            .map(|(kind, times)| (format!("{labels},kind=\"{kind}\""), times))
    };
    let help = "Context switches of the measured thread per operation.";
    known_gauges(writer, ("switches", None, help), labelled.iter().flat_map(switches))
}

fn of_run(writer: &mut impl Write, run: &Run) -> io::Result<()> {
    let host = &run.host;
    let known = |fact: &Option<String>| fact.clone().unwrap_or_default();
    let labels = [
        ("version", run.tool.version.clone()),
        ("command", run.command.join(" ")),
        ("kernel", known(&host.kernel)),
        ("preemption", known(&host.preemption)),
        ("cpu_model", known(&host.cpu_model)),
        ("clocksource", known(&host.clocksource)),
        ("hypervisor", known(&host.hypervisor)),
    ];
    let help = "What was run, and where; an empty label is a fact that the machine does not tell.";
    writeln!(writer, "# TYPE punctual_run info\n# HELP punctual_run {help}")?;
    let labels = labels.map(|(name, value)| label(name, &value)).join(",");
    writeln!(writer, "punctual_run_info{{{labels}}} 1")?;
    let started = run.started.as_microsecond() as f64 / 1e6;
    let complete = f64::from(u8::from(run.complete));
    let merged = Some(run.merged_from.len() as f64).filter(|n| *n > 0.0);
    let stolen = run.disturbance.steal_share;
    let facts = [
        ("run_start_seconds", SECONDS, "When the run began, since 1970.", Some(started)),
        ("run_duration_seconds", SECONDS, "How long the run took.", Some(run.elapsed_ns as f64 / 1e9)),
        ("run_complete", None, "1: the run came to its end; 0: it was interrupted.", Some(complete)),
        ("run_merged_runs", None, "Runs that this one was merged from.", merged),
        ("steal_ratio", Some("ratio"), "Share of the CPUs' time that the hypervisor gave to others.", stolen),
    ];
    for (name, unit, help, value) in facts {
        known_gauges(writer, (name, unit, help), [(String::new(), value)])?;
    }
    Ok(())
}

/// Every series with its labels, which no two share.
fn labelled(run: &Run) -> Vec<(&Series, String)> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let with_labels = |series| (series, repeated(labels(run, series), &mut seen));
    run.series.iter().map(with_labels).collect()
}

fn labels(run: &Run, series: &Series) -> String {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &series.experiment.parameters() {
        let mut name = label_name(name);
        while TAKEN.contains(&name.as_str()) || labels.contains_key(&name) {
            name = format!("parameter_{name}");
        }
        labels.insert(name, value.to_string());
    }
    let conditions = naming::label_of(run, &series.conditions);
    let first = [
        ("experiment", series.experiment.name()),
        ("subject", &series.subject),
        ("conditions", conditions.as_str()),
        ("quantity", series.quantity.name()),
    ];
    let first = first.map(|(name, value)| label(name, value));
    let rest = labels.iter().map(|(name, value)| label(name, value));
    first.into_iter().chain(rest).collect::<Vec<_>>().join(",")
}

/// A name that a label may have: letters, digits and underscores, not a digit first, not two underscores first.
fn label_name(name: &str) -> String {
    const LONGEST: usize = 100;
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let name: String = name.chars().take(LONGEST).map(allowed).collect();
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if begins_well { name } else { format!("parameter_{name}") }
}

/// Name, unit and help of gauges that belong together.
type Family<'a> = (&'a str, Option<&'a str>, &'a str);

const SECONDS: Option<&str> = Some("seconds");

/// A value with its labels.
type Gauge = (String, f64);

/// Writes a family, whatever values it has.
fn gauges(
    writer: &mut impl Write,
    (name, unit, help): Family<'_>,
    values: impl IntoIterator<Item = Gauge>,
) -> io::Result<()> {
    writeln!(writer, "# TYPE punctual_{name} gauge")?;
    if let Some(unit) = unit {
        writeln!(writer, "# UNIT punctual_{name} {unit}")?;
    }
    writeln!(writer, "# HELP punctual_{name} {help}")?;
    for (labels, value) in values {
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        // The shortest decimal number that is this one; very small and large ones with an exponent.
        writeln!(writer, "punctual_{name}{labels} {value:?}")?;
    }
    Ok(())
}

/// Writes a family of those values that are known; nothing where none is.
fn known_gauges(
    writer: &mut impl Write,
    family: Family<'_>,
    values: impl IntoIterator<Item = (String, Option<f64>)>,
) -> io::Result<()> {
    let known = |(labels, value): (String, Option<f64>)| Some((labels, value.filter(|value| value.is_finite())?));
    let values: Vec<Gauge> = values.into_iter().filter_map(known).collect();
    if values.is_empty() { Ok(()) } else { gauges(writer, family, values) }
}

/// The labels, with a number where they were there before.
fn repeated(mut labels: String, seen: &mut HashMap<String, u32>) -> String {
    let times = seen.entry(labels.clone()).or_default();
    *times += 1;
    if *times > 1 {
        labels.push_str(&format!(",repeat=\"{times}\""));
    }
    labels
}

/// A label. Its value is sanitized, so it holds no line break.
fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", sanitize(value).replace('\\', "\\\\").replace('"', "\\\""))
}

/// The families of causes; nothing where the run has none.
fn of_causes(writer: &mut impl Write, causes: Option<&Causes>) -> io::Result<()> {
    let Some(causes) = causes else { return Ok(()) };
    let counts = [
        ("wake_ups", "Blocking calls that ended while threads were watched.", causes.wake_ups),
        ("wake_ups_split", "Those whose lateness was cut into parts completely.", causes.split),
        ("events_lost", "Events that the kernel dropped.", causes.lost_events),
    ];
    for (name, help, count) in counts {
        gauges(writer, (name, None, help), [(String::new(), count as f64)])?;
    }
    if causes.calls.is_empty() {
        return Ok(());
    }
    let (mut late, mut parts) = (HashMap::new(), HashMap::new());
    let lateness = causes.calls.iter().flat_map(|call| {
        let labels = repeated(call_labels(call), &mut late);
        let p99 = call.late.p99_ns.map(|ns| ("p99", ns as f64));
        let known = [("p50", call.late.p50_ns as f64), ("max", call.late.max_ns as f64)];
        let all = known.into_iter().chain(p99).chain([("mean", each(call.late.total_ns, call))]);
        all.map(move |(statistic, ns)| (format!("{labels},statistic=\"{statistic}\""), ns / 1e9))
    });
    gauges(writer, ("call_late_seconds", SECONDS, "Lateness of the split wake-ups of a call."), lateness)?;
    let lost = causes.calls.iter().flat_map(|call| call.causes.iter().map(move |cause| (call, cause)));
    let lost = lost.map(|(call, cause)| {
        let labels = repeated(format!("{},{}", call_labels(call), blamed(cause)), &mut parts);
        (labels, each(cause.time.total_ns, call) / 1e9)
    });
    gauges(writer, ("cause_seconds", SECONDS, "Time lost to a cause per split wake-up of a call, on average."), lost)
}

fn each(total_ns: u64, call: &CallCauses) -> f64 {
    total_ns as f64 / call.late.count.max(1) as f64
}

fn call_labels(call: &CallCauses) -> String {
    let asked = call.nominal_ns.map(|ns| label("asked_ns", &ns.to_string()));
    let always = [label("thread", &call.thread), label("call", &call.call)];
    always.into_iter().chain(asked).collect::<Vec<_>>().join(",")
}

fn blamed(cause: &CauseTime) -> String {
    let culprit = cause.culprit.as_deref().map(|name| label("culprit", name));
    let always = [label("part", &code_of(&cause.part)), label("cause", &code_of(&cause.cause))];
    always.into_iter().chain(culprit).collect::<Vec<_>>().join(",")
}

//! Why threads woke up late, as metrics.

use std::collections::HashMap;
use std::io::{self, Write};

use punctual_record::{CallCauses, CauseTime, Causes};

use crate::naming::code_of;

use super::lines::{escaped, family, number, repeated};

/// The families of causes; nothing where the run has none.
pub(super) fn write(writer: &mut impl Write, causes: Option<&Causes>) -> io::Result<()> {
    let Some(causes) = causes else { return Ok(()) };
    let counts = [
        ("wake_ups", "Blocking calls that ended while threads were watched.", causes.wake_ups),
        ("wake_ups_split", "Those whose lateness was cut into parts completely.", causes.split),
        ("events_lost", "Events that the kernel dropped.", causes.lost_events),
    ];
    for (name, help, count) in counts {
        family(writer, name, None, help)?;
        writeln!(writer, "punctual_{name} {}", number(count as f64))?;
    }
    if causes.calls.is_empty() {
        return Ok(());
    }
    let (mut late, mut parts) = (HashMap::new(), HashMap::new());
    family(writer, "call_late_seconds", Some("seconds"), "Lateness of the split wake-ups of a call.")?;
    for call in &causes.calls {
        let labels = repeated(labels(call), &mut late);
        let p99 = call.late.p99_ns.map(|ns| ("p99", ns as f64));
        let known = [("p50", call.late.p50_ns as f64), ("max", call.late.max_ns as f64)];
        for (statistic, ns) in known.into_iter().chain(p99).chain([("mean", each(call.late.total_ns, call))]) {
            let value = number(ns / 1e9);
            writeln!(writer, "punctual_call_late_seconds{{{labels},statistic=\"{statistic}\"}} {value}")?;
        }
    }
    family(writer, "cause_seconds", Some("seconds"), "Time lost to a cause per split wake-up of a call, on average.")?;
    for call in &causes.calls {
        for cause in &call.causes {
            let labels = repeated(format!("{},{}", labels(call), blamed(cause)), &mut parts);
            let value = number(each(cause.time.total_ns, call) / 1e9);
            writeln!(writer, "punctual_cause_seconds{{{labels}}} {value}")?;
        }
    }
    Ok(())
}

fn each(total_ns: u64, call: &CallCauses) -> f64 {
    total_ns as f64 / call.late.count.max(1) as f64
}

fn labels(call: &CallCauses) -> String {
    let nominal = call.nominal_ns.map_or(String::new(), |ns| format!(",asked_ns=\"{ns}\""));
    format!("thread=\"{}\",call=\"{}\"{nominal}", escaped(&call.thread), escaped(&call.call))
}

fn blamed(cause: &CauseTime) -> String {
    let culprit = cause.culprit.as_deref().map_or(String::new(), |name| format!(",culprit=\"{}\"", escaped(name)));
    format!("part=\"{}\",cause=\"{}\"{culprit}", code_of(&cause.part), code_of(&cause.cause))
}

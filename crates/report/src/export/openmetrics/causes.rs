//! Why threads woke up late, as metrics.

use std::collections::HashMap;
use std::io::{self, Write};

use punctual_record::{CallCauses, CauseTime, Causes};

use crate::naming::code_of;

use super::lines::{family, label, number, repeated};

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
    let asked = call.nominal_ns.map(|ns| label("asked_ns", &ns.to_string()));
    let always = [label("thread", &call.thread), label("call", &call.call)];
    always.into_iter().chain(asked).collect::<Vec<_>>().join(",")
}

fn blamed(cause: &CauseTime) -> String {
    let culprit = cause.culprit.as_deref().map(|name| label("culprit", name));
    let always = [label("part", &code_of(&cause.part)), label("cause", &code_of(&cause.cause))];
    always.into_iter().chain(culprit).collect::<Vec<_>>().join(",")
}

//! What `why` found out about a program, and whether it is consistent.

use std::collections::BTreeMap;

use punctual_record::{Activity, Cause, Causes, LateWake};

/// Causes shown.
const CAUSES: usize = 3;

/// The share of wake-ups that were cut, in per cent.
pub(super) fn cut(causes: &Causes) -> String {
    if causes.wake_ups == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * causes.split as f64 / causes.wake_ups as f64)
}

/// The largest causes over all calls, with their shares of the time lost.
pub(super) fn largest(causes: &Causes) -> String {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    let mut total = 0;
    for cause in causes.calls.iter().flat_map(|call| &call.causes) {
        let kind = words(cause.cause);
        let name = cause.culprit.as_ref().map_or(kind.clone(), |culprit| format!("{kind} {culprit}"));
        *times.entry(name).or_default() += cause.time.total_ns;
        total += cause.time.total_ns;
    }
    let mut times: Vec<(String, u64)> = times.into_iter().collect();
    times.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let shown = times.iter().take(CAUSES);
    shown
        .map(|(name, ns)| format!("{name} {:.0} %", 100.0 * *ns as f64 / total.max(1) as f64))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The worst wake-up: its thread, call, lateness and largest part.
pub(super) fn worst(causes: &Causes) -> String {
    let Some(worst) = causes.worst.first() else { return "-".to_owned() };
    let most = worst.parts.iter().max_by_key(|part| part.ns);
    let most = most.map_or_else(String::new, |part| {
        let culprit = part.culprit.as_ref().map_or(String::new(), |culprit| format!(" {culprit}"));
        format!(", {:.0} % {}{culprit}", 100.0 * part.ns as f64 / worst.late_ns.max(1) as f64, words(part.cause))
    });
    format!("{:.2} ms {} {}{most}", worst.late_ns as f64 / 1e6, worst.thread, worst.call)
}

/// What contradicts itself; nothing if all is well.
pub(super) fn faults(causes: &Causes) -> Vec<String> {
    let mut faults = Vec::new();
    if causes.split > causes.wake_ups {
        faults.push(format!("{} of {} wake-ups are cut", causes.split, causes.wake_ups));
    }
    for call in &causes.calls {
        let sum: u64 = call.causes.iter().map(|cause| cause.time.total_ns).sum();
        if sum != call.late.total_ns {
            faults.push(format!("{} {}: causes are {sum} ns of {} ns", call.thread, call.call, call.late.total_ns));
        }
        if call.blocked + call.at_once != call.calls {
            faults.push(format!("{} {}: calls do not add up", call.thread, call.call));
        }
        if call.thread.is_empty() || call.call.starts_with("syscall ") {
            faults.push(format!("thread '{}', call '{}': a name is missing", call.thread, call.call));
        }
    }
    faults.extend(causes.worst.iter().filter_map(timeline));
    faults
}

fn timeline(wake: &LateWake) -> Option<String> {
    let what = || format!("{} {} late by {} ns", wake.thread, wake.call, wake.late_ns);
    let parts: u64 = wake.parts.iter().map(|part| part.ns).sum();
    if parts != wake.late_ns {
        return Some(format!("{}: parts are {parts} ns", what()));
    }
    let overlap = wake
        .timeline
        .windows(2)
        .any(|pair| pair[0].cpu == pair[1].cpu && pair[0].from_ns + pair[0].ns.cast_signed() > pair[1].from_ns);
    if overlap {
        return Some(format!("{}: stretches of one CPU overlap", what()));
    }
    if wake.timeline.len() < 48 && !wake.timeline.iter().any(|stretch| stretch.activity == Activity::Itself) {
        return Some(format!("{}: the thread is not in its timeline", what()));
    }
    None
}

fn words(cause: Cause) -> String {
    serde_json::to_value(cause).ok().and_then(|value| Some(value.as_str()?.replace('_', " "))).unwrap_or_default()
}

//! Causes added up: by call, the most time lost first. Sums saturate, for a file may claim any number.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_record::{CallCauses, Cause, Causes};

use super::phrase::Why;

/// A cause and a culprit, over all parts of the lateness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lost<'a> {
    pub(super) why: Why<'a>,
    pub(super) total_ns: u64,
}

/// The calls with the most time lost first; waits of our own from the shortest to the longest. What was never late is last.
pub(super) fn calls(causes: &Causes) -> Vec<&CallCauses> {
    let mut calls: Vec<&CallCauses> = causes.calls.iter().collect();
    calls.sort_by_key(|call| (call.late.count == 0, call.nominal_ns, Reverse(call.late.total_ns), Reverse(call.calls)));
    calls
}

/// The causes of a call's lateness, the most time first; what took none is left out.
pub(super) fn ranked(call: &CallCauses, guest: bool) -> Vec<Lost<'_>> {
    let mut all: BTreeMap<Why<'_>, u64> = BTreeMap::new();
    for one in call.causes.iter().filter(|one| one.time.total_ns > 0) {
        let why = Why { cause: one.cause, culprit: one.culprit.as_deref(), guest };
        let total = all.entry(why).or_default();
        *total = total.saturating_add(one.time.total_ns);
    }
    let mut all: Vec<Lost<'_>> = all.into_iter().map(|(why, total_ns)| Lost { why, total_ns }).collect();
    all.sort_by_key(|lost| Reverse(lost.total_ns));
    all
}

/// The cause with the most time over all its culprits: that time, and its culprits, the most time first.
pub(super) fn leading<'a>(ranked: &[Lost<'a>]) -> Option<(u64, Vec<Lost<'a>>)> {
    let mut groups: BTreeMap<Cause, (u64, Vec<Lost<'a>>)> = BTreeMap::new();
    for lost in ranked {
        let (total, culprits) = groups.entry(lost.why.cause).or_default();
        *total = total.saturating_add(lost.total_ns);
        culprits.push(*lost);
    }
    groups.into_values().max_by_key(|(total, _)| *total)
}

/// A time that all wake-ups of a call lost, per wake-up.
pub(super) fn each(total_ns: u64, call: &CallCauses) -> f64 {
    total_ns as f64 / call.late.count.max(1) as f64
}

/// A time as a share of the lateness of a call, 0 to 1.
pub(super) fn share(total_ns: u64, call: &CallCauses) -> f64 {
    let lateness =
        call.causes.iter().fold(0u64, |sum, one| sum.saturating_add(one.time.total_ns)).max(call.late.total_ns);
    if lateness == 0 { 0.0 } else { total_ns as f64 / lateness as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_record::{CauseTime, LatePart, Spread};

    fn time(part: LatePart, cause: Cause, culprit: Option<&str>, total_ns: u64) -> CauseTime {
        let time = Spread { count: 10, total_ns, p50_ns: total_ns / 10, p99_ns: None, max_ns: total_ns };
        CauseTime { part, cause, culprit: culprit.map(str::to_owned), time, stretches_ns: Vec::new() }
    }

    #[test]
    fn many_small_culprits_outweigh_one_larger_cause() {
        let mut causes = vec![time(LatePart::TimerSet, Cause::TimerSlack, None, 500)];
        for name in ["a", "b", "c"] {
            causes.push(time(LatePart::RunQueue, Cause::OtherThread, Some(name), 200));
        }
        let late = Spread { count: 10, total_ns: 1_100, p50_ns: 110, p99_ns: None, max_ns: 200 };
        let call = CallCauses { causes, late, ..CallCauses::default() };
        let ranked = ranked(&call, false);
        assert_eq!(ranked[0].why.cause, Cause::TimerSlack);
        let (total, culprits) = leading(&ranked).unwrap();
        assert_eq!((culprits[0].why.cause, total, culprits.len()), (Cause::OtherThread, 600, 3));
        assert_eq!(each(total, &call), 60.0);
        assert!((share(total, &call) - 600.0 / 1_100.0).abs() < 1e-12);
    }

    #[test]
    fn a_cause_in_two_parts_is_one_and_none_without_time_is_named() {
        let softirq = |part, ns| time(part, Cause::Softirq, Some("NET_RX"), ns);
        let causes = vec![
            softirq(LatePart::TimerInterrupt, 10),
            softirq(LatePart::RunQueue, u64::MAX),
            time(LatePart::Return, Cause::Signal, None, 0),
        ];
        let call = CallCauses { causes, ..CallCauses::default() };
        let ranked = ranked(&call, false);
        assert_eq!((ranked.len(), ranked[0].total_ns), (1, u64::MAX));
        assert!(share(u64::MAX, &call) <= 1.0);
    }
}

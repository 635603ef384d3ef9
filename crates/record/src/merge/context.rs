//! Merges the context of the figures: machine, conditions, clock, disturbance and notices.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::identity::keys_by_label;
use crate::model::{ConditionSet, Disturbance, Host, Notice, Run};

/// Merges everything but series, conditions and missing subjects.
pub(super) fn merge(run: &mut Run, next: &Run) {
    run.disturbance = disturbance(run, next);
    run.started = run.started.min(next.started);
    run.elapsed_ns = run.elapsed_ns.saturating_add(next.elapsed_ns);
    run.complete &= next.complete;
    run.host = common(&run.host, &next.host);
    // Every figure contains the cost of its clock: the largest cost is the safe one to report.
    run.clock.read_ns = run.clock.read_ns.max(next.clock.read_ns);
    run.clock.resolution_ns = run.clock.resolution_ns.max(next.clock.resolution_ns);
    run.clock.granularity_ns = run.clock.granularity_ns.max(next.clock.granularity_ns);
    notices(&mut run.notices, &next.notices);
}

/// Facts that both machines share; others are absent.
fn common(one: &Host, other: &Host) -> Host {
    let (Ok(one_json), Ok(other_json)) = (serde_json::to_value(one), serde_json::to_value(other)) else {
        return Host::default();
    };
    serde_json::from_value(shared(one_json, other_json)).unwrap_or_default()
}

fn shared(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(mut other)) => {
            let both = one.into_iter().filter_map(|(name, value)| {
                let theirs = other.remove(&name)?;
                Some((name, shared(value, theirs)))
            });
            Value::Object(both.collect())
        }
        (Value::Array(one), Value::Array(other)) if one != other => Value::Array(Vec::new()),
        (one, other) if one == other => one,
        _ => Value::Null,
    }
}

/// Adds the condition sets of another run. Returns the new names of labels that have another meaning here.
pub(super) fn conditions(sets: &mut Vec<ConditionSet>, next: &[ConditionSet]) -> BTreeMap<String, String> {
    let labels: Vec<String> = sets.iter().map(|set| set.label.clone()).collect();
    let places: BTreeMap<&str, usize> =
        labels.iter().enumerate().map(|(place, label)| (label.as_str(), place)).collect();
    let known: BTreeMap<String, usize> =
        keys_by_label(sets).into_iter().filter_map(|(label, key)| Some((key, *places.get(label)?))).collect();
    let keys = keys_by_label(next);
    let mut taken: BTreeSet<String> = labels.iter().cloned().collect();
    let mut renamed = BTreeMap::new();
    for set in next {
        let key = keys.get(set.label.as_str());
        let new = match key.and_then(|key| known.get(key)) {
            Some(&place) => {
                refusals(&mut sets[place], set);
                sets[place].label.clone()
            }
            None => {
                let free = free_label(&taken, &set.label);
                taken.insert(free.clone());
                sets.push(ConditionSet { label: free.clone(), ..set.clone() });
                free
            }
        };
        if new != set.label {
            renamed.insert(set.label.clone(), new);
        }
    }
    renamed
}

fn refusals(known: &mut ConditionSet, set: &ConditionSet) {
    for refusal in &set.refused {
        if !known.refused.contains(refusal) {
            known.refused.push(refusal.clone());
        }
    }
}

/// The label, with a number if it is taken.
fn free_label(taken: &BTreeSet<String>, label: &str) -> String {
    let mut free = label.to_owned();
    let mut number = 2;
    while taken.contains(&free) {
        free = format!("{label} #{number}");
        number += 1;
    }
    free
}

fn disturbance(run: &Run, next: &Run) -> Disturbance {
    let (one, other) = (&run.disturbance, &next.disturbance);
    let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    let (t, u) = (run.elapsed_ns as f64, next.elapsed_ns as f64);
    let mean = |a: Option<f64>, b: Option<f64>| {
        let (a, b) = a.zip(b)?;
        // Weighted first: the mean lies between the shares, however large those that a file claims.
        (t + u > 0.0).then(|| a * (t / (t + u)) + b * (u / (t + u)))
    };
    Disturbance {
        steal_ns: sum(one.steal_ns, other.steal_ns),
        steal_share: mean(one.steal_share, other.steal_share),
        involuntary_switches: sum(one.involuntary_switches, other.involuntary_switches),
        interrupts: sum(one.interrupts, other.interrupts),
        context_switches: sum(one.context_switches, other.context_switches),
        busy_share: mean(one.busy_share, other.busy_share),
        cpu_pressure_before: one.cpu_pressure_before.zip(other.cpu_pressure_before).map(|(a, b)| a.max(b)),
        major_faults: sum(one.major_faults, other.major_faults),
        // A process belongs to one machine and one run: `merged_from` has them.
        busiest: Vec::new(),
    }
}

fn notices(list: &mut Vec<Notice>, next: &[Notice]) {
    for notice in next {
        if !list.contains(notice) {
            list.push(notice.clone());
        }
    }
}

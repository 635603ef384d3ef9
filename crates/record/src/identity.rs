//! When two series, of one run or of two, are of the same thing.
//!
//! In go the series of a run; out come [`Identity`]s, equal exactly when experiment, subject, quantity, parameters and the conditions
//! *as the kernel granted them* are. Labels do not count: `other` on a machine whose programs inherit a slack of 1 ns is not the
//! `other` of one where they inherit 50 µs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::model::{ConditionSet, Param, Quantity, Run, Series};

/// Parameters that describe the subject in words: the subject's name says as much, and the words may change.
pub const DESCRIPTIVE: [&str; 2] = ["call", "kind"];

/// What a series is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The experiment.
    pub experiment: String,
    /// The subject.
    pub subject: String,
    /// What the figures are.
    pub quantity: Quantity,
    /// Every parameter with its value, in one text, but for those of [`DESCRIPTIVE`].
    pub parameters: String,
    /// The conditions as they held, in one text.
    pub conditions: String,
}

/// The identities of all series of a run, in their order.
#[must_use]
pub fn identities(run: &Run) -> Vec<Identity> {
    let keys = keys_by_label(&run.conditions);
    let of = |series: &Series| {
        let key = keys.get(series.conditions.as_str()).cloned();
        Identity {
            experiment: series.experiment.clone(),
            subject: series.subject.clone(),
            quantity: series.quantity,
            parameters: parameters_key(series),
            conditions: key.unwrap_or_else(|| format!("label={:?};", series.conditions)),
        }
    };
    run.series.iter().map(of).collect()
}

/// The key of each set of conditions, by its label. Sets of one run that came to hold the same (a slack that was asked for and held
/// anyway) are told apart by their labels.
#[must_use]
pub fn keys_by_label(sets: &[ConditionSet]) -> BTreeMap<&str, String> {
    let mut keys = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for set in sets {
        let mut key = conditions_key(set);
        if !taken.insert(key.clone()) {
            let _ = write!(key, "label={:?};", set.label);
        }
        keys.entry(set.label.as_str()).or_insert(key);
    }
    keys
}

fn parameters_key(series: &Series) -> String {
    let mut key = String::new();
    let telling = |name: &&String| !DESCRIPTIVE.contains(&name.as_str());
    for (name, value) in series.parameters.iter().filter(|(name, _)| telling(name)) {
        // Writing to a string cannot fail.
        let _ = match value {
            Param::Flag(flag) => write!(key, "{name:?}={flag};"),
            Param::Int(n) => write!(key, "{name:?}={n};"),
            Param::Real(x) => write!(key, "{name:?}={x:e};"),
            Param::Text(text) => write!(key, "{name:?}={text:?};"),
        };
    }
    key
}

/// The conditions as they held, in one text that is equal exactly when they are. CPUs count where they were asked for: otherwise they are
/// those of the machine. Timer slack does not count under real-time policies, which the kernel does not apply it to.
fn conditions_key(set: &ConditionSet) -> String {
    let applied = &set.applied;
    let policy = applied.policy.as_deref().unwrap_or("unknown");
    let real_time = ["fifo", "rr", "deadline"].iter().any(|name| policy.starts_with(name));
    let mut key = format!("policy={policy:?};");
    let mut add = |name: &str, value: Option<String>| {
        let _ = write!(key, "{name}={};", value.as_deref().unwrap_or("unknown"));
    };
    add("nice", applied.nice.map(|nice| nice.to_string()));
    if set.asked.cpus.is_some() {
        add("cpus", applied.cpus.as_ref().map(|cpus| format!("{cpus:?}")));
    }
    add("lock_memory", applied.lock_memory.map(|locked| locked.to_string()));
    if !real_time {
        add("timer_slack_ns", applied.timer_slack_ns.map(|ns| ns.to_string()));
    }
    if applied.governor.is_some() {
        add("governor", applied.governor.clone());
    }
    add("dma_latency_us", applied.dma_latency_us.map(|us| us.to_string()));
    key
}

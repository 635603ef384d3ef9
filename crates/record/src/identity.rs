//! Identity of series, within one run or between two.
//!
//! Takes the series of a run and returns their [`Identity`]s. Two are equal exactly when experiment, subject, quantity,
//! parameters and the conditions *as granted by the kernel* are equal. Labels do not count: `other` with an inherited
//! slack of 1 ns differs from `other` with 50 µs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::experiment::Param;
use crate::model::{CPU, ConditionSet, Quantity, Run, Setting, TIMER_SLACK};

/// Conditions of every thread: they always count. Other conditions count only where they were asked for.
const EVERYWHERE: [&str; 5] = ["policy", "nice", "lock-memory", TIMER_SLACK, "dma-latency"];

/// The identity of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The experiment.
    pub experiment: String,
    /// The subject.
    pub subject: String,
    /// What the figures are.
    pub quantity: Quantity,
    /// Every parameter with its value, in one text.
    pub parameters: String,
    /// The conditions as they held, in one text.
    pub conditions: String,
}

/// The identities of all series of a run, in their order.
#[must_use]
pub fn identities(run: &Run) -> Vec<Identity> {
    let keys = keys_by_label(&run.conditions);
    let mut all = Vec::with_capacity(run.series.len());
    for series in &run.series {
        let key = keys.get(series.conditions.as_str()).cloned();
        all.push(Identity {
            experiment: series.experiment.name().to_owned(),
            subject: series.subject.clone(),
            quantity: series.quantity,
            parameters: parameters_key(&series.experiment.parameters()),
            conditions: key.unwrap_or_else(|| format!("label={:?};", series.conditions)),
        });
    }
    all
}

/// The key of each set of conditions, by label. Sets of one run with the same settings (a requested slack that held
/// anyway) are distinguished by their labels.
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

fn parameters_key(parameters: &BTreeMap<String, Param>) -> String {
    let mut key = String::new();
    for (name, value) in parameters {
        push(&mut key, name, Some(value));
    }
    key
}

/// The settings in which two sets differ, by condition name. Timer slack does not count under real-time policies: the
/// kernel does not apply it there.
#[must_use]
pub fn telling(set: &ConditionSet) -> BTreeMap<&str, &Setting> {
    let counts = |setting: &&Setting| match setting.condition.as_str() {
        // Other conditions belong to the machine.
        CPU => setting.asked.is_some(),
        TIMER_SLACK => !set.is_real_time(),
        name => EVERYWHERE.contains(&name) || setting.asked.is_some(),
    };
    set.settings.iter().filter(counts).map(|setting| (setting.condition.as_str(), setting)).collect()
}

/// The conditions as they held, in one text that is equal exactly when they are.
fn conditions_key(set: &ConditionSet) -> String {
    let mut key = String::new();
    for (condition, setting) in telling(set) {
        push(&mut key, condition, setting.applied.as_ref());
    }
    key
}

fn push(key: &mut String, name: &str, value: Option<&Param>) {
    // Writing to a string cannot fail.
    let _ = match value {
        None => write!(key, "{name:?}=unknown;"),
        Some(Param::Flag(flag)) => write!(key, "{name:?}={flag};"),
        Some(Param::Int(n)) => write!(key, "{name:?}={n};"),
        Some(Param::Real(x)) => write!(key, "{name:?}={x:e};"),
        Some(Param::Text(text)) => write!(key, "{name:?}={text:?};"),
    };
}

//! Identity of series, within one run or between two.
//!
//! Takes the series of a run and returns their [`Identity`]s. Two are equal exactly when experiment, subject, quantity,
//! parameters and the conditions *as granted by the kernel* are equal. Labels do not count: `other` with an inherited
//! slack of 1 ns differs from `other` with 50 µs.

use std::collections::{BTreeMap, BTreeSet};

use crate::experiment::Param;
use crate::model::{CPU, ConditionSet, Quantity, Run, Series, Setting, TIMER_SLACK};

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
    let identity = |series: &Series| {
        let key = keys.get(series.conditions.as_str()).cloned();
        Identity {
            experiment: series.experiment.name().to_owned(),
            subject: series.subject.clone(),
            quantity: series.quantity,
            parameters: series.experiment.parameters().iter().map(|(name, value)| part(name, Some(value))).collect(),
            conditions: key.unwrap_or_else(|| format!("label={:?};", series.conditions)),
        }
    };
    run.series.iter().map(identity).collect()
}

/// The key of each set of conditions, by label. Sets of one run with the same settings (a requested slack that held
/// anyway) are distinguished by their labels.
#[must_use]
pub fn keys_by_label(sets: &[ConditionSet]) -> BTreeMap<&str, String> {
    let mut keys = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for set in sets {
        let parts = telling(set).into_iter().map(|(condition, setting)| part(condition, setting.applied.as_ref()));
        let mut key: String = parts.collect();
        if !taken.insert(key.clone()) {
            key += &format!("label={:?};", set.label);
        }
        keys.entry(set.label.as_str()).or_insert(key);
    }
    keys
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

/// A value in a key: keys are equal exactly when all values are.
fn part(name: &str, value: Option<&Param>) -> String {
    match value {
        None => format!("{name:?}=unknown;"),
        Some(Param::Flag(flag)) => format!("{name:?}={flag};"),
        Some(Param::Int(n)) => format!("{name:?}={n};"),
        Some(Param::Real(x)) => format!("{name:?}={x:e};"),
        Some(Param::Text(text)) => format!("{name:?}={text:?};"),
    }
}

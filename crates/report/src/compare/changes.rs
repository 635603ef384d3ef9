//! Differences between the machines, programs and clocks of two sides.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::Host;
use serde_json::Value;

use super::outcome::Change;
use super::side::Side;

/// Facts that differ between any two runs and mean nothing.
const PASSING: [&str; 2] = ["load1", "name"];

/// Shares of CPU time above which a disturbance is reported.
const STEAL: f64 = 0.01;
const BUSY: f64 = 0.05;

/// The differing facts. Most are read by name from the record, so a new fact is compared automatically.
pub(super) fn between(old: &Side, new: &Side) -> Vec<Change> {
    let (old_facts, new_facts) = (facts(old), facts(new));
    let names: BTreeSet<&String> = old_facts.keys().chain(new_facts.keys()).collect();
    let shown = |values: Option<&BTreeSet<String>>| {
        values.map_or("unknown".to_owned(), |values| values.iter().cloned().collect::<Vec<_>>().join(" or "))
    };
    let mut changes = Vec::new();
    for name in names {
        let (its_old, its_new) = (old_facts.get(name), new_facts.get(name));
        if its_old != its_new {
            changes.push(Change { what: name.replace(['_', '.'], " "), old: shown(its_old), new: shown(its_new) });
        }
    }
    changes.extend(disturbance(old, new));
    changes
}

/// What differs of the machine itself and its kernel.
pub(super) fn of_machine(old: &Side, new: &Side) -> Vec<Change> {
    type Fact = fn(&Host) -> Option<String>;
    let facts: [(&str, Fact); 6] = [
        ("CPU", |host| host.cpu_model.clone()),
        ("architecture", |host| host.architecture.clone()),
        ("number of CPUs", |host| host.cpus_present.map(|cpus| cpus.to_string())),
        ("hypervisor", |host| host.hypervisor.clone()),
        ("emulator", |host| Some(host.emulator.clone().unwrap_or_else(|| "none".to_owned()))),
        ("kernel", |host| host.kernel.clone()),
    ];
    let told = |side: &Side, fact: Fact| {
        let values: BTreeSet<String> = side.hosts().filter_map(fact).collect();
        values.into_iter().collect::<Vec<_>>().join(" or ")
    };
    let change = |(what, fact): (&str, Fact)| {
        let (old, new) = (told(old, fact), told(new, fact));
        // What one side does not know is not shown to differ.
        (old != new && !old.is_empty() && !new.is_empty()).then(|| Change { what: what.into(), old, new })
    };
    facts.into_iter().filter_map(change).collect()
}

/// All facts of a side's runs, by name.
fn facts(side: &Side) -> BTreeMap<String, BTreeSet<String>> {
    let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for host in side.hosts() {
        if let Ok(Value::Object(fields)) = serde_json::to_value(host) {
            let fields = fields.into_iter().filter(|(name, _)| !PASSING.contains(&name.as_str()));
            collect("", Value::Object(fields.collect()), &mut facts);
        }
    }
    for run in &side.runs {
        facts.entry("punctual version".into()).or_default().insert(run.source.tool.version.clone());
        facts.entry("clock read by".into()).or_default().insert(run.source.clock.source.clone());
    }
    facts
}

fn collect(name: &str, value: Value, facts: &mut BTreeMap<String, BTreeSet<String>>) {
    let text = match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let full = if name.is_empty() { field } else { format!("{name}.{field}") };
                collect(&full, value, facts);
            }
            return;
        }
        Value::Null => "unknown".to_owned(),
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text,
        Value::Array(items) => {
            let item = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            items.iter().map(item).collect::<Vec<_>>().join("+")
        }
        other => other.to_string(),
    };
    facts.entry(name.to_owned()).or_default().insert(text);
}

/// The largest steal and the largest CPU load on either side.
fn disturbance(old: &Side, new: &Side) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut tell = |what: &str, least: f64, share: &dyn Fn(&punctual_record::Disturbance) -> Option<f64>| {
        let worst = |side: &Side| {
            let shares = side.runs.iter().filter_map(|run| share(&run.source.disturbance)).filter(|s| s.is_finite());
            shares.reduce(f64::max)
        };
        let (Some(a), Some(b)) = (worst(old), worst(new)) else { return };
        if a.max(b) >= least && a.max(b) > 2.0 * a.min(b) {
            changes.push(Change {
                what: what.into(),
                old: crate::format::units::share(a),
                new: crate::format::units::share(b),
            });
        }
    };
    tell("CPU time stolen by the hypervisor", STEAL, &|d| d.steal_share);
    tell("CPUs busy", BUSY, &|d| d.busy_share);
    changes
}

/// Why nothing can be compared: different clocks.
pub(super) fn other_clock(old: &Side, new: &Side) -> Option<String> {
    let clocks = |side: &Side| side.runs.iter().map(|run| run.source.clock.source.clone()).collect::<BTreeSet<_>>();
    let (old, new) = (clocks(old), clocks(new));
    let list = |clocks: BTreeSet<String>| clocks.into_iter().collect::<Vec<_>>().join(" and ");
    (old != new || old.len() > 1).then(|| format!("other clock: {} -> {}", list(old), list(new)))
}

//! Reads files of version 1 of the format. It stored parameters and results as maps of names and values, and
//! conditions as fields.
//!
//! Takes the text of such a file and returns a current [`Run`]. The types of each experiment pick the names they know
//! from both maps. Nothing is written in version 1.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::{
    Clock, ConditionSet, Disturbance, Host, NotMeasured, Notice, Refusal, Run, SCHEMA as NEW, Series, Setting, Source,
    Tool, Written,
};
use crate::param::Param;

/// The name and version of the format.
pub(crate) const SCHEMA: &str = "punctual.run/1";

/// Reads a run of version 1.
pub(crate) fn read(text: &[u8]) -> serde_json::Result<Run> {
    let old: Old = serde_json::from_slice(text)?;
    let mut series = Vec::with_capacity(old.series.len());
    for written in old.series {
        let typed = Series::try_from(typed(written)).map_err(serde::de::Error::custom)?;
        series.push(typed);
    }
    let mut run = Run {
        schema: NEW.to_owned(),
        tool: old.tool,
        started: old.started,
        elapsed_ns: old.elapsed_ns,
        complete: old.complete,
        subcommand: subcommand(&old.command),
        command: old.command,
        host: old.host,
        conditions: old.conditions.into_iter().map(OldSet::set).collect(),
        clock: old.clock,
        series,
        not_measured: old.not_measured,
        notices: old.notices,
        disturbance: old.disturbance,
        limits: Vec::new(),
        causes: None,
        paths: Vec::new(),
        merged_from: old.merged_from,
    };
    relabel(&mut run);
    Ok(run)
}

/// Labels sets by the phrases of their requested settings, as current runs do. Sets that this would make equal keep
/// their label.
fn relabel(run: &mut Run) {
    let mut labels: BTreeMap<String, String> = BTreeMap::new();
    for set in &run.conditions {
        let asked = set.settings.iter().filter(|setting| setting.asked.is_some());
        let phrases: Vec<&str> = asked.map(|setting| setting.phrase.as_str()).collect();
        let label = if phrases.is_empty() { "as found".to_owned() } else { phrases.join(", ") };
        let taken = labels.values().any(|known| *known == label);
        labels.insert(set.label.clone(), if taken { set.label.clone() } else { label });
    }
    let rename = |label: &mut String| {
        if let Some(new) = labels.get(label) {
            label.clone_from(new);
        }
    };
    run.conditions.iter_mut().for_each(|set| rename(&mut set.label));
    run.series.iter_mut().for_each(|series| rename(&mut series.conditions));
    run.not_measured.iter_mut().filter_map(|missing| missing.conditions.as_mut()).for_each(rename);
    for notice in &mut run.notices {
        if let Notice::ConditionRefused { conditions, .. }
        | Notice::ConditionNotKept { conditions, .. }
        | Notice::WatchdogTripped { conditions, .. } = notice
        {
            rename(conditions);
        }
    }
}

/// A run of version 1.
#[derive(Deserialize)]
struct Old {
    tool: Tool,
    started: jiff::Timestamp,
    elapsed_ns: u64,
    complete: bool,
    command: Vec<String>,
    host: Host,
    conditions: Vec<OldSet>,
    clock: Clock,
    #[serde(deserialize_with = "crate::model::bounded")]
    series: Vec<Written>,
    not_measured: Vec<NotMeasured>,
    notices: Vec<Notice>,
    disturbance: Disturbance,
    #[serde(default)]
    merged_from: Vec<Source>,
}

/// The command's name is the second word of the recorded command line, whether or not it was typed.
fn subcommand(command: &[String]) -> String {
    let words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
    match words.as_slice() {
        ["governor", which, ..] => format!("governor {which}"),
        [first, ..] => (*first).to_owned(),
        [] => String::new(),
    }
}

/// The series in the form of version 2. Both maps stand under both names, so that the types can pick from them.
fn typed(mut series: Written) -> Written {
    let object = |value| match value {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    let mut all = object(std::mem::take(&mut series.parameters));
    all.extend(object(series.outcome.take().unwrap_or_default()));
    let text = |value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    series.call = all.remove("call").and_then(text);
    series.kind = all.remove("kind").and_then(text);
    if let Some(doubled) = all.remove("doubled") {
        all.insert("duplicates".to_owned(), doubled);
    }
    let shares: Map<String, Value> = all
        .iter()
        .filter_map(|(name, share)| {
            let khz = name.strip_prefix("khz_")?.strip_suffix("_share")?;
            Some((khz.to_owned(), share.clone()))
        })
        .collect();
    if !shares.is_empty() {
        all.insert("residency".to_owned(), Value::Object(shares));
    }
    if series.experiment == "pace" && all.contains_key("highest_rate_held") {
        series.experiment = "sweep".to_owned();
    }
    series.parameters = Value::Object(all.clone());
    series.metrics = Some(Value::Object(all));
    series
}

/// A set of conditions of version 1.
#[derive(Deserialize)]
struct OldSet {
    label: String,
    asked: Values,
    applied: Values,
    refused: Vec<Refusal>,
}

/// The conditions of version 1.
#[derive(Default, Deserialize)]
struct Values {
    policy: Option<String>,
    nice: Option<i32>,
    cpus: Option<String>,
    lock_memory: Option<bool>,
    timer_slack_ns: Option<u64>,
    dma_latency_us: Option<u32>,
    governor: Option<String>,
}

impl Values {
    fn by_name(self) -> BTreeMap<&'static str, Param> {
        let Self { policy, nice, cpus, lock_memory, timer_slack_ns, dma_latency_us, governor } = self;
        let int = |n: Option<i64>| n.map(Param::Int);
        let slack = timer_slack_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let all = [
            ("policy", policy.map(Param::Text)),
            ("nice", int(nice.map(i64::from))),
            ("cpu", cpus.map(Param::Text)),
            ("lock-memory", lock_memory.map(Param::Flag)),
            ("timer-slack", int(slack)),
            ("dma-latency", int(dma_latency_us.map(|us| i64::from(us) * 1000))),
            ("governor", governor.map(Param::Text)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The conditions of version 1, in the order of the table.
const NAMES: [&str; 7] = ["policy", "nice", "cpu", "timer-slack", "lock-memory", "dma-latency", "governor"];

impl OldSet {
    fn set(self) -> ConditionSet {
        let (mut asked, mut applied) = (self.asked.by_name(), self.applied.by_name());
        let setting = |name: &&'static str| {
            let (asked, applied) = (asked.remove(name), applied.remove(name));
            let phrase = phrase(name, applied.as_ref().or(asked.as_ref())?);
            Some(Setting { condition: (*name).to_owned(), asked, applied, phrase, code: None, price: None })
        };
        let settings = NAMES.iter().filter_map(setting).collect();
        ConditionSet { label: self.label, settings, refused: self.refused }
    }
}

/// The phrase of a setting.
fn phrase(name: &str, value: &Param) -> String {
    match (name, value) {
        ("policy", Param::Text(policy)) => {
            let policy = policy.replacen("rr", "SCHED_RR", 1);
            let upper = ["other", "batch", "idle", "fifo", "deadline"]
                .iter()
                .fold(policy, |policy, word| policy.replacen(word, &format!("SCHED_{}", word.to_uppercase()), 1));
            upper.replacen(':', " ", 1)
        }
        ("cpu", Param::Text(list)) if list.contains(['-', ',']) => format!("CPUs {list}"),
        ("cpu", Param::Text(list)) => format!("CPU {list}"),
        ("governor", Param::Text(name)) => format!("governor {name}"),
        ("lock-memory", Param::Flag(true)) => "memory locked".to_owned(),
        ("lock-memory", _) => "memory not locked".to_owned(),
        ("timer-slack", Param::Int(ns)) => format!("slack {}", exact(*ns)),
        // A bound of 0 allows only the idle state that polls (Documentation/power/pm_qos_interface.rst).
        ("dma-latency", Param::Int(0)) => "C-states off".to_owned(),
        ("dma-latency", Param::Int(ns)) => format!("DMA latency {}", exact(*ns)),
        ("nice", Param::Int(nice)) => format!("nice {nice}"),
        (name, _) => name.to_owned(),
    }
}

/// In the largest unit that gives a whole number.
fn exact(ns: i64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let (divisor, unit) = units.into_iter().find(|(divisor, _)| ns % divisor == 0 && ns != 0).unwrap_or((1, "ns"));
    format!("{} {unit}", ns / divisor)
}

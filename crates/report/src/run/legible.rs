//! A run as a document shows it: its text neutralised, its conditions under the names that every form of report has.
//!
//! A run may come from anywhere. Families, pictures and the sections of a run take what [`legible`] returns and show its
//! text as it stands. The causes of wake-ups, trials of remedies and ways through the kernel neutralise their own text.
//! What other programs read keeps the run as it is.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::experiment::Other;
use punctual_record::{ConditionSet, Experiment, Hint, NotMeasured, Notice, Run, Series, Tool};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::format::{naming, sanitize};

/// The run with text that a terminal only displays. A series, a set of conditions and a notice name the set as the document does.
pub(super) fn legible(run: &Run) -> Run {
    let names = Names::new(run);
    let mut run = run.clone();
    let Tool { name, version } = &mut run.tool;
    [name, version, &mut run.subcommand, &mut run.clock.source].into_iter().for_each(clean);
    run.command.iter_mut().for_each(clean);
    run.host = neutral(&run.host).unwrap_or_default();
    run.conditions.iter_mut().for_each(|set| clean_set(set, &names));
    run.series.iter_mut().for_each(|series| clean_series(series, &names));
    run.not_measured.iter_mut().for_each(|missing| clean_missing(missing, &names));
    run.notices.iter_mut().for_each(|notice| name_conditions(notice, &names));
    run.disturbance.busiest.iter_mut().for_each(|process| clean(&mut process.name));
    run.merged_from = neutral(&run.merged_from).unwrap_or_default();
    run
}

/// What the sets of conditions of a run are called, by their labels.
struct Names(BTreeMap<String, String>);

impl Names {
    /// The names of all sets. Two sets of one name are told apart by a number: a policy that the run inherited, and the
    /// same one that was asked for.
    fn new(run: &Run) -> Self {
        let (mut names, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for ConditionSet { label, .. } in &run.conditions {
            if names.contains_key(label) {
                continue;
            }
            let name = naming::conditions(run, label);
            let numbered = (2..).map(|number| format!("{name} ({number})"));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
            names.insert(label.clone(), free.unwrap_or(name));
        }
        Self(names)
    }

    /// Replaces the label of a set by its name. A label without a set is its own name.
    fn replace(&self, label: &mut String) {
        *label = self.0.get(label).cloned().unwrap_or_else(|| naming::phrase(label));
    }
}

fn clean(text: &mut String) {
    *text = sanitize(text);
}

fn clean_hint(hint: &mut Hint) {
    *hint = std::mem::take(hint).with_texts(sanitize);
}

/// A value whose texts are all neutralised. `None`: JSON cannot hold it.
fn neutral<T: Serialize + DeserializeOwned>(value: &T) -> Option<T> {
    let mut fields = serde_json::to_value(value).ok()?;
    clean_fields(&mut fields);
    serde_json::from_value(fields).ok()
}

fn clean_fields(value: &mut Value) {
    match value {
        Value::String(text) => clean(text),
        Value::Array(items) => items.iter_mut().for_each(clean_fields),
        Value::Object(fields) => {
            fields.values_mut().for_each(clean_fields);
            *fields = std::mem::take(fields).into_iter().map(|(name, value)| (sanitize(&name), value)).collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn clean_set(set: &mut ConditionSet, names: &Names) {
    names.replace(&mut set.label);
    for setting in &mut set.settings {
        setting.phrase = naming::phrase(&setting.phrase);
    }
    for refusal in &mut set.refused {
        [&mut refusal.condition, &mut refusal.asked, &mut refusal.why].into_iter().for_each(clean);
        clean_hint(&mut refusal.remedy);
    }
}

fn clean_series(series: &mut Series, names: &Names) {
    names.replace(&mut series.conditions);
    clean(&mut series.subject);
    clean(&mut series.unit);
    let about = &mut series.about;
    [&mut about.kind, &mut about.call, &mut about.relative].into_iter().flatten().for_each(clean);
    about.code = about.code.as_deref().map(naming::code);
    series.experiment = neutral(&series.experiment).unwrap_or_else(|| Experiment::Other(Other::default()));
}

fn clean_missing(missing: &mut NotMeasured, names: &Names) {
    [&mut missing.experiment, &mut missing.subject, &mut missing.why].into_iter().for_each(clean);
    missing.conditions.iter_mut().for_each(|label| names.replace(label));
    missing.parameters = neutral(&missing.parameters).unwrap_or_default();
    missing.remedy.iter_mut().for_each(clean_hint);
}

/// The text of a notice is neutralised with its phrase.
fn name_conditions(notice: &mut Notice, names: &Names) {
    match notice {
        Notice::ConditionRefused { conditions, .. }
        | Notice::ConditionNotKept { conditions, .. }
        | Notice::WatchdogTripped { conditions, .. } => names.replace(conditions),
        _ => {}
    }
}

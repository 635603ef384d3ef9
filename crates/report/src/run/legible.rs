//! A run as a document shows it: its text neutralised, its conditions under the names that every form of report has.
//!
//! A run may come from anywhere. Families, pictures and the sections of a run take what [`legible`] returns and show its
//! text as it stands. The causes of wake-ups, trials of remedies and ways through the kernel neutralise their own text.
//! What other programs read keeps the run as it is.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::{ConditionSet, Experiment, Hint, Host, NotMeasured, Notice, Param, Run, Series, Source, Tool};

use crate::format::{naming, sanitize};

/// The run with text that a terminal only displays. A series, a set of conditions and a notice name the set as the document does.
pub(super) fn legible(run: &Run) -> Run {
    let names = Names::new(run);
    let mut run = run.clone();
    clean_tool(&mut run.tool);
    clean(&mut run.subcommand);
    run.command.iter_mut().for_each(clean);
    clean_host(&mut run.host);
    clean(&mut run.clock.source);
    run.conditions.iter_mut().for_each(|set| clean_set(set, &names));
    run.series.iter_mut().for_each(|series| clean_series(series, &names));
    run.not_measured.iter_mut().for_each(|missing| clean_missing(missing, &names));
    run.notices.iter_mut().for_each(|notice| name_conditions(notice, &names));
    run.disturbance.busiest.iter_mut().for_each(|process| clean(&mut process.name));
    run.merged_from.iter_mut().for_each(clean_source);
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

fn clean_tool(tool: &mut Tool) {
    clean(&mut tool.name);
    clean(&mut tool.version);
}

fn clean_host(host: &mut Host) {
    let facts = [
        &mut host.kernel,
        &mut host.kernel_version,
        &mut host.architecture,
        &mut host.preemption,
        &mut host.cpu_model,
        &mut host.cpus_allowed,
        &mut host.clocksource,
        &mut host.hypervisor,
        &mut host.emulator,
        &mut host.container,
        &mut host.isolated_cpus,
        &mut host.nohz_full_cpus,
        &mut host.name,
    ];
    facts.into_iter().flatten().for_each(clean);
    if let Some(idle) = &mut host.cpuidle {
        [&mut idle.driver, &mut idle.governor, &mut idle.deepest_state].into_iter().flatten().for_each(clean);
    }
    if let Some(cpufreq) = &mut host.cpufreq {
        cpufreq.driver.iter_mut().for_each(clean);
        cpufreq.governors.iter_mut().for_each(clean);
        cpufreq.epp.iter_mut().for_each(clean);
    }
}

fn clean_source(source: &mut Source) {
    clean_tool(&mut source.tool);
    source.command.iter_mut().for_each(clean);
    clean_host(&mut source.host);
    clean(&mut source.clock.source);
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
    clean_experiment(&mut series.experiment);
}

fn clean_experiment(experiment: &mut Experiment) {
    match experiment {
        Experiment::Pace(pace) => pace.parameters.to.iter_mut().for_each(clean),
        Experiment::Cyclic(cyclic) => cyclic.parameters.load.iter_mut().for_each(clean),
        Experiment::Sweep(sweep) => {
            sweep.parameters.to.iter_mut().for_each(clean);
            sweep.metrics.why_not_higher.iter_mut().for_each(clean);
        }
        Experiment::Ramp(ramp) => {
            let metrics = &mut ramp.metrics;
            [&mut metrics.driver, &mut metrics.raised, &mut metrics.why].into_iter().flatten().for_each(clean);
        }
        Experiment::Boost(boost) => {
            boost.metrics.governor.iter_mut().for_each(clean);
            boost.metrics.lever.iter_mut().for_each(clean);
        }
        Experiment::Yield(yielding) => {
            yielding.parameters.competitor_policy.iter_mut().for_each(clean);
            yielding.metrics.observed.iter_mut().for_each(clean);
        }
        Experiment::Calls(calls) => {
            clean(&mut calls.parameters.program);
            clean(&mut calls.parameters.site);
        }
        Experiment::Other(other) => {
            clean(&mut other.name);
            clean_parameters(&mut other.parameters);
            clean_parameters(&mut other.metrics);
        }
        Experiment::Wait(_)
        | Experiment::OnTime(_)
        | Experiment::Calibrate(_)
        | Experiment::Polls(_)
        | Experiment::Switch(_)
        | Experiment::Ipc(_) => {}
    }
}

fn clean_parameters(parameters: &mut BTreeMap<String, Param>) {
    let clean = |(name, value): (String, Param)| match value {
        Param::Text(text) => (sanitize(&name), Param::Text(sanitize(&text))),
        other => (sanitize(&name), other),
    };
    *parameters = std::mem::take(parameters).into_iter().map(clean).collect();
}

fn clean_missing(missing: &mut NotMeasured, names: &Names) {
    [&mut missing.experiment, &mut missing.subject, &mut missing.why].into_iter().for_each(clean);
    missing.conditions.iter_mut().for_each(|label| names.replace(label));
    clean_parameters(&mut missing.parameters);
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

//! One method under one set of conditions: nothing to rank, so the text describes the method and suggests a comparison.

use punctual_record::Run;

use crate::format::units;

use super::figures::{Figure, Figures};
use super::finding::{Code, Finding, Place, Sentence};

/// What the method does; nothing where there are several methods or sets of conditions.
#[must_use]
pub fn alone(figures: &Figures<'_>) -> Option<Finding> {
    let [row] = figures.rows.as_slice() else { return None };
    let late = |ns: i64| units::duration(ns);
    let mut head = Sentence::new(format!("{} ", row.subject));
    head = match (row.effective_ns.filter(|&ns| ns > figures.asked_ns), row.p50) {
        (Some(ns), Some(p50)) => {
            let head = head.words("counts in coarser units: it waits ").figure(units::exact(ns));
            head.words(", and ends ").figure(late(p50.value)).words(" later than asked at p50")
        }
        (_, Some(p50)) => head.words("ends ").figure(late(p50.value)).words(" late at p50"),
        (_, None) => return Some(Finding::new(Place::Answer, head.words("has too few samples for a median."))),
    };
    if let Some(p99) = row.p99 {
        head = head.words(", ").figure(late(p99.value)).words(" at p99");
    }
    let mut finding = Finding::new(Place::Answer, head.words("."));
    finding.tails.extend(cost(row));
    finding.code = row.code.clone().map(Code::Call);
    Some(finding)
}

fn cost(row: &Figure<'_>) -> Option<Sentence> {
    let (ns, share) = (row.cpu_ns?, row.cpu_share?);
    let cost = Sentence::new("It takes ").figure(units::duration_fine(ns));
    let cost = cost.words(" of CPU time per wait, ").figure(units::share(share)).words(" of a CPU while waiting");
    Some(match row.sleeps() {
        Some(false) => cost.words(": it does not sleep."),
        _ => cost.words("."),
    })
}

/// The command that puts the one method of a run beside another and under less timer slack; nothing where the run has more already.
#[must_use]
pub fn comparison(run: &Run) -> Option<String> {
    let subject = &run.series.first()?.subject;
    let first = run.series.first()?;
    if run.series.iter().any(|its| its.subject != *subject || its.conditions != first.conditions) {
        return None;
    }
    // The name stands in a command line: one that is not a plain word is none of ours.
    if subject.is_empty() || !subject.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let other = if subject == "clock_nanosleep_abs" { "timerfd" } else { "clock_nanosleep_abs" };
    let typed = |ns: i64| units::exact(ns).replace(' ', "").replace('µ', "u");
    let mut durations: Vec<i64> =
        run.series.iter().filter_map(|its| Some(its.experiment.any_wait()?.parameters.asked_ns)).collect();
    durations.sort_unstable();
    durations.dedup();
    let durations: Vec<String> = durations.into_iter().map(typed).collect();
    let slack = run.host.timer_slack_ns.and_then(|ns| i64::try_from(ns).ok()).filter(|&ns| ns > 1).unwrap_or(50_000);
    let mut command = format!("punctual wait {subject} {other}");
    if !durations.is_empty() {
        command.push_str(&format!(" --for {}", durations.join(",")));
    }
    Some(format!("{command} --timer-slack {},1ns", typed(slack)))
}

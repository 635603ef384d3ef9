//! The command that puts the one method of a run beside another one and under less timer slack.

use punctual_record::Run;

use crate::document::{Block, Item, Section};
use crate::format::units;

/// The section; nothing where the run has several methods or sets of conditions already.
pub(super) fn section(run: &Run) -> Option<Section> {
    let item = Item {
        text: "To see what another method, or less timer slack, would change:".to_owned(),
        code: Some(command(run)?),
    };
    Some(Section::default().with(Block::Items(vec![item])))
}

fn command(run: &Run) -> Option<String> {
    let first = run.series.first()?;
    let subject = &first.subject;
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

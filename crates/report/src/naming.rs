//! What a set of conditions is called: by what held, as far as the sets of the run differ in it, with what was refused.
//! The label of the run is used only where that would not tell two sets apart.

use punctual_record::{ConditionSet, Run};

use crate::background::is_real_time;
use crate::plain::plain;
use crate::style::Style;
use crate::units;

/// What a series' conditions are called: `other, slack 50 µs`, `fifo:40`, `other, CPU 1`. The slack is left out where another
/// condition names the set and the slack is that of the run's first set.
pub(crate) fn conditions(run: &Run, label: &str, style: &Style) -> String {
    let Some(set) = run.conditions.iter().find(|set| set.label == label) else { return plain(label, style) };
    let others = || run.conditions.iter().filter(|other| other.label != label);
    let candidates = [short, full];
    let unique = candidates
        .iter()
        .map(|name| (name(run, set, style), name))
        .find(|(mine, name)| !mine.is_empty() && !others().any(|other| name(run, other, style) == *mine));
    unique.map_or_else(|| with_refused(plain(label, style), set, style), |(name, _)| name)
}

/// Policy, slack unless it is as in the first set, and what else was asked of this set and not of all.
fn short(run: &Run, set: &ConditionSet, style: &Style) -> String {
    let asked = asked_of_some(run, set, style);
    let usual_slack = run.conditions.first().is_some_and(|first| slack_ns(first) == slack_ns(set));
    let slack = slack(set, style).filter(|_| asked.is_empty() || !usual_slack);
    joined(set, slack, asked, style)
}

fn full(run: &Run, set: &ConditionSet, style: &Style) -> String {
    joined(set, slack(set, style), asked_of_some(run, set, style), style)
}

fn joined(set: &ConditionSet, slack: Option<String>, asked: Vec<String>, style: &Style) -> String {
    let policy = policy(set).map(|policy| plain(policy, style));
    let words: Vec<String> = policy.into_iter().chain(slack).chain(asked).collect();
    with_refused(words.join(", "), set, style)
}

fn policy(set: &ConditionSet) -> Option<&str> {
    set.asked.policy.as_deref().or(set.applied.policy.as_deref())
}

/// A real-time thread has no timer slack (prctl(2), PR_SET_TIMERSLACK): it is named there only when it was asked for.
fn slack_ns(set: &ConditionSet) -> Option<u64> {
    match policy(set) {
        Some(policy) if is_real_time(policy) => set.asked.timer_slack_ns,
        _ => set.applied.timer_slack_ns.or(set.asked.timer_slack_ns),
    }
}

fn slack(set: &ConditionSet, style: &Style) -> Option<String> {
    let ns = i64::try_from(slack_ns(set)?).unwrap_or(i64::MAX);
    Some(format!("slack {}", units::exact(ns, style)))
}

/// What was asked of this set besides policy and slack, but for what was asked of all sets alike.
fn asked_of_some(run: &Run, set: &ConditionSet, style: &Style) -> Vec<String> {
    let all = |same: &dyn Fn(&ConditionSet) -> bool| run.conditions.iter().all(same);
    let asked = &set.asked;
    let mut words = Vec::new();
    words.extend(asked.nice.filter(|_| !all(&|its| its.asked.nice == asked.nice)).map(|nice| format!("nice {nice}")));
    let cpus = asked.cpus.as_deref().filter(|_| !all(&|its| its.asked.cpus == asked.cpus));
    words.extend(cpus.map(|list| cpu_list(list, style)));
    let locked = asked.lock_memory.filter(|_| !all(&|its| its.asked.lock_memory == asked.lock_memory));
    words.extend(locked.map(|locked| if locked { "memory locked" } else { "memory not locked" }.to_owned()));
    let latency = asked.dma_latency_us.filter(|_| !all(&|its| its.asked.dma_latency_us == asked.dma_latency_us));
    words.extend(latency.map(|us| dma_latency(us, style)));
    let governor = asked.governor.as_deref().filter(|_| !all(&|its| its.asked.governor == asked.governor));
    words.extend(governor.map(|name| format!("governor {}", plain(name, style))));
    words
}

/// What was asked of every set of the run alike, besides policy and slack.
pub(crate) fn asked_of_all(run: &Run, style: &Style) -> Vec<String> {
    let Some(first) = run.conditions.first().map(|set| &set.asked) else { return Vec::new() };
    let all = |same: &dyn Fn(&ConditionSet) -> bool| run.conditions.iter().all(same);
    let mut words = Vec::new();
    let cpus = first.cpus.as_deref().filter(|_| all(&|its| its.asked.cpus == first.cpus));
    words.extend(cpus.map(|list| cpu_list(list, style)));
    words.extend(first.nice.filter(|_| all(&|its| its.asked.nice == first.nice)).map(|nice| format!("nice {nice}")));
    let locked = first.lock_memory == Some(true) && all(&|its| its.asked.lock_memory == first.lock_memory);
    words.extend(locked.then(|| "locked memory".to_owned()));
    let latency = first.dma_latency_us.filter(|_| all(&|its| its.asked.dma_latency_us == first.dma_latency_us));
    words.extend(latency.map(|us| format!("DMA latency at most {}", units::exact(i64::from(us) * 1000, style))));
    words
}

/// `CPU 1`, `CPUs 0-3,8`.
pub(crate) fn cpu_list(list: &str, style: &Style) -> String {
    let several = if list.contains(['-', ',']) { "s" } else { "" };
    format!("CPU{several} {}", plain(list, style))
}

/// A bound of 0 allows only the idle state that polls (Documentation/power/pm_qos_interface.rst).
fn dma_latency(us: u32, style: &Style) -> String {
    match us {
        0 => "C-states off".to_owned(),
        us => format!("DMA latency {}", units::exact(i64::from(us) * 1000, style)),
    }
}

fn with_refused(name: String, set: &ConditionSet, style: &Style) -> String {
    let refused: Vec<String> = set.refused.iter().map(|refusal| plain(&refusal.condition, style)).collect();
    if refused.is_empty() || name.is_empty() { name } else { format!("{name} ({} refused)", refused.join(", ")) }
}

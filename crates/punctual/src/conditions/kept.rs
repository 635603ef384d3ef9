//! Whether conditions that were granted still hold, and granting them once more.
//!
//! A CPU that goes offline, a cpuset, or another program takes a condition away without a word. Each check is one system call or
//! two; locked memory and the latency request read a file.

use std::time::Duration;

use punctual_linux as linux;
use punctual_linux::prctl::timer_slack_ns;
use punctual_linux::sched;

use super::guard::Steps;
use super::scheduling::{self, set_nice, set_policy};
use super::surroundings::Surroundings;
use super::{Condition, Conditions, CpuSet, Lost, Policy, Refused, affinity, dma_latency, memory, slack};
use crate::duration::format_duration;

/// Which of the `granted` conditions do not hold any more. A condition that cannot be read counts as kept.
pub(super) fn lost(granted: &Conditions) -> Vec<Lost> {
    let lost = |condition, set: String, found: String| Lost { condition, set, found };
    let mut all = Vec::new();
    if let Some(policy) = granted.policy
        && let Some(now) = other_policy(policy)
    {
        all.push(lost(Condition::Policy, policy.to_string(), now));
    }
    if let Some(nice) = granted.nice
        && let Some(now) = sched::nice(0).ok().filter(|now| *now != nice)
    {
        all.push(lost(Condition::Nice, nice.to_string(), now.to_string()));
    }
    if let Some(cpus) = &granted.cpus
        && let Some(now) = other_cpus(cpus)
    {
        all.push(lost(Condition::Cpus, cpus.to_string(), now));
    }
    if granted.lock_memory && memory::none_is_locked() {
        all.push(lost(Condition::LockMemory, "yes".into(), "no".into()));
    }
    if let Some(asked) = granted.timer_slack
        && let Some(now) = other_slack(slack::least_one(asked))
    {
        all.push(lost(Condition::TimerSlack, format_duration(asked), format_duration(Duration::from_nanos(now))));
    }
    if let Some(asked) = granted.dma_latency
        && let Some(now) = dma_latency::effective().filter(|now| *now > asked)
    {
        all.push(lost(Condition::DmaLatency, format_duration(asked), format_duration(now)));
    }
    all
}

/// The policy that holds instead.
fn other_policy(set: Policy) -> Option<String> {
    let now = scheduling::read().ok()?;
    (Policy::of(&now) != Some(set)).then(|| scheduling::describe(&now))
}

/// The slack that holds instead. 0: there is none under a real-time policy, which is no more than was asked.
fn other_slack(set_ns: u64) -> Option<u64> {
    timer_slack_ns().ok().filter(|now| *now != set_ns && *now != 0)
}

/// The CPUs that hold instead; or, with the right ones, the CPU outside of them on which the thread runs all the same.
fn other_cpus(set: &CpuSet) -> Option<String> {
    let now = affinity::current().ok()?;
    if now != *set {
        return Some(now.to_string());
    }
    let here = rustix::thread::sched_getcpu();
    (!set.contains(here)).then(|| format!("{set} (the thread runs on CPU {here})"))
}

/// Grants once more what was lost. `steps` has the way back from the first time; only a new latency request adds to it.
pub(super) fn renew(granted: &Conditions, lost: &[Lost], steps: &mut Steps) -> Vec<Refused> {
    let here = &Surroundings::read();
    let mut again = Steps::new();
    let is_lost = |condition| lost.iter().any(|its| its.condition == condition);
    let mut refused = Vec::new();
    let mut keep = |outcome: Result<(), Refused>| refused.extend(outcome.err());
    if is_lost(Condition::LockMemory) {
        // Whether it holds, the next look tells; the count of holders stays as it is.
        let _ = linux::memory::lock_all();
    }
    if let Some(latency) = granted.dma_latency.filter(|_| is_lost(Condition::DmaLatency)) {
        keep(dma_latency::hold(latency, here, steps));
    }
    if let Some(cpus) = granted.cpus.as_ref().filter(|_| is_lost(Condition::Cpus)) {
        keep(affinity::set(cpus, here, &mut again));
    }
    if let Some(nice) = granted.nice.filter(|_| is_lost(Condition::Nice)) {
        keep(set_nice(nice, true, here, &mut again));
    }
    if let Some(asked) = granted.timer_slack.filter(|_| is_lost(Condition::TimerSlack)) {
        keep(slack::set(asked));
    }
    if let Some(policy) = granted.policy.filter(|_| is_lost(Condition::Policy)) {
        keep(set_policy(policy, true, here, &mut again));
        // Leaving and taking up a real-time policy resets the slack.
        granted.timer_slack.map_or(Ok(()), slack::settle).map_or_else(|no| keep(Err(no)), |()| ());
    }
    // The way back leads to what was there before the first time.
    again.into_iter().for_each(std::mem::forget);
    refused
}

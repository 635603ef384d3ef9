//! Sentences on what a change of conditions brings: timer slack, a real-time policy. Sets are paired where they differ in
//! that condition and in nothing else.

use punctual_record::ConditionSet;

use crate::background::set_label;
use crate::plain::plain;
use crate::story::unbroken;
use crate::style::Style;
use crate::units;

use super::figures::{Difference, Estimate, Figure, Figures, quoted};
use super::listed;
use super::ranking::{best, shown};

/// Two sets of conditions that differ in one thing, and the methods that sleep under both.
#[derive(Debug, Clone, PartialEq)]
pub struct Lever<'f, 'a> {
    /// The set from which the change starts: the larger slack, the ordinary policy.
    pub from: &'a ConditionSet,
    /// The set with the change.
    pub to: &'a ConditionSet,
    /// What is changed.
    pub kind: Kind,
    /// The same method under both: first `from`, then `to`.
    pub pairs: Vec<(&'f Figure<'a>, &'f Figure<'a>)>,
}

/// What two sets of conditions differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Timer slack.
    Slack,
    /// A real-time policy instead of an ordinary one.
    Policy,
}

/// How many methods a change helps, how many it harms, and how many show no difference, at p50.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Earlier with the change.
    pub earlier: usize,
    /// Later with the change.
    pub later: usize,
    /// Cannot be told apart.
    pub alike: usize,
}

impl<'f, 'a> Lever<'f, 'a> {
    /// The pair that is least late with the change.
    #[must_use]
    pub fn leader(&self) -> Option<(&'f Figure<'a>, &'f Figure<'a>)> {
        let leader = best(self.pairs.iter().map(|(_, to)| *to))?;
        self.pairs.iter().copied().find(|(_, to)| std::ptr::eq(*to, leader))
    }

    /// What the change brings to that pair at p50, where that can be told.
    #[must_use]
    pub fn gain(&self) -> Option<Difference> {
        let (from, to) = self.leader()?;
        from.p50?.exceeds(&to.p50?)
    }

    /// The change's effect on all pairs.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for (from, to) in &self.pairs {
            let (Some(before), Some(after)) = (from.p50, to.p50) else { continue };
            if before.exceeds(&after).is_some() {
                tally.earlier += 1;
            } else if after.exceeds(&before).is_some() {
                tally.later += 1;
            } else {
                tally.alike += 1;
            }
        }
        tally
    }
}

/// All changes that these figures can judge.
#[must_use]
pub fn levers<'f, 'a>(figures: &'f Figures<'a>) -> Vec<Lever<'f, 'a>> {
    let mut sets: Vec<&'a ConditionSet> = Vec::new();
    for set in figures.rows.iter().filter_map(|row| row.set) {
        if !sets.iter().any(|known| known.label == set.label) {
            sets.push(set);
        }
    }
    let mut levers = Vec::new();
    for from in &sets {
        for to in &sets {
            let Some(kind) = change(from, to) else { continue };
            let lower = figures.sleeping().filter(|row| row.set.is_some_and(|set| set.label == to.label));
            let pairs: Vec<_> = lower.filter_map(|row| Some((figures.under(&row.subject, from)?, row))).collect();
            if !pairs.is_empty() {
                levers.push(Lever { from, to, kind, pairs });
            }
        }
    }
    levers
}

/// What `to` changes with respect to `from`, if it is one thing.
fn change(from: &ConditionSet, to: &ConditionSet) -> Option<Kind> {
    let (a, b) = (&from.applied, &to.applied);
    let rest = |set: &ConditionSet| {
        let applied = &set.applied;
        (applied.nice, applied.cpus.clone(), applied.lock_memory, applied.dma_latency_us)
    };
    if rest(from) != rest(to) {
        return None;
    }
    let (policy_a, policy_b) = (a.policy.as_deref()?, b.policy.as_deref()?);
    if policy_a == policy_b {
        return (a.timer_slack_ns? > b.timer_slack_ns?).then_some(Kind::Slack);
    }
    // Newer kernels read the slack of a real-time thread back as 0, so what was asked decides whether it is the same.
    let same_slack = from.asked.timer_slack_ns == to.asked.timer_slack_ns;
    (policy_a == "other" && is_real_time(policy_b) && same_slack).then_some(Kind::Policy)
}

/// `fifo:40`, `rr:1`, `deadline:...`.
fn is_real_time(policy: &str) -> bool {
    ["fifo", "rr", "deadline"].iter().any(|name| policy == *name || policy.starts_with(&format!("{name}:")))
}

/// What timer slack costs, one sentence per pair of sets.
#[must_use]
pub fn slack(figures: &Figures<'_>, style: &Style) -> Vec<String> {
    levers(figures)
        .iter()
        .filter(|lever| lever.kind == Kind::Slack)
        .filter_map(|lever| slack_one(lever, style))
        .collect()
}

fn slack_one(lever: &Lever<'_, '_>, style: &Style) -> Option<String> {
    let exact = |set: &ConditionSet| {
        let ns = set.applied.timer_slack_ns.map_or(0, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        unbroken(&units::exact(ns, style))
    };
    let (large, small) = (exact(lever.from), exact(lever.to));
    let policy = plain(lever.to.applied.policy.as_deref()?, style);
    let (from, to) = lever.leader()?;
    let (before, after) = (from.p50?, to.p50?);
    let lead = format!("Timer slack of {large} instead of {small} under {}", unbroken(&policy));
    Some(match (before.exceeds(&after), after.exceeds(&before)) {
        (Some(cost), _) => format!(
            "{lead} makes {} wake {} later at p50 ({} instead of {}){}.",
            to.subject,
            apart(cost, style),
            unbroken(&units::duration(before.value, style)),
            unbroken(&units::duration(after.value, style)),
            others(lever, "later", "earlier")
        ),
        (_, Some(gain)) => format!(
            "{lead} makes {} wake {} earlier at p50{}.",
            to.subject,
            apart(gain, style),
            others(lever, "later", "earlier")
        ),
        _ => format!(
            "{lead}: no difference that this run can show at p50 for {} ({} and {}){}.",
            to.subject,
            shown(before, style),
            shown(after, style),
            others(lever, "later", "earlier")
        ),
    })
}

pub(crate) fn apart(difference: Difference, style: &Style) -> String {
    shown(Estimate { value: difference.value, interval: Some(difference.interval) }, style)
}

/// `; at p50, of 13 methods that sleep, 11 are later and 2 show no difference`; nothing where there is one method only.
/// `helped` and `harmed` say how a method with and without the change is called.
fn others(lever: &Lever<'_, '_>, helped: &str, harmed: &str) -> String {
    let tally = lever.tally();
    let total = tally.earlier + tally.later + tally.alike;
    if total < 2 {
        return String::new();
    }
    let be = |n: usize, word: &str| format!("{n} {} {word}", if n == 1 { "is" } else { "are" });
    let show = if tally.alike == 1 { "shows" } else { "show" };
    let parts = [
        (tally.earlier, be(tally.earlier, helped)),
        (tally.later, be(tally.later, harmed)),
        (tally.alike, format!("{} {show} no difference", tally.alike)),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text).collect();
    format!("; at p50, of {total} methods that sleep, {}", listed(&parts, 3))
}

/// What a real-time policy gains over the ordinary one, one sentence per pair of sets.
#[must_use]
pub fn policy(figures: &Figures<'_>, style: &Style) -> Vec<String> {
    levers(figures)
        .iter()
        .filter(|lever| lever.kind == Kind::Policy)
        .filter_map(|lever| policy_one(lever, style))
        .collect()
}

fn policy_one(lever: &Lever<'_, '_>, style: &Style) -> Option<String> {
    let (from, to) = lever.leader()?;
    let label = |set: &ConditionSet| quoted(&set_label(set, style));
    let at = |name: &str, before: Option<Estimate>, after: Option<Estimate>| -> Option<String> {
        let (before, after) = (before?, after?);
        Some(match (before.exceeds(&after), after.exceeds(&before)) {
            (Some(gain), _) => format!("{} earlier at {name}", apart(gain, style)),
            (_, Some(loss)) => format!("{} later at {name}", apart(loss, style)),
            _ => format!(
                "no difference that this run can show at {name} ({} and {})",
                shown(before, style),
                shown(after, style)
            ),
        })
    };
    let effects: Vec<String> = [at("p50", from.p50, to.p50)?].into_iter().chain(at("p99", from.p99, to.p99)).collect();
    let verb = if effects[0].starts_with("no ") { "shows" } else { "wakes" };
    let (own, other) = (label(lever.to), label(lever.from));
    let mut text = format!("{own} instead of {other}: {} {verb} {}", to.subject, effects.join(", "));
    text.push_str(&format!("{}.", others(lever, "earlier", "later")));
    // prctl(2), PR_SET_TIMERSLACK: not applied to threads under a real-time policy.
    if let Some(slack) = lever.from.applied.timer_slack_ns.filter(|&ns| ns >= 1000 && lever.gain().is_some()) {
        let slack = unbroken(&units::exact(i64::try_from(slack).unwrap_or(i64::MAX), style));
        text.push_str(&format!(
            " Timer slack ({slack} under {}) is not applied to real-time threads: that can be part of it.",
            label(lever.from)
        ));
    }
    Some(text)
}

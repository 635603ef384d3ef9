//! Changes of a single condition: pairs of sets of conditions that differ in exactly one.

use punctual_record::{ConditionSet, POLICY, Param, Setting, TIMER_SLACK};

use crate::format::{listed, unbroken};
use crate::naming::{self, AS_FOUND};
use crate::words::{Figure, Figures, SLEEPING_CALLS, best};

/// From this slack on it is worth a word: below a microsecond it drowns in the cost of waking up.
const LARGE_SLACK_NS: i64 = 1_000;

/// Two sets of conditions that differ in one, and the methods that sleep under both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lever<'f, 'a> {
    /// The set from which the change starts: the larger slack, the ordinary policy, what was found.
    pub(super) from: &'a ConditionSet,
    /// The set with the change.
    pub(super) to: &'a ConditionSet,
    /// What is changed, as it is in `to`.
    pub(super) setting: &'a Setting,
    /// The same method under both: first `from`, then `to`.
    pub(super) pairs: Vec<(&'f Figure<'a>, &'f Figure<'a>)>,
    /// What else was asked of both, and not of all sets.
    both: Vec<&'a Setting>,
}

impl<'f, 'a> Lever<'f, 'a> {
    /// The pair that stands for the others. It is the sleeping call that programs use most, or the least late with the change.
    pub(super) fn leader(&self) -> Option<(&'f Figure<'a>, &'f Figure<'a>)> {
        let known = |name: &&str| self.pairs.iter().copied().find(|(_, to)| to.subject == **name && to.p50.is_some());
        if let Some(pair) = SLEEPING_CALLS.iter().find_map(known) {
            return Some(pair);
        }
        let leader = best(self.pairs.iter().map(|(_, to)| *to))?;
        self.pairs.iter().copied().find(|(_, to)| std::ptr::eq(*to, leader))
    }

    /// `slack 1 ns instead of slack 50 us`.
    pub(super) fn name(&self) -> String {
        let phrase = |setting: &Setting| unbroken(&naming::phrase(&setting.phrase));
        let from = self.from.setting(&self.setting.condition).map_or_else(|| unbroken(AS_FOUND), phrase);
        let mut name = format!("{} instead of {from}", phrase(self.setting));
        let slack = self.from.setting(TIMER_SLACK).filter(|_| asked_slack(self.from) != asked_slack(self.to));
        if let Some(slack) = slack.filter(|slack| self.setting.condition == POLICY && slack.asked.is_some()) {
            name.push_str(&format!(" with {}", phrase(slack)));
        }
        if !self.both.is_empty() {
            let both: Vec<String> = self.both.iter().map(|setting| phrase(setting)).collect();
            name.push_str(&format!(", both with {}", listed(&both, usize::MAX)));
        }
        name
    }
}

/// All changes that these figures can judge.
pub(super) fn levers<'f, 'a>(figures: &'f Figures<'a>) -> Vec<Lever<'f, 'a>> {
    let mut sets: Vec<&'a ConditionSet> = Vec::new();
    for set in figures.rows.iter().filter_map(|row| row.set) {
        if !sets.iter().any(|known| known.label == set.label) {
            sets.push(set);
        }
    }
    let mut levers = Vec::new();
    for from in &sets {
        for to in &sets {
            let Some(setting) = change(from, to, &sets) else { continue };
            let changed = figures.sleeping().filter(|row| row.set.is_some_and(|set| set.label == to.label));
            let pairs: Vec<_> = changed.filter_map(|row| Some((figures.under(&row.subject, from)?, row))).collect();
            if !pairs.is_empty() {
                levers.push(Lever { from, to, setting, pairs, both: both(from, to, setting, &sets) });
            }
        }
    }
    levers
}

/// What else was asked of both sets, and not of all, with the values of `from`. A real-time thread reads its slack
/// back as 0.
fn both<'a>(from: &'a ConditionSet, to: &ConditionSet, changed: &Setting, sets: &[&ConditionSet]) -> Vec<&'a Setting> {
    let asked =
        |set: &ConditionSet, its: &Setting| set.setting(&its.condition).is_some_and(|other| other.asked == its.asked);
    let names = |its: &&Setting| {
        its.asked.is_some()
            && its.condition != changed.condition
            && asked(to, its)
            && !sets.iter().all(|set| asked(set, its))
            // What every thread begins with.
            && !(its.condition == POLICY && from.policy() == Some("other"))
    };
    from.settings.iter().filter(names).collect()
}

/// What `to` changes with respect to `from`, if it is one thing.
fn change<'a>(from: &ConditionSet, to: &'a ConditionSet, sets: &[&ConditionSet]) -> Option<&'a Setting> {
    if from.policy() != to.policy() {
        return change_of_policy(from, to, sets);
    }
    let differing = differing(from, to);
    let [condition] = differing.as_slice() else { return None };
    let changed = to.setting(condition)?;
    let counts = match changed.condition.as_str() {
        TIMER_SLACK => !to.is_real_time() && from.timer_slack_ns()? > to.timer_slack_ns()?,
        name => {
            let asked = from.setting(name).and_then(|setting| setting.asked.as_ref());
            changed.asked.is_some() && asked.is_none_or(|asked| *asked == Param::Flag(false))
        }
    };
    counts.then_some(changed)
}

/// From SCHED_OTHER to another policy. Real-time threads have no slack, whatever was asked; newer kernels read it back as 0. The request
/// decides whether it is the same. An ordinary thread with hardly any slack is compared with them too, unless it has a partner of its own.
fn change_of_policy<'a>(from: &ConditionSet, to: &'a ConditionSet, sets: &[&ConditionSet]) -> Option<&'a Setting> {
    let others = |set: &ConditionSet| differing(from, set).iter().any(|name| ![POLICY, TIMER_SLACK].contains(name));
    if from.policy() != Some("other") || others(to) {
        return None;
    }
    let same_slack = |set: &ConditionSet| asked_slack(from) == asked_slack(set);
    let partner = |set: &&ConditionSet| same_slack(set) && set.policy() == to.policy() && !others(set);
    let bare = to.is_real_time() && from.timer_slack_ns()? < LARGE_SLACK_NS && asked_slack(to).is_none();
    let counts = same_slack(to) || (bare && !sets.iter().any(partner));
    to.setting(POLICY).filter(|_| counts)
}

fn asked_slack(set: &ConditionSet) -> Option<&Param> {
    set.setting(TIMER_SLACK)?.asked.as_ref()
}

/// The conditions in which two sets differ, as they held; the slack of real-time threads as it was asked. What only one of them has, and neither asked
/// for, is no difference: a thread under SCHED_FIFO has no slice.
fn differing<'a>(one: &'a ConditionSet, other: &'a ConditionSet) -> Vec<&'a str> {
    fn value<'a>(set: &'a ConditionSet, condition: &str) -> Option<&'a Param> {
        let setting = set.setting(condition)?;
        let ignored = condition == TIMER_SLACK && set.is_real_time();
        if ignored { setting.asked.as_ref() } else { setting.applied.as_ref() }
    }
    let mut names: Vec<&str> = Vec::new();
    for Setting { condition, .. } in one.settings.iter().chain(&other.settings) {
        let both = [one.setting(condition), other.setting(condition)];
        let counts = !both.contains(&None) || both.iter().flatten().any(|setting| setting.asked.is_some());
        if counts && !names.contains(&condition.as_str()) && value(one, condition) != value(other, condition) {
            names.push(condition);
        }
    }
    names
}

/// The slack of ordinary threads under these conditions, where it is large enough to matter.
pub(super) fn large_slack(set: &ConditionSet) -> Option<i64> {
    let ordinary = set.policy().is_some() && !set.is_real_time();
    set.timer_slack_ns().filter(|&ns| ordinary && ns >= LARGE_SLACK_NS)
}

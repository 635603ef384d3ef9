//! Findings on what a change of conditions brings: timer slack, a real-time policy, a CPU of its own, locked memory, no deep
//! C-states. Sets are paired where they differ in that condition and in nothing else.

use punctual_record::ConditionSet;

use crate::background::is_real_time;
use crate::plain::plain;
use crate::story::unbroken;
use crate::style::Style;
use crate::units;

use super::figures::{Difference, Estimate, Figure, Figures, running};
use super::finding::{Code, Finding, Place, Sentence};
use super::listed;
use super::ranking::best;

/// Calls with the thread's slack (prctl(2), PR_SET_TIMERSLACK), by how well they stand for what programs do.
pub(crate) const SLEEPING_CALLS: [&str; 4] = ["clock_nanosleep_abs", "clock_nanosleep", "nanosleep", "usleep"];

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
    /// The CPUs that the thread may run on.
    Cpus,
    /// Memory locked.
    LockMemory,
    /// The bound on the time to leave a C-state.
    DmaLatency,
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
    /// The pair that stands for the others: the sleeping call that programs use most, or the one that is least late with the change.
    #[must_use]
    pub fn leader(&self) -> Option<(&'f Figure<'a>, &'f Figure<'a>)> {
        let known = |name: &&str| self.pairs.iter().copied().find(|(_, to)| to.subject == **name && to.p50.is_some());
        if let Some(pair) = SLEEPING_CALLS.iter().find_map(known) {
            return Some(pair);
        }
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
            let Some(kind) = change(from, to, &sets) else { continue };
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
fn change(from: &ConditionSet, to: &ConditionSet, sets: &[&ConditionSet]) -> Option<Kind> {
    let (a, b) = (&from.applied, &to.applied);
    if rest(from) != rest(to) {
        return (thread(from) == thread(to)).then(|| change_of_rest(from, to))?;
    }
    let (policy_a, policy_b) = (a.policy.as_deref()?, b.policy.as_deref()?);
    if policy_a == policy_b {
        return (!is_real_time(policy_a) && a.timer_slack_ns? > b.timer_slack_ns?).then_some(Kind::Slack);
    }
    if policy_a != "other" || !is_real_time(policy_b) {
        return None;
    }
    // Real-time threads have no slack, whatever was asked for them, and newer kernels read it back as 0: what was asked decides whether
    // it is the same. An ordinary thread with hardly any slack is compared with them too, unless it has a partner of its own.
    let same_slack = |set: &ConditionSet| from.asked.timer_slack_ns == set.asked.timer_slack_ns;
    let partner =
        |set: &&ConditionSet| same_slack(set) && set.applied.policy == to.applied.policy && rest(set) == rest(to);
    let bare = a.timer_slack_ns? < LARGE_SLACK_NS && to.asked.timer_slack_ns.is_none();
    (same_slack(to) || (bare && !sets.iter().any(partner))).then_some(Kind::Policy)
}

/// Policy and slack, as they were asked for.
fn thread(set: &ConditionSet) -> (Option<&str>, Option<u64>) {
    (set.asked.policy.as_deref(), set.asked.timer_slack_ns)
}

/// What `to` changes of what is neither policy nor slack, if it is one thing that was asked of it and not of `from`.
fn change_of_rest(from: &ConditionSet, to: &ConditionSet) -> Option<Kind> {
    let (a, b) = (&from.applied, &to.applied);
    let cpus = (a.cpus != b.cpus).then_some(Kind::Cpus);
    let memory = (a.lock_memory != b.lock_memory).then_some(Kind::LockMemory);
    let latency = (a.dma_latency_us != b.dma_latency_us).then_some(Kind::DmaLatency);
    let mut changes = [cpus, memory, latency].into_iter().flatten();
    let (kind, None) = (changes.next()?, changes.next()) else { return None };
    let asked = match kind {
        Kind::Cpus => from.asked.cpus.is_none() && to.asked.cpus.is_some(),
        Kind::LockMemory => from.asked.lock_memory != Some(true) && to.asked.lock_memory == Some(true),
        _ => from.asked.dma_latency_us.is_none() && to.asked.dma_latency_us.is_some(),
    };
    (asked && a.nice == b.nice).then_some(kind)
}

/// All that is neither policy nor slack.
fn rest(set: &ConditionSet) -> (Option<i32>, Option<&str>, Option<bool>, Option<u32>) {
    let applied = &set.applied;
    (applied.nice, applied.cpus.as_deref(), applied.lock_memory, applied.dma_latency_us)
}

/// From this slack on it is worth a word: below a microsecond it drowns in the cost of waking up.
const LARGE_SLACK_NS: u64 = 1_000;

/// The slack of ordinary threads under these conditions, where it is large enough to matter.
pub(crate) fn large_slack(set: &ConditionSet) -> Option<i64> {
    let ordinary = !is_real_time(set.applied.policy.as_deref()?);
    let slack_ns = set.applied.timer_slack_ns.filter(|&ns| ordinary && ns >= LARGE_SLACK_NS)?;
    i64::try_from(slack_ns).ok()
}

/// What timer slack costs, one finding per pair of sets.
#[must_use]
pub fn slack(figures: &Figures<'_>, style: &Style) -> Vec<Finding> {
    let levers = levers(figures);
    levers.iter().filter(|lever| lever.kind == Kind::Slack).filter_map(|lever| slack_one(lever, style)).collect()
}

fn slack_one(lever: &Lever<'_, '_>, style: &Style) -> Option<Finding> {
    let exact = |set: &ConditionSet| {
        let ns = set.applied.timer_slack_ns.map_or(0, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
        unbroken(&units::exact(ns, style))
    };
    let (large, small) = (exact(lever.from), exact(lever.to));
    let policy = lever.to.applied.policy.as_deref().filter(|policy| *policy != "other");
    let under = policy.map_or(String::new(), |policy| format!(" under {}", unbroken(&plain(policy, style))));
    let (from, to) = lever.leader()?;
    let (before, after) = (from.p50?, to.p50?);
    let figure = |estimate: Estimate| units::duration(estimate.value, style);
    let lead = format!("Timer slack of {large}");
    let head = match (before.exceeds(&after), after.exceeds(&before)) {
        (Some(cost), _) => {
            let head =
                Sentence::new(format!("{lead}{under} costs {} ", to.subject)).figure(shown_difference(cost, style));
            let head = head.words(" at p50: ").figure(figure(before)).words(" late, ").figure(figure(after));
            head.words(format!(" with a slack of {small}."))
        }
        (_, Some(gain)) => {
            let head = Sentence::new(format!("{lead} instead of {small}{under} makes {} wake ", to.subject));
            head.figure(shown_difference(gain, style)).words(" earlier at p50.")
        }
        _ => {
            let words = format!(
                "{lead} instead of {small}{under}: no difference that this run can show at p50 for {} (",
                to.subject
            );
            Sentence::new(words).figure(figure(before)).words(" late, and ").figure(figure(after)).words(").")
        }
    };
    let mut finding = Finding::new(Place::Slack, head);
    finding.tails.extend(others(lever, "later", "earlier"));
    finding.code = before.exceeds(&after).and_then(|_| slack_call(lever.to)).map(Code::Line);
    Some(finding)
}

/// The line of C that sets a set's slack. prctl(2): 0 would put the inherited slack back.
#[must_use]
pub fn slack_call(set: &ConditionSet) -> Option<String> {
    let slack_ns = set.applied.timer_slack_ns.filter(|&ns| ns > 0)?;
    Some(format!("prctl(PR_SET_TIMERSLACK, {slack_ns}UL);"))
}

/// The line of C that sets a real-time policy; deadline scheduling has no call that fits on a line.
#[must_use]
pub fn policy_call(policy: &str) -> Option<String> {
    let (name, priority) = policy.split_once(':')?;
    let constant = match name {
        "fifo" => "SCHED_FIFO",
        "rr" => "SCHED_RR",
        _ => return None,
    };
    let priority: u8 = priority.parse().ok()?;
    Some(format!("sched_setscheduler(0, {constant}, &(struct sched_param){{ .sched_priority = {priority} }});"))
}

/// A difference with its interval: `49.5 µs [49.2 to 49.9 µs]`.
pub(crate) fn shown_difference(difference: Difference, style: &Style) -> String {
    format!("{} {}", units::duration(difference.value, style), units::interval(difference.interval, style))
}

/// `Of 13 methods that sleep, 11 are later at p50 and 2 show no difference`; nothing where there is one method only.
/// `helped` and `harmed` say how a method with and without the change is called.
fn others(lever: &Lever<'_, '_>, helped: &str, harmed: &str) -> Option<Sentence> {
    let tally = lever.tally();
    let total = tally.earlier + tally.later + tally.alike;
    if total < 2 {
        return None;
    }
    let be = |n: usize, word: &str| format!("{n} {} {word}", if n == 1 { "is" } else { "are" });
    let show = if tally.alike == 1 { "shows" } else { "show" };
    let parts = [
        (tally.earlier, be(tally.earlier, helped)),
        (tally.later, be(tally.later, harmed)),
        (tally.alike, format!("{} {show} no difference", tally.alike)),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text).collect();
    Some(Sentence::new(format!("Of {total} methods that sleep, {} at p50.", listed(&parts, 3))))
}

/// What a real-time policy gains over the ordinary one, one finding per pair of sets.
#[must_use]
pub fn policy(figures: &Figures<'_>, style: &Style) -> Vec<Finding> {
    let levers = levers(figures);
    levers.iter().filter(|lever| lever.kind == Kind::Policy).filter_map(|lever| policy_one(lever, style)).collect()
}

fn policy_one(lever: &Lever<'_, '_>, style: &Style) -> Option<Finding> {
    let (from, to) = lever.leader()?;
    let figure = |estimate: Estimate| units::duration(estimate.value, style);
    let effect = |head: Sentence, name: &str, before: Estimate, after: Estimate| match (
        before.exceeds(&after),
        after.exceeds(&before),
    ) {
        (Some(gain), _) => {
            head.words("wakes ").figure(shown_difference(gain, style)).words(format!(" earlier at {name}."))
        }
        (_, Some(loss)) => {
            head.words("wakes ").figure(shown_difference(loss, style)).words(format!(" later at {name}."))
        }
        _ => {
            let head = head.words(format!("shows no difference at {name} ("));
            head.figure(figure(before)).words(" late, and ").figure(figure(after)).words(").")
        }
    };
    let (before, after) = (from.p50?, to.p50?);
    let gains = before.exceeds(&after).is_some();
    if let Some(finding) = no_gain(lever, style) {
        return Some(finding);
    }
    let lead = format!("{} instead of {}: {} ", running(&to.conditions), running(&from.conditions), to.subject);
    let mut finding = Finding::new(Place::Policy, effect(Sentence::new(lead), "p50", before, after));
    if let (Some(before), Some(after)) = (from.p99, to.p99) {
        finding.tails.push(effect(Sentence::new("It "), "p99", before, after));
    }
    finding.tails.extend(others(lever, "earlier", "later"));
    // prctl(2), PR_SET_TIMERSLACK: not applied to threads under a real-time policy.
    if gains && large_slack(lever.from).is_some() {
        let caution = "Real-time threads have no timer slack: that can be part of it.";
        finding.tails.push(Sentence::new(caution));
    }
    finding.code = lever.to.applied.policy.as_deref().filter(|_| gains).and_then(policy_call).map(Code::Line);
    Some(finding)
}

/// One short sentence where a real-time policy shows nothing, neither at p50 nor at p99, over hardly any slack.
fn no_gain(lever: &Lever<'_, '_>, style: &Style) -> Option<Finding> {
    let (from, to) = lever.leader()?;
    let alike = |a: Option<Estimate>, b: Option<Estimate>| match (a, b) {
        (Some(a), Some(b)) => a.exceeds(&b).is_none() && b.exceeds(&a).is_none(),
        (a, b) => a.is_none() && b.is_none(),
    };
    let told = from.p50?.interval.is_some() && to.p50?.interval.is_some();
    if large_slack(lever.from).is_some() || !told || !alike(from.p50, to.p50) || !alike(from.p99, to.p99) {
        return None;
    }
    let slack_ns = i64::try_from(lever.from.applied.timer_slack_ns?).ok()?;
    let slack = unbroken(&units::exact(slack_ns, style));
    let figure = |estimate: Estimate| units::duration(estimate.value, style);
    let head = Sentence::new(format!("{} shows no gain over a slack of {slack} here (", running(&to.conditions)));
    let head =
        head.figure(figure(to.p50?)).words(" late at p50, ").figure(figure(from.p50?)).words(" with that slack).");
    let mut finding = Finding::new(Place::Policy, head);
    finding.tails.extend(others(lever, "earlier", "later"));
    Some(finding)
}

//! The series of one requested duration as [`Figures`], which know the ones that stand for the others, and what can be
//! compared among them: changes of a single condition ([`Lever`]), and timers without slack.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Deref;

use punctual_record::{ConditionSet, POLICY, Param, Quantity, Run, Series, Setting, TIMER_SLACK};

use crate::format::naming::{self, AS_FOUND, SLEEPING_CALLS, usual};
use crate::format::{listed, unbroken};

/// The library's sleeper, as a method.
pub(super) const SLEEPER: &str = "hybrid";

/// What sentences need of one series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure<'a> {
    /// The series.
    pub(crate) series: &'a Series,
    /// The conditions, where the run holds them.
    pub(crate) set: Option<&'a ConditionSet>,
}

impl Deref for Figure<'_> {
    type Target = Series;

    fn deref(&self) -> &Series {
        self.series
    }
}

impl Figure<'_> {
    /// Whether it sleeps: by its kind; where that does not say, whether it gave up the CPU. A sleeping call with a short
    /// duration may return before the thread is off its CPU. A real-time thread that asks for 1 µs is an example. The
    /// call is a sleeping one nevertheless.
    pub(crate) fn sleeps(&self) -> Option<bool> {
        match self.about.kind.as_deref() {
            Some("sleep" | "poll" | "timer" | "sync") => Some(true),
            Some("spin" | "user wait") => Some(false),
            _ => self.voluntary_switches_per_op.map(|times| times >= 0.5),
        }
    }

    /// What the call makes of the duration asked, where it is known.
    pub(crate) fn effective_ns(&self) -> Option<i64> {
        self.experiment.any_wait()?.metrics.effective_ns
    }

    /// Whether its waits gave up the CPU, as far as that is known. A sleeping call that mostly returns before costs what spinning does.
    pub(crate) fn slept(&self) -> bool {
        self.voluntary_switches_per_op.is_none_or(|times| times >= 0.5)
    }
}

/// From the call to its return at the median, ns: for calls that take a duration.
pub(crate) fn elapsed(series: &Series) -> Option<i64> {
    let asked_ns = series.experiment.any_wait()?.parameters.asked_ns;
    asked_ns.checked_add(series.summary.p50?).filter(|_| series.quantity == Quantity::Overshoot)
}

/// The median overshoot as a share of the duration asked.
pub(crate) fn error(series: &Series) -> Option<f64> {
    let asked_ns = series.experiment.any_wait()?.parameters.asked_ns;
    let share = (asked_ns > 0).then_some(series.summary.p50? as f64 / asked_ns as f64);
    share.filter(|_| series.quantity == Quantity::Overshoot)
}

/// What a coarse call rounds the duration to; `None` where it waits as long as asked.
pub(super) fn rounds_to(series: &Series) -> Option<i64> {
    series.experiment.any_wait()?.rounds_to()
}

/// The durations asked, ascending, each with its series.
pub(super) type Groups<'a> = BTreeMap<i64, Vec<&'a Series>>;

/// The series by the duration asked.
pub(crate) fn by_asked<'a>(series: &[&'a Series]) -> Groups<'a> {
    let mut groups: Groups<'a> = BTreeMap::new();
    for &series in series {
        if let Some(wait) = series.experiment.any_wait() {
            groups.entry(wait.parameters.asked_ns).or_default().push(series);
        }
    }
    groups
}

/// The series of one asked duration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures<'a> {
    /// What was asked for, in ns.
    pub(crate) asked_ns: i64,
    /// Whether there is more than one set of conditions, so that a name needs its conditions.
    pub(crate) many_conditions: bool,
    /// The conditions that others are compared with. They are those of more than half of the series, else the
    /// closest to what was found.
    pub(crate) base: String,
    /// All series, in the order of the run.
    pub(crate) rows: Vec<Figure<'a>>,
}

impl<'a> Figures<'a> {
    /// The figures of `series`, all of them of one asked duration.
    pub(crate) fn new(run: &'a Run, asked_ns: i64, series: &[&'a Series]) -> Self {
        let set = |series: &Series| run.conditions.iter().find(|set| set.label == series.conditions);
        let rows: Vec<Figure<'a>> = series.iter().map(|series| Figure { series, set: set(series) }).collect();
        let many_conditions = rows.iter().any(|row| row.conditions != rows[0].conditions);
        let usual = usual(&rows.iter().map(|row| row.conditions.as_str()).collect::<Vec<_>>());
        let base = usual.or_else(|| rows.iter().min_by_key(|row| changed(row)).map(|row| row.conditions.clone()));
        Self { asked_ns, many_conditions, base: base.unwrap_or_default(), rows }
    }

    /// Those that wait as long as asked, rather than rounding it up.
    pub(crate) fn exact(&self) -> impl Iterator<Item = &Figure<'a>> {
        self.rows.iter().filter(|row| row.effective_ns().is_none_or(|effective| effective <= self.asked_ns))
    }

    /// Those of them that sleep.
    pub(crate) fn sleeping(&self) -> impl Iterator<Item = &Figure<'a>> {
        self.exact().filter(|row| row.sleeps() == Some(true))
    }

    /// The sleeping call that stands for what programs do, under the base conditions.
    pub(crate) fn reference(&self) -> Option<&Figure<'a>> {
        let base = |row: &&Figure<'_>| row.conditions == self.base && row.sleeps() != Some(false);
        SLEEPING_CALLS.iter().find_map(|name| self.exact().filter(base).find(|row| row.subject == *name))
    }

    /// The same method under other conditions.
    pub(crate) fn under(&self, subject: &str, set: &ConditionSet) -> Option<&Figure<'a>> {
        self.exact().find(|row| row.subject == subject && row.set.is_some_and(|own| own.label == set.label))
    }
}

/// How far conditions are from what is found: another policy, the number of things asked for, less slack.
fn changed(row: &Figure<'_>) -> (bool, usize, Reverse<Option<i64>>) {
    let Some(set) = row.set else { return (true, usize::MAX, Reverse(None)) };
    let asked = set.settings.iter().filter(|setting| setting.asked.is_some()).count() + set.refused.len();
    (set.policy() != Some("other"), asked, Reverse(set.timer_slack_ns()))
}

/// The lowest median, then the lowest 99th percentile.
pub(crate) fn best<'f, 'a: 'f>(rows: impl Iterator<Item = &'f Figure<'a>>) -> Option<&'f Figure<'a>> {
    rows.filter(|row| row.summary.p50.is_some())
        .min_by_key(|row| (row.summary.p50, row.summary.p99.unwrap_or(i64::MAX)))
}

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
        let known =
            |name: &&str| self.pairs.iter().copied().find(|(_, to)| to.subject == **name && to.summary.p50.is_some());
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
    let asked = |set: &ConditionSet, setting: &Setting| {
        set.setting(&setting.condition).is_some_and(|other| other.asked == setting.asked)
    };
    let names = |setting: &&Setting| {
        setting.asked.is_some()
            && setting.condition != changed.condition
            && asked(to, setting)
            && !sets.iter().all(|set| asked(set, setting))
            // What every thread begins with.
            && !(setting.condition == POLICY && from.policy() == Some("other"))
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

/// Methods whose timer the kernel starts without a range (`hrtimer_start`, or a range of 0): fs/timerfd.c,
/// kernel/time/posix-timers.c, kernel/time/itimer.c, ipc/mqueue.c, io_uring/timeout.c.
const WITHOUT_SLACK: [&str; 7] = [
    "timerfd",
    "timerfd_epoll",
    "timer_sigwaitinfo",
    "timer_handler",
    "setitimer_sigsuspend",
    "mq_timedreceive",
    "io_uring",
];

/// The best known method without slack, after a sleeping call under the same ordinary conditions.
pub(super) fn without_slack<'f, 'a>(figures: &'f Figures<'a>) -> Option<(&'f Figure<'a>, &'f Figure<'a>)> {
    WITHOUT_SLACK.iter().find_map(|name| {
        let timer = figures.sleeping().find(|row| row.subject == *name)?;
        // Where the slack is too small for a difference, there is nothing to propose.
        large_slack(timer.set?)?;
        let call = SLEEPING_CALLS.iter().find_map(|name| figures.under(name, timer.set?))?;
        Some((call, timer))
    })
}

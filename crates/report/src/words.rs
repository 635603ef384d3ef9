//! The figures behind sentences on waits: [`Figures`], a view of the series of one requested duration. It knows which of them stand for the
//! others.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_record::{ConditionSet, Run, Series};

use crate::format::{counted, sanitize};
use crate::naming::{self, conditions};

/// Calls with the thread's slack (prctl(2), PR_SET_TIMERSLACK), by how well they stand for what programs do.
pub(crate) const SLEEPING_CALLS: [&str; 4] = ["clock_nanosleep_abs", "clock_nanosleep", "nanosleep", "usleep"];

/// What sentences need of one series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure<'a> {
    /// The series.
    pub(crate) series: &'a Series,
    /// The method, neutralised.
    pub(crate) subject: String,
    /// Name of its conditions, neutralised, with what was refused of them.
    pub(crate) conditions: String,
    /// The conditions, where the run holds them.
    pub(crate) set: Option<&'a ConditionSet>,
    /// The line that a program writes for the method, neutralised.
    pub(crate) code: Option<String>,
    /// What the call makes of the duration asked, where it is known.
    pub(crate) effective_ns: Option<i64>,
    /// Median.
    pub(crate) p50: Option<i64>,
    /// 99th percentile.
    pub(crate) p99: Option<i64>,
    /// CPU time as a share of elapsed time, 0 to 1.
    pub(crate) cpu_share: Option<f64>,
}

impl Figure<'_> {
    /// Whether it sleeps: by its kind; where that does not say, whether it gave up the CPU. A sleeping call with a short
    /// duration may return before the thread is off its CPU. A real-time thread that asks for 1 µs is an example. The
    /// call is a sleeping one nevertheless.
    pub(crate) fn sleeps(&self) -> Option<bool> {
        match self.series.about.kind.as_deref() {
            Some("sleep" | "poll" | "timer" | "sync") => Some(true),
            Some("spin" | "user wait") => Some(false),
            _ => self.series.voluntary_switches_per_op.map(|times| times >= 0.5),
        }
    }
}

/// The durations asked, ascending, each with its series.
pub(crate) fn by_asked<'a>(series: &[&'a Series]) -> BTreeMap<i64, Vec<&'a Series>> {
    let mut groups: BTreeMap<i64, Vec<&'a Series>> = BTreeMap::new();
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
    pub(crate) fn of(run: &'a Run, asked_ns: i64, series: &[&'a Series]) -> Self {
        let rows: Vec<Figure<'a>> = series.iter().map(|series| figure(run, series)).collect();
        let many_conditions = rows.iter().any(|row| row.conditions != rows[0].conditions);
        let usual = usual(&rows.iter().map(|row| row.conditions.as_str()).collect::<Vec<_>>());
        let base = usual.or_else(|| rows.iter().min_by_key(|row| changed(row)).map(|row| row.conditions.clone()));
        Self { asked_ns, many_conditions, base: base.unwrap_or_default(), rows }
    }

    /// Those that wait as long as asked, rather than rounding it up.
    pub(crate) fn exact(&self) -> impl Iterator<Item = &Figure<'a>> {
        self.rows.iter().filter(|row| row.effective_ns.is_none_or(|effective| effective <= self.asked_ns))
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
        self.exact().find(|row| row.subject == subject && row.set.is_some_and(|its| its.label == set.label))
    }
}

/// How far conditions are from what is found: another policy, the number of things asked for, less slack.
fn changed(row: &Figure<'_>) -> (bool, usize, Reverse<Option<i64>>) {
    let Some(set) = row.set else { return (true, usize::MAX, Reverse(None)) };
    let asked = set.settings.iter().filter(|setting| setting.asked.is_some()).count() + set.refused.len();
    (set.policy() != Some("other"), asked, Reverse(set.timer_slack_ns()))
}

/// The name that more than half of `names` are, where they differ.
pub(crate) fn usual(names: &[&str]) -> Option<String> {
    let counts = counted(names.iter().copied());
    let (usual, _) = counts.iter().find(|(_, count)| *count * 2 > names.len())?;
    (counts.len() > 1).then(|| (*usual).to_owned())
}

/// The lowest median, then the lowest 99th percentile.
pub(crate) fn best<'f, 'a: 'f>(rows: impl Iterator<Item = &'f Figure<'a>>) -> Option<&'f Figure<'a>> {
    rows.filter(|row| row.p50.is_some()).min_by_key(|row| (row.p50, row.p99.unwrap_or(i64::MAX)))
}

fn figure<'a>(run: &'a Run, series: &'a Series) -> Figure<'a> {
    Figure {
        series,
        subject: sanitize(&series.subject),
        conditions: conditions(run, &series.conditions),
        set: run.conditions.iter().find(|set| set.label == series.conditions),
        code: series.about.code.as_deref().map(naming::code),
        effective_ns: series.experiment.any_wait().and_then(|wait| wait.metrics.effective_ns),
        p50: series.summary.p50,
        p99: series.summary.p99,
        cpu_share: series.cpu_share.filter(|share| share.is_finite()),
    }
}

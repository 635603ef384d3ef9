//! The figures behind sentences: [`Figures`], a view of the series of one requested duration.

use std::collections::BTreeMap;

use punctual_record::{ConditionSet, Interval, Quantity, Run, Series};

use crate::format::prose::unbroken;
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming::{self, conditions};

/// Calls with the thread's slack (prctl(2), PR_SET_TIMERSLACK), by how well they stand for what programs do.
pub(crate) const SLEEPING_CALLS: [&str; 4] = ["clock_nanosleep_abs", "clock_nanosleep", "nanosleep", "usleep"];

/// A figure with its confidence interval, where the samples support one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The figure in ns.
    pub value: i64,
    /// Where the true one lies, with 95 % confidence.
    pub interval: Option<Interval>,
}

/// How far two figures lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The larger one minus the smaller one, in ns.
    pub value: i64,
    /// From the near ends of both intervals to their far ends: where the difference lies.
    pub interval: Interval,
}

impl Difference {
    /// With its interval: `49.5 µs [49.2 to 49.9 µs]`.
    pub(crate) fn shown(self) -> String {
        format!("{} {}", units::duration(self.value), units::interval(self.interval))
    }
}

impl Estimate {
    /// By how much `self` exceeds `other`, if the intervals show that it does; `None`: they touch, or one is missing.
    #[must_use]
    pub fn exceeds(&self, other: &Self) -> Option<Difference> {
        let (mine, its) = (self.interval?, other.interval?);
        (mine.low > its.high).then(|| Difference {
            value: self.value.saturating_sub(other.value),
            interval: Interval { low: mine.low.saturating_sub(its.high), high: mine.high.saturating_sub(its.low) },
        })
    }
}

/// What sentences need of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure<'a> {
    /// The series.
    pub series: &'a Series,
    /// The method, neutralised.
    pub subject: String,
    /// Name of its conditions, neutralised, with what was refused of them.
    pub conditions: String,
    /// The conditions, where the run holds them.
    pub set: Option<&'a ConditionSet>,
    /// The line that a program writes for the method, neutralised.
    pub code: Option<String>,
    /// What the figures are.
    pub quantity: Quantity,
    /// What the call makes of the duration asked; absent: not told.
    pub effective_ns: Option<i64>,
    /// Median.
    pub p50: Option<Estimate>,
    /// 99th percentile.
    pub p99: Option<Estimate>,
    /// CPU time per wait in ns.
    pub cpu_ns: Option<f64>,
    /// Least and most CPU time per wait of any round, in ns; absent with fewer than two rounds.
    pub cpu_rounds: Option<(f64, f64)>,
    /// CPU time as a share of elapsed time, 0 to 1.
    pub cpu_share: Option<f64>,
    /// Times per wait that it gave up the CPU.
    pub voluntary: Option<f64>,
}

impl Figure<'_> {
    /// Whether it gave the CPU away while it waited, as measured; `None`: not measured.
    #[must_use]
    pub fn sleeps(&self) -> Option<bool> {
        self.voluntary.map(|times| times >= 0.5)
    }

    /// By how much it is earlier than `other` at p50, and that in words: `49.5 µs earlier at p50 (24.7 instead of 74.2 µs), 56.2 µs at p99`.
    #[must_use]
    pub fn earlier_than(&self, other: &Self) -> Option<(i64, String)> {
        let duration = |ns: i64| unbroken(&units::duration(ns));
        let gain = other.p50?.exceeds(&self.p50?)?.value;
        let at_p99 = match (other.p99, self.p99) {
            (Some(before), Some(after)) => match (before.exceeds(&after), after.exceeds(&before)) {
                (Some(gain), _) => format!(", {} at p99", duration(gain.value)),
                (_, Some(loss)) => format!(", but {} later at p99", duration(loss.value)),
                _ => ", no difference shown at p99".to_owned(),
            },
            _ => String::new(),
        };
        Some((gain, format!("{} earlier at p50 ({}){at_p99}", duration(gain), self.instead_of(other)?)))
    }

    /// `24.7 instead of 74.2 µs`.
    pub(crate) fn instead_of(&self, other: &Self) -> Option<String> {
        Some(units::instead(self.p50?.value, other.p50?.value))
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
pub struct Figures<'a> {
    /// What was asked for, in ns.
    pub asked_ns: i64,
    /// Whether there is more than one set of conditions, so that a name needs its conditions.
    pub many_conditions: bool,
    /// The conditions that hold where none are named: those of more than half of the series, where there are several sets.
    pub usual: Option<String>,
    /// All series, in the order of the run.
    pub rows: Vec<Figure<'a>>,
}

impl<'a> Figures<'a> {
    /// The figures of `series`, all of them of one asked duration.
    #[must_use]
    pub fn of(run: &'a Run, asked_ns: i64, series: &[&'a Series]) -> Self {
        let rows: Vec<Figure<'a>> = series.iter().map(|series| figure(run, series)).collect();
        let many_conditions = rows.iter().any(|row| row.conditions != rows[0].conditions);
        let usual = usual(&rows.iter().map(|row| row.conditions.as_str()).collect::<Vec<_>>());
        Self { asked_ns, many_conditions, usual, rows }
    }

    /// Those to choose a method from: those under the usual conditions, where there are such, that wait as long as asked.
    pub fn ranked(&self) -> impl Iterator<Item = &Figure<'a>> {
        self.exact().filter(|row| self.usual.as_ref().is_none_or(|usual| row.conditions == *usual))
    }

    /// Those that wait as long as asked, rather than rounding it up.
    pub fn exact(&self) -> impl Iterator<Item = &Figure<'a>> {
        self.rows.iter().filter(|row| row.effective_ns.is_none_or(|effective| effective <= self.asked_ns))
    }

    /// Those of them that sleep, as measured.
    pub fn sleeping(&self) -> impl Iterator<Item = &Figure<'a>> {
        self.exact().filter(|row| row.sleeps() == Some(true))
    }

    /// The method's name, with its conditions where they are not the usual ones: `nanosleep (SCHED_FIFO 40)`.
    #[must_use]
    pub fn name(&self, figure: &Figure<'_>) -> String {
        if self.many_conditions && self.usual.as_ref() != Some(&figure.conditions) {
            format!("{} ({})", figure.subject, unbroken(&figure.conditions))
        } else {
            figure.subject.clone()
        }
    }

    /// The same method under other conditions.
    #[must_use]
    pub fn under(&self, subject: &str, set: &ConditionSet) -> Option<&Figure<'a>> {
        self.exact().find(|row| row.subject == subject && row.set.is_some_and(|its| its.label == set.label))
    }
}

/// The name that more than half of `names` are, where they differ.
pub(crate) fn usual(names: &[&str]) -> Option<String> {
    let first = names.first()?;
    let of = |name: &str| names.iter().filter(|its| **its == name).count();
    let usual = names.iter().find(|name| of(name) * 2 > names.len())?;
    names.iter().any(|name| name != first).then(|| (*usual).to_owned())
}

/// The lowest median, then the lowest 99th percentile.
#[must_use]
pub fn best<'f, 'a: 'f>(rows: impl Iterator<Item = &'f Figure<'a>>) -> Option<&'f Figure<'a>> {
    let value = |estimate: Option<Estimate>| estimate.map_or(i64::MAX, |estimate| estimate.value);
    rows.filter(|row| row.p50.is_some()).min_by_key(|row| (value(row.p50), value(row.p99)))
}

fn figure<'a>(run: &'a Run, series: &'a Series) -> Figure<'a> {
    let summary = &series.summary;
    let estimate = |value: Option<i64>, interval| value.map(|value| Estimate { value, interval });
    Figure {
        series,
        subject: sanitize(&series.subject),
        conditions: conditions(run, &series.conditions),
        set: run.conditions.iter().find(|set| set.label == series.conditions),
        code: series.about.code.as_deref().map(naming::code),
        quantity: series.quantity,
        effective_ns: series.experiment.any_wait().and_then(|wait| wait.metrics.effective_ns),
        p50: estimate(summary.p50, summary.ci95.p50),
        p99: estimate(summary.p99, summary.ci95.p99),
        cpu_ns: series.cpu_ns_per_op.filter(|ns| ns.is_finite()),
        cpu_rounds: cpu_rounds(series),
        cpu_share: series.cpu_share.filter(|share| share.is_finite()),
        voluntary: series.voluntary_switches_per_op,
    }
}

fn cpu_rounds(series: &Series) -> Option<(f64, f64)> {
    let mut rounds = series.rounds.iter().map(|round| round.cpu_ns_per_op);
    let first = rounds.next()??;
    let mut range = (first, first);
    let mut count = 1;
    for ns in rounds {
        let ns = ns?;
        range = (range.0.min(ns), range.1.max(ns));
        count += 1;
    }
    (count >= 2).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn estimate(value: i64, low: i64, high: i64) -> Estimate {
        Estimate { value, interval: Some(Interval { low, high }) }
    }

    #[test]
    fn only_intervals_that_do_not_touch_tell_apart() {
        let difference = estimate(100, 95, 105).exceeds(&estimate(50, 45, 60)).unwrap();
        assert_eq!((difference.value, difference.interval.low, difference.interval.high), (50, 35, 60));
        assert!(estimate(100, 60, 105).exceeds(&estimate(50, 45, 60)).is_none());
        assert!(Estimate { value: 100, interval: None }.exceeds(&estimate(50, 45, 60)).is_none());
    }

    proptest! {
        #[test]
        fn not_both_exceed_each_other(a in 0i64..1000, b in 0i64..1000, wa in 0i64..100, wb in 0i64..100) {
            let (x, y) = (estimate(a, a - wa, a + wa), estimate(b, b - wb, b + wb));
            prop_assert!(!(x.exceeds(&y).is_some() && y.exceeds(&x).is_some()));
            if let Some(d) = x.exceeds(&y) {
                prop_assert!(0 < d.interval.low && d.interval.low <= d.value && d.value <= d.interval.high);
            }
        }
    }
}

//! What a proof shows: the error of shortened waits, and whether the compensation works.

use punctual_record::experiment::calibrate::{Figure, Metrics, Parameters};
use punctual_record::{Interval, Series};

use crate::evidence::Mean;
use crate::family::shared::Measured;
use crate::format::{unbroken, units};

pub(in crate::family) type Calibrated<'a> = Measured<'a, Parameters, Metrics>;

/// The series of the same method and conditions with another figure.
pub(in crate::family) fn beside<'a>(all: &[Calibrated<'a>], of: &Series, figure: Figure) -> Option<Calibrated<'a>> {
    let same = |s: &Calibrated<'_>| s.subject == of.subject && s.conditions == of.conditions;
    all.iter().copied().find(|s| same(s) && s.parameters.figure == figure)
}

/// The error of the waits of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::family) struct Proof {
    /// Mean error over the rounds.
    pub(super) mean: Mean,
    /// Mean of the rounds' median errors.
    median: Mean,
    /// Share of early waits.
    pub(super) early: f64,
    /// What was taken off each wait, in ns.
    shortened_by: f64,
}

/// Whether waits shortened by TN take as long as asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::family) enum Judgement {
    /// As many are early as [`EARLY`] says, and the mean error is small.
    Works,
    /// Too many are early: TN is too large for sleeps of that length, by this many ns.
    TooMuch(f64),
    /// Too few are early: TN is too small, by this many ns.
    TooLittle(f64),
    /// The rounds differ too much to say.
    Undecided,
}

/// Of waits shortened by an exact TN, half are early. Outside of this range, TN misses most of them.
pub(super) const EARLY: std::ops::RangeInclusive<f64> = 0.2..=0.8;

impl Proof {
    /// `None`: fewer rounds than a test takes.
    pub(in crate::family) fn of(series: &Series) -> Option<Self> {
        let mean = mean_error(series)?;
        let median = Mean::of_rounds(series, |round| round.summary.p50.map(|ns| ns as f64))?;
        let shortened_by = series.experiment.calibrate()?.metrics.shortened_by_ns?;
        Some(Self { mean, median, early: early(series)?, shortened_by })
    }

    /// Whether the mean error is shown to be less than half of what was taken off. On a busy machine it is not.
    fn is_small(&self) -> bool {
        self.mean.low.abs().max(self.mean.high.abs()) < self.shortened_by / 2.0
    }

    pub(in crate::family) fn judgement(&self) -> Judgement {
        let Mean { ns, low, high } = self.median;
        if EARLY.contains(&self.early) && self.is_small() {
            Judgement::Works
        } else if self.early > *EARLY.end() && high < 0.0 {
            Judgement::TooMuch(-ns)
        } else if self.early < *EARLY.start() && low > 0.0 {
            Judgement::TooLittle(ns)
        } else {
            Judgement::Undecided
        }
    }
}

/// Mean error over the rounds.
pub(super) fn mean_error(series: &Series) -> Option<Mean> {
    Mean::of_rounds(series, |round| round.summary.mean)
}

/// Share of early waits.
pub(super) fn early(series: &Series) -> Option<f64> {
    (series.summary.count > 0).then(|| series.summary.negative as f64 / series.summary.count as f64)
}

/// `-3.90 µs [-4.51 -3.30]`.
pub(super) fn mean_text(mean: Mean) -> String {
    let ns = mean.ns.round() as i64;
    let interval = Interval { low: mean.low.round() as i64, high: mean.high.round() as i64 };
    unbroken(&format!("{} {}", units::duration(ns), units::interval_like(interval, ns)))
}

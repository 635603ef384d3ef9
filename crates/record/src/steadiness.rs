//! Whether the rounds of a series differ more than their samples explain.
//!
//! If nothing changed between rounds, each round's 95 % interval of the median encloses the median of the whole series in at
//! least 95 of 100 rounds. So the rounds whose interval does *not* enclose it are counted, and compared with the binomial distribution
//! of such misses: if so many had a chance below [`SIGNIFICANCE`], the machine drifted or was disturbed. Since samples taken in a
//! row are never quite independent, a miss counts only if it also matters: by more than [`RELEVANT_SHARE`] of the median.
//!
//! In go the figures of a series, from a fresh run or a file; refused are series with fewer than [`MIN_ROUNDS`] rounds that have an
//! interval: whether they are steady is not known.

use crate::model::Series;
use crate::statistics::{CONFIDENCE, binomial_upper_tail};

/// Fewest rounds with an interval (6 samples or more) that can be judged.
pub const MIN_ROUNDS: u64 = 3;

/// A series is called unsteady if chance alone would do so in fewer than 1 of 100 steady series.
pub const SIGNIFICANCE: f64 = 0.01;

/// A round's interval must miss the series' median by more than this share of it: a lesser drift changes no decision.
pub const RELEVANT_SHARE: f64 = 0.05;

/// What the rounds of a series say of its steadiness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Rounds that could be judged.
    pub rounds: u64,
    /// Those of them whose median differs from the series' median by more than chance and by a relevant amount.
    pub deviating: u64,
    /// The probability of at least so many in a steady series; an upper bound.
    pub probability: f64,
}

impl Steadiness {
    /// Judges a series. None: too few rounds to know.
    #[must_use]
    pub fn of(series: &Series) -> Option<Self> {
        let median = series.summary.p50?;
        let tolerance = (median.unsigned_abs() as f64 * RELEVANT_SHARE) as i64;
        let intervals: Vec<_> = series.rounds.iter().filter_map(|round| round.summary.ci95.p50).collect();
        let rounds = intervals.len() as u64;
        if rounds < MIN_ROUNDS {
            return None;
        }
        let misses = intervals.iter().filter(|interval| {
            median < interval.low.saturating_sub(tolerance) || median > interval.high.saturating_add(tolerance)
        });
        let deviating = misses.count() as u64;
        Some(Self { rounds, deviating, probability: binomial_upper_tail(rounds, 1.0 - CONFIDENCE, deviating) })
    }

    /// The rounds differ more than chance explains.
    #[must_use]
    pub fn is_unsteady(&self) -> bool {
        self.probability < SIGNIFICANCE
    }
}

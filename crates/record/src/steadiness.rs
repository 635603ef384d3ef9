//! Whether the rounds of a series differ by more than their samples explain.
//!
//! If nothing changes between rounds, the 95 % interval of a round's median encloses the series' median. That holds in
//! at least 95 of 100 rounds. The rounds whose interval misses it are counted and compared with the binomial
//! distribution of such misses. If the probability of at least that number is below [`SIGNIFICANCE`], the machine
//! drifted or was disturbed. Consecutive samples are never quite independent, so a miss also has to be relevant. It
//! must be more than [`RELEVANT_SHARE`] of the median.
//!
//! Takes the figures of a series, from a fresh run or a file. Series with fewer than [`MIN_ROUNDS`] rounds that have an
//! interval are not judged.

use crate::model::Series;
use crate::statistics::{CONFIDENCE, binomial_upper_tail};

/// Fewest rounds with an interval (6 samples or more) for a verdict.
pub const MIN_ROUNDS: u64 = 3;

/// False-alarm rate: chance alone makes fewer than 1 of 100 steady series unsteady.
pub const SIGNIFICANCE: f64 = 0.01;

/// A round's interval must miss the series' median by more than this share of it. A smaller drift changes no decision.
pub const RELEVANT_SHARE: f64 = 0.05;

/// Steadiness of the rounds of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Number of rounds that could be judged.
    pub rounds: u64,
    /// Number of those whose median differs from the series' median, significantly and by a relevant amount.
    pub deviating: u64,
    /// Upper bound of the probability of at least this many misses in a steady series.
    pub probability: f64,
}

impl Steadiness {
    /// Judges a series; `None` with too few rounds.
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

    /// Whether the rounds differ by more than chance explains.
    #[must_use]
    pub fn is_unsteady(&self) -> bool {
        self.probability < SIGNIFICANCE
    }
}

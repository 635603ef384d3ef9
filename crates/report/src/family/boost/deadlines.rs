//! Deadlines met, of one series against another: tested on their rounds.

use punctual_record::experiment::boost::{Metrics, Parameters};

use crate::evidence::noise::{self, FREEDOM, MIN_ROUNDS};
use crate::evidence::{LEVEL, Outcome, Shift};
use crate::format::units;

use super::super::shared::Measured;

/// A series of boosts.
pub(super) type Boost<'a> = Measured<'a, Parameters, Metrics>;

/// The subjects, by their names in the record.
pub(super) const BOOST: &str = "boost";
pub(super) const PERFORMANCE: &str = "performance";

/// `99 of 100`.
pub(super) fn met(series: &Boost<'_>) -> String {
    format!("{} of {}", units::count(series.metrics.met.unwrap_or(0)), units::count(series.summary.count))
}

/// Whether the second series meets more deadlines than the first (`Better`), fewer, or neither is shown.
pub(super) fn compared(before: &Boost<'_>, after: &Boost<'_>) -> Outcome {
    let (before, after) = (shares(before), shares(after));
    let differences: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after.0 - before.0).collect();
    let Some(wandering) = noise::wandering(&differences).filter(|_| differences.len() >= MIN_ROUNDS) else {
        return Outcome::NotTested;
    };
    // One deadline of a round is the least that can differ.
    let least = before.iter().chain(&after).map(|(_, count)| 1.0 / *count as f64).fold(0.0, f64::max);
    let by = differences.iter().sum::<f64>() / differences.len() as f64;
    let error = (wandering + least * least).sqrt();
    let shift = Shift { from: 0.0, by, error, freedom: FREEDOM, pair: error * error };
    match shift.probability() < LEVEL && by.abs() > error {
        true if by > 0.0 => Outcome::Better,
        true => Outcome::Worse,
        false => Outcome::NoDifference,
    }
}

/// Share of the deadlines that each round met, and their number; nothing without the single responses.
fn shares(series: &Boost<'_>) -> Vec<(f64, usize)> {
    let periods = usize::try_from(series.parameters.periods).ok().filter(|periods| *periods > 0);
    let samples = series.series.samples.as_deref().unwrap_or_default();
    let met = |round: &[i64]| round.iter().filter(|ns| **ns <= series.parameters.deadline_ns).count();
    let share = |round: &[i64]| (met(round) as f64 / round.len() as f64, round.len());
    periods.map_or_else(Vec::new, |periods| samples.chunks(periods).map(share).collect())
}

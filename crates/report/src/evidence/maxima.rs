//! Whether the largest sample of a round is smaller in one series than in another. It is a sign test over their rounds.
//!
//! A lone maximum is no evidence; that most rounds agree is. Rounds are interleaved, so both maxima of a round saw the
//! same machine. The larger of two equal distributions' maxima falls to either series in proportion to its samples.

use std::collections::BTreeMap;

use punctual_record::statistics::median;
use punctual_record::{RoundFigures, Series};

use super::difference::corrected;
use super::distributions::Beta;
use super::rounds::Outcome;

/// The maxima of two series, round by round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Maxima {
    /// The verdict, corrected for the number of pairs of the call.
    pub(crate) outcome: Outcome,
    /// The median maximum of a round before, in ns.
    pub(crate) before_ns: i64,
    /// The same after.
    pub(crate) after_ns: i64,
    /// Rounds whose maximum is smaller after.
    pub(crate) smaller: usize,
    /// Rounds that both series have, without ties.
    pub(crate) rounds: usize,
}

/// Fewer rounds cannot reach the level, even if all agree: 2 / 2^6 = 0.031.
pub(crate) const MIN_ROUNDS: usize = 6;
/// A smaller difference of the medians is no steadiness, however many rounds agree.
const LEAST_RATIO: f64 = 1.1;

/// The verdicts on pairs of before and after, in their order; `None`: too few rounds.
pub(crate) fn test(pairs: &[(&Series, &Series)]) -> Vec<Option<Maxima>> {
    let drafts: Vec<Option<(Maxima, f64)>> = pairs.iter().map(|(before, after)| draft(before, after)).collect();
    let corrected = corrected(drafts.iter().map(|draft| Some(draft.as_ref()?.1)));
    let finish = |(draft, chosen): (Option<(Maxima, f64)>, bool)| {
        let (maxima, _) = draft?;
        let (low, high) = (maxima.before_ns.min(maxima.after_ns), maxima.before_ns.max(maxima.after_ns));
        let significant = chosen && high as f64 >= low as f64 * LEAST_RATIO;
        let smaller = maxima.smaller * 2 > maxima.rounds && maxima.after_ns < maxima.before_ns;
        let larger = maxima.smaller * 2 < maxima.rounds && maxima.after_ns > maxima.before_ns;
        let outcome = match significant {
            true if smaller => Outcome::Better,
            true if larger => Outcome::Worse,
            _ => Outcome::NoDifference,
        };
        Some(Maxima { outcome, ..maxima })
    };
    drafts.into_iter().zip(corrected.significant).map(finish).collect()
}

/// The two samples of one round: numbers and maxima.
struct Round {
    counts: (u64, u64),
    maxima: (i64, i64),
}

fn draft(before: &Series, after: &Series) -> Option<(Maxima, f64)> {
    let known: BTreeMap<u32, (u64, i64)> = before
        .rounds
        .iter()
        .filter_map(|round| Some((round.round, (round.summary.count, round.summary.max?))))
        .collect();
    let both = |round: &RoundFigures| {
        let (count, max) = known.get(&round.round)?;
        Some(Round { counts: (*count, round.summary.count), maxima: (*max, round.summary.max?) })
    };
    let rounds: Vec<Round> =
        after.rounds.iter().filter_map(both).filter(|round| round.maxima.0 != round.maxima.1).collect();
    if rounds.len() < MIN_ROUNDS {
        return None;
    }
    let sum = |count: fn(&Round) -> u64| rounds.iter().map(|round| count(round) as f64).sum::<f64>();
    let (samples_before, samples_after) = (sum(|round| round.counts.0), sum(|round| round.counts.1));
    let share = samples_before / (samples_before + samples_after).max(1.0);
    let smaller = rounds.iter().filter(|round| round.maxima.1 < round.maxima.0).count();
    // Samples of a burst count once, so the truth lies between the share and one half.
    let probability = two_sided(smaller, rounds.len(), share).max(two_sided(smaller, rounds.len(), 0.5));
    let middle = |maximum: fn(&Round) -> i64| {
        let all: Vec<f64> = rounds.iter().map(|round| maximum(round) as f64).collect();
        Some(median(&all)?.round() as i64)
    };
    let (before_ns, after_ns) = (middle(|round| round.maxima.0)?, middle(|round| round.maxima.1)?);
    let outcome = Outcome::NoDifference;
    Some((Maxima { outcome, before_ns, after_ns, smaller, rounds: rounds.len() }, probability))
}

/// Twice the smaller tail of a binomial distribution.
fn two_sided(successes: usize, trials: usize, chance: f64) -> f64 {
    let at_least = |k: usize, chance: f64| match k {
        0 => 1.0,
        _ => Beta::new(k as f64, (trials - k + 1) as f64).below(chance),
    };
    let tail = at_least(successes, chance).min(at_least(trials - successes, 1.0 - chance));
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_a_binomial_distribution() {
        let near = |found: f64, known: f64| assert!((found / known - 1.0).abs() < 1e-9, "{found} {known}");
        near(two_sided(10, 10, 0.5), 2.0 / 1024.0);
        near(two_sided(0, 6, 0.5), 2.0 / 64.0);
        near(two_sided(9, 10, 0.5), 22.0 / 1024.0);
        near(two_sided(5, 10, 0.5), 1.0);
        near(two_sided(6, 6, 0.8), 2.0 * 0.8_f64.powi(6));
        near(two_sided(0, 6, 0.8), 2.0 * 0.2_f64.powi(6));
    }
}

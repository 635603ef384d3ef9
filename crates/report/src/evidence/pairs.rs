//! Whether a change that was switched on and off makes a difference, tested on pairs of adjacent blocks.
//!
//! Each pair is in random order, so its two blocks saw the same machine but for chance. The pairs' differences are
//! independent, so their standard error and Student's t hold. A floor is added, as for series. All tests of one call are
//! corrected together.
//!
//! The test takes ratios, since a remedy takes the same time off a quiet and off a busy block. A mean of ratios is no
//! time, however. So the size of a difference is the median of the pairs' differences in ns, with its interval by ranks.
//! A size below the scatter of the pairs, or whose interval has 0 in it, is none.

use punctual_record::Quantile;
use punctual_record::statistics::{confidence_ranks, median};

use super::difference::{corrected, scatter};
use super::noise::{Figure, SCALE, floor};
use super::rounds::{Draft, Effect, Gain, settled};
use super::{LEVEL, Shift};

/// Fewest pairs for a verdict.
pub(crate) const MIN_PAIRS: usize = 6;

/// Differences in the share of a CPU that blocks do not show by themselves, as a standard deviation.
const SHARE_FLOOR: f64 = 0.0005;

/// One question: does this figure differ between the first and the second of each pair, in ns?
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) figure: Figure,
    pub(crate) pairs: Vec<[f64; 2]>,
    /// Why it cannot be tested, where there are too few pairs.
    pub(crate) why: String,
}

/// A change of the share of a CPU, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    pub(crate) by: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether a difference is shown.
    pub(crate) shown: bool,
}

/// Answers all questions, corrected for their number, in their order.
pub(crate) fn test(questions: Vec<Question>) -> Vec<Effect> {
    let draft = |question: Question| {
        let middles = [0, 1].map(|side| median(&question.pairs.iter().map(|pair| pair[side]).collect::<Vec<_>>()));
        (middles, draft(question))
    };
    settled(questions.into_iter().map(draft).collect())
}

fn draft(question: Question) -> Result<Draft, String> {
    let places: Vec<[f64; 2]> = question.pairs.iter().map(|pair| pair.map(|ns| SCALE.place(ns))).collect();
    if places.len() < MIN_PAIRS {
        return Err(question.why);
    }
    let from = median(&places.iter().map(|pair| pair[0]).collect::<Vec<_>>()).unwrap_or(0.0);
    let (shift, scatter) = shifted(&places, from, floor(question.figure));
    Ok(Draft { shift, scatter, size: sized(&question.pairs) })
}

/// The median of the differences with its 95 % interval, and their scatter.
fn sized(pairs: &[[f64; 2]]) -> Option<Gain> {
    let mut differences: Vec<f64> = pairs.iter().map(|[off, on]| off - on).collect();
    differences.sort_by(f64::total_cmp);
    let ranks = confidence_ranks(differences.len() as u64, Quantile::P50)?;
    let at = |rank: usize| differences[rank - 1];
    let middle = median(&differences)?;
    let [ns, low_ns, high_ns] = [middle, at(ranks.low as usize), at(ranks.high as usize)].map(|ns| ns.round() as i64);
    Some(Gain { ns, low_ns, high_ns, scatter_ns: scatter(&differences).round() as i64 })
}

/// Whether shares of a CPU differ; `None` with too few pairs. Corrected for their number.
pub(crate) fn shares(all: &[Vec<[f64; 2]>]) -> Vec<Option<Change>> {
    let drafts: Vec<Option<(Shift, f64)>> =
        all.iter().map(|pairs| (pairs.len() >= MIN_PAIRS).then(|| shifted(pairs, 0.0, SHARE_FLOOR))).collect();
    let corrected = corrected(drafts.iter().map(|draft| Some(draft.as_ref()?.0.probability())));
    let change = |(draft, significant): (Option<(Shift, f64)>, &bool)| {
        let (shift, scatter) = draft?;
        let reach = shift.reach(LEVEL / corrected.tested.max(1) as f64);
        let shown = *significant && shift.by.abs() > scatter;
        Some(Change { by: shift.by, low: shift.by - reach, high: shift.by + reach, shown })
    };
    drafts.into_iter().zip(&corrected.significant).map(change).collect()
}

/// The mean difference, its error, and the scatter of single pairs.
fn shifted(pairs: &[[f64; 2]], from: f64, floor: f64) -> (Shift, f64) {
    let differences: Vec<f64> = pairs.iter().map(|[off, on]| on - off).collect();
    let count = differences.len() as f64;
    let by = differences.iter().sum::<f64>() / count;
    let seen = differences.iter().map(|difference| (difference - by).powi(2)).sum::<f64>() / (count - 1.0);
    let (mean, pair) = (seen / count, seen + 2.0 * floor.powi(2));
    let variance = mean + 2.0 * floor.powi(2) / count;
    // The floor is no estimate: it adds to the freedom (F. Satterthwaite, 1946).
    let freedom = (count - 1.0) * (variance / mean.max(variance * 1e-3)).powi(2);
    (Shift { from, by, error: variance.sqrt(), freedom: freedom.clamp(count - 1.0, 1e6), pair }, scatter(&differences))
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Outcome;
    use super::*;
    use punctual_record::statistics::Random;

    fn is_shown(effect: &Effect) -> bool {
        matches!(effect.outcome, Outcome::Better | Outcome::Worse)
    }

    fn question(pairs: Vec<[f64; 2]>) -> Question {
        Question { figure: Figure::P50, pairs, why: "too few".into() }
    }

    /// A number from -1 to 1.
    fn next(random: &mut Random) -> f64 {
        (random.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn a_gain_beyond_the_scatter_is_shown_with_its_interval() {
        let mut random = Random::new(7);
        let pairs = (0..12).map(|_| [81e3 + 2e3 * next(&mut random), 30e3 + 2e3 * next(&mut random)]).collect();
        let effect = &test(vec![question(pairs)])[0];
        let gain = effect.better().unwrap();
        assert!((gain.ns - 51_000).abs() < 2_000 && gain.low_ns < gain.ns && gain.ns < gain.high_ns, "{gain:?}");
        assert!((effect.before_ns.unwrap() - 81_000).abs() < 2_000);
    }

    /// As beside a compiler: every block is disturbed by a time of its own, which no remedy takes off.
    #[test]
    fn a_gain_beside_other_programs_is_the_time_that_the_remedy_takes_off() {
        let mut random = Random::new(5);
        let mut block = |ns: f64| ns + 120e3 * next(&mut random).abs().powi(3);
        let pairs = (0..16).map(|_| [block(80e3), block(30e3)]).collect();
        let gain = test(vec![question(pairs)])[0].better().unwrap();
        assert!(gain.low_ns < 50_000 && 50_000 < gain.high_ns && (gain.ns - 50_000).abs() < 6_000, "{gain:?}");
    }

    #[test]
    fn few_pairs_are_not_tested_which_is_not_no_difference() {
        let effect = &test(vec![question(vec![[80e3, 30e3]; MIN_PAIRS - 1])])[0];
        assert_eq!((effect.outcome, effect.why.as_deref()), (Outcome::NotTested, Some("too few")));
        assert_eq!(shares(&[vec![[0.1, 0.9]; MIN_PAIRS - 1]]), [None]);
    }

    #[test]
    fn of_twenty_thousand_without_a_difference_few_are_shown() {
        let mut random = Random::new(11);
        let mut false_alarms = 0;
        // Ten questions for each program, corrected together. Every fifth block is disturbed.
        for _ in 0..2000 {
            let mut block = || {
                50e3 * (1.0
                    + 0.1 * next(&mut random)
                    + if next(&mut random) > 0.6 { next(&mut random).abs() } else { 0.0 })
            };
            let questions = (0..10).map(|_| question((0..8).map(|_| [block(), block()]).collect())).collect();
            false_alarms += usize::from(test(questions).iter().any(is_shown));
        }
        // At most 5 % of the programs have any.
        assert!(false_alarms <= 100, "{false_alarms} of 2000");
    }

    #[test]
    fn a_share_is_told_from_chance() {
        let mut random = Random::new(3);
        let mut pairs = |by: f64| -> Vec<[f64; 2]> {
            (0..10).map(|_| [0.1 + 0.002 * next(&mut random), 0.1 + by + 0.002 * next(&mut random)]).collect()
        };
        let all = shares(&[pairs(0.02), pairs(0.0)]);
        let [more, same] = [all[0].unwrap(), all[1].unwrap()];
        assert!(more.shown && (more.by - 0.02).abs() < 0.002 && more.low < more.by && more.by < more.high);
        assert!(!same.shown, "{same:?}");
    }
}

//! The difference of one figure between two sides, its uncertainty, and the correction for the number of differences.
//!
//! Takes the figure in each run of both sides. Returns the difference on the comparison's scale and its variance, which
//! is always that *between runs*. With one run a side it comes from the noise within the runs ([`super::noise`]). With
//! several runs, their scatter counts too ([`super::variance`]).
//!
//! Correction: Y. Benjamini and Y. Hochberg (1995). At most the share `level` of the reported differences is expected to be
//! false. If nothing differs at all, `level` is also the probability of any report.

use super::LEVEL;
use super::distributions::{student_quantile, student_two_sided};
use super::noise::{FREEDOM, Reading};
use super::variance::{Estimate, Scatter, center};

/// The part of a side's variance that more runs do not reduce if the sides did not alternate. The machine drifts
/// between the two measurements.
const SHARED: f64 = 0.5;

/// Most runs per side that are worth a number.
const MOST_RUNS: u32 = 1000;

/// Fewest pairs for a robust centre: of fewer, no scatter can tell what lies far off.
const ROBUST: usize = 20;

/// A difference on the comparison's scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shift {
    /// Mean of the old figures on the scale.
    pub(crate) from: f64,
    /// New minus old.
    pub(crate) by: f64,
    /// Its standard error.
    pub(crate) error: f64,
    /// Degrees of freedom of the standard error.
    pub(crate) freedom: f64,
    /// The variance of the difference between one old run and its neighbour, were the runs interleaved.
    pub(crate) pair: f64,
}

impl Shift {
    /// The difference of two series whose rounds were interleaved, from the variance of the rounds' differences and what
    /// no round shows. The latter is no estimate: it adds to the freedom (F. Satterthwaite, 1946).
    pub(crate) fn over_rounds([from, to]: [f64; 2], wandering: f64, more: f64) -> Self {
        let variance = wandering + more;
        let freedom = FREEDOM * (variance / wandering.max(variance * 1e-3)).powi(2);
        Self { from, by: to - from, error: variance.sqrt(), freedom: freedom.clamp(FREEDOM, 1e6), pair: variance }
    }

    /// The p-value: the probability of a difference at least as large if there is none.
    pub(crate) fn probability(&self) -> f64 {
        if self.error > 0.0 { student_two_sided(self.by / self.error, self.freedom) } else { 1.0 }
    }

    /// The smallest detectable difference: at this significance level, nine of ten comparisons with these degrees of
    /// freedom detect it. A quantile of the noncentral t distribution (N. L. Johnson and B. L. Welch, 1940, their first
    /// approximation).
    pub(crate) fn shows(&self, miss: f64) -> f64 {
        errors_to_show(miss, self.freedom) * self.error
    }

    /// Half the width of the confidence interval with this error probability.
    pub(crate) fn reach(&self, miss: f64) -> f64 {
        student_quantile(miss, self.freedom) * self.error
    }
}

/// The smallest detectable difference in standard errors.
fn errors_to_show(miss: f64, freedom: f64) -> f64 {
    /// The 90 % quantile of a normal variable.
    const ONE_OF_TEN: f64 = 1.281_552;
    let needed = student_quantile(miss, freedom);
    needed + ONE_OF_TEN * (1.0 + needed * needed / (2.0 * freedom)).sqrt()
}

/// The fewest interleaved runs a side that make a difference detectable ([`Shift::shows`]), given the variance between
/// neighbours. `None` above [`MOST_RUNS`].
pub(crate) fn runs_to_show(by: f64, pair: f64, miss: f64) -> Option<u32> {
    let is_enough = |runs: u32| errors_to_show(miss, f64::from(runs) - 1.0) * (pair / f64::from(runs)).sqrt() <= by;
    let (mut few, mut enough) = (1, MOST_RUNS);
    if !is_enough(enough) {
        return None;
    }
    while enough - few > 1 {
        let middle = u32::midpoint(few, enough);
        if is_enough(middle) { enough = middle } else { few = middle }
    }
    Some(enough)
}

/// A difference with an unknown variance between runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    from: f64,
    by: f64,
    scatter: Known,
}

/// Knowledge of the variance between runs.
#[derive(Debug, Clone, PartialEq)]
enum Known {
    /// The variance itself.
    All(Estimate),
    /// The scatter of several runs, and the factors from its variance to those of the difference and of one pair.
    Seen(Scatter, f64, f64),
}

impl Draft {
    /// The scatter of several runs; `None` with one run a side.
    pub(crate) fn scatter(&self) -> Option<&Scatter> {
        match &self.scatter {
            Known::Seen(scatter, ..) => Some(scatter),
            Known::All(_) => None,
        }
    }

    /// The difference, given the variance of one run or pair if several were seen.
    pub(crate) fn settled(&self, estimate: Option<Estimate>) -> Shift {
        let (variance, pair, freedom) = match (&self.scatter, estimate) {
            (Known::All(known), _) => (known.variance, known.variance, known.freedom),
            (Known::Seen(_, times, pair), Some(known)) => {
                (known.variance * times, known.variance * pair, known.freedom)
            }
            (Known::Seen(seen, times, pair), None) => (seen.forecast * times, seen.forecast * pair, 1.0),
        };
        Shift { from: self.from, by: self.by, error: variance.sqrt(), freedom, pair }
    }
}

/// A known figure.
#[derive(Debug, Clone, Copy)]
struct Figure {
    place: f64,
    noise: f64,
    floor: f64,
}

fn known(reading: &Reading) -> Option<Figure> {
    match *reading {
        Reading::Known { place, noise, floor } => Some(Figure { place, noise, floor }),
        _ => None,
    }
}

/// The difference between two sides whose runs are independent of each other.
pub(crate) fn apart(old: &[Reading], new: &[Reading]) -> Option<Draft> {
    let old: Vec<Figure> = old.iter().filter_map(known).collect();
    let new: Vec<Figure> = new.iter().filter_map(known).collect();
    let (from, to) = (mean(&old)?, mean(&new)?);
    let scatter = match (old.as_slice(), new.as_slice()) {
        ([one], [other]) => Known::All(one_each(*one, *other)),
        _ => several(&old, &new, from, to),
    };
    Some(Draft { from, by: to - from, scatter })
}

fn mean(side: &[Figure]) -> Option<f64> {
    (!side.is_empty()).then(|| side.iter().map(|run| run.place).sum::<f64>() / side.len() as f64)
}

/// With one run a side. The floor is not an estimate: it adds to the freedom (F. Satterthwaite, 1946).
fn one_each(old: Figure, new: Figure) -> Estimate {
    let variance = old.noise + new.noise + old.floor + new.floor;
    let doubt = (old.noise * old.noise + new.noise * new.noise) / FREEDOM;
    let freedom = if doubt > 0.0 { variance * variance / doubt } else { f64::MAX };
    Estimate { variance, freedom: freedom.clamp(FREEDOM, 1e6) }
}

fn several(old: &[Figure], new: &[Figure], from: f64, to: f64) -> Known {
    let sides = [(old, from), (new, to)];
    let deviations = sides.iter().flat_map(|(side, mean)| side.iter().map(move |run| run.place - mean)).collect();
    let freedom = (old.len() + new.len() - 2) as f64;
    let part = |side: &[Figure]| SHARED + (1.0 - SHARED) / side.len() as f64;
    let scatter = Scatter { deviations, freedom, forecast: forecast(old.iter().chain(new)) };
    Known::Seen(scatter, part(old) + part(new), 2.0)
}

/// Variance of one run's figure, estimated from the run itself.
fn forecast<'a>(runs: impl Iterator<Item = &'a Figure>) -> f64 {
    let (sum, count) = runs.fold((0.0, 0.0), |(sum, count), run| (sum + run.noise + run.floor, count + 1.0));
    sum / count
}

/// An old run and its neighbour.
pub(crate) struct RunPair {
    pub(crate) old: Reading,
    pub(crate) new: Reading,
    /// For a percentile of the tail: new minus old at the places where it may lie ([`crate::evidence::tail`]). Otherwise empty.
    pub(crate) places: Vec<f64>,
}

/// The difference between two sides that alternated. The two runs of a pair saw the same drift. So the pairs'
/// differences are independent and average out with more pairs.
pub(crate) fn paired(all: Vec<RunPair>) -> Option<Draft> {
    let one = |pair: RunPair| Some((known(&pair.old)?, known(&pair.new)?, pair.places));
    let (mut pairs, mut places) = (Vec::new(), Vec::new());
    for (old, new, tail) in all.into_iter().filter_map(one) {
        pairs.push((old, new));
        places.push(tail);
    }
    if pairs.len() < 2 {
        return None;
    }
    let count = pairs.len() as f64;
    let is_robust = pairs.len() >= ROBUST && places.iter().all(|tail| !tail.is_empty());
    let (from, by, deviations) = if is_robust { centered(&pairs, &places) } else { averaged(&pairs) };
    let forecast = 2.0 * forecast(pairs.iter().flat_map(|(old, new)| [old, new]));
    let scatter = Scatter { deviations, freedom: count - 1.0, forecast };
    Some(Draft { from, by, scatter: Known::Seen(scatter, 1.0 / count, 1.0) })
}

/// The mean of the old figures, that of the differences, and the differences' deviations.
fn averaged(pairs: &[(Figure, Figure)]) -> (f64, f64, Vec<f64>) {
    let count = pairs.len() as f64;
    let from = pairs.iter().map(|(old, _)| old.place).sum::<f64>() / count;
    let by = pairs.iter().map(|(old, new)| new.place - old.place).sum::<f64>() / count;
    (from, by, pairs.iter().map(|(old, new)| new.place - old.place - by).collect())
}

/// The same with the robust centre. Differences below the floor between runs always count by their size.
fn centered(pairs: &[(Figure, Figure)], places: &[Vec<f64>]) -> (f64, f64, Vec<f64>) {
    let floor = pairs.iter().map(|(old, new)| old.floor + new.floor).sum::<f64>() / pairs.len() as f64;
    let old: Vec<Vec<f64>> = pairs.iter().map(|(old, _)| vec![old.place]).collect();
    let (from, _) = center(&old, floor.sqrt());
    let (by, deviations) = center(places, floor.sqrt());
    (from, by, deviations)
}

/// The probabilities that are significant at this level.
fn significant(probabilities: &[f64], level: f64) -> Vec<bool> {
    let count = probabilities.len() as f64;
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    let passes = |(rank, &place): (usize, &usize)| probabilities[place] <= level * (rank + 1) as f64 / count;
    let kept = order.iter().enumerate().filter(|&(rank, place)| passes((rank, place))).map(|(rank, _)| rank + 1).max();
    let mut chosen = vec![false; probabilities.len()];
    for &place in &order[..kept.unwrap_or(0)] {
        chosen[place] = true;
    }
    chosen
}

/// Which of several tests are significant, at [`LEVEL`].
pub(crate) struct Corrected {
    /// In the order of the tests; what was not tested is not significant.
    pub(crate) significant: Vec<bool>,
    /// How many were tested.
    pub(crate) tested: usize,
    /// Error probability of the intervals of selected differences (Y. Benjamini and D. Yekutieli, 2005).
    pub(crate) miss: f64,
}

/// Corrects tests for their number; `None`: not tested.
pub(crate) fn corrected(probabilities: impl IntoIterator<Item = Option<f64>>) -> Corrected {
    let all: Vec<Option<f64>> = probabilities.into_iter().collect();
    let known: Vec<f64> = all.iter().flatten().copied().collect();
    let chosen = significant(&known, LEVEL);
    let selected = chosen.iter().filter(|&&chosen| chosen).count().max(1);
    let mut chosen = chosen.into_iter();
    let significant = all.iter().map(|probability| probability.is_some() && chosen.next() == Some(true)).collect();
    Corrected { significant, tested: known.len(), miss: LEVEL * selected as f64 / known.len().max(1) as f64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the 1995 paper, section 4: of fifteen, the first four are rejected.
    #[test]
    fn as_in_the_paper() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0000,
        ];
        let chosen = significant(&p, 0.05);
        assert_eq!(chosen.iter().filter(|&&chosen| chosen).count(), 4);
        assert!(chosen[..4].iter().all(|&chosen| chosen));
        assert!(significant(&[], 0.05).is_empty());
    }

    proptest! {
        #[test]
        fn never_laxer_than_one_alone_nor_stricter_than_bonferroni(p in prop::collection::vec(0.0f64..=1.0, 1..60)) {
            let chosen = significant(&p, 0.05);
            for (chosen, probability) in chosen.iter().zip(&p) {
                prop_assert!(!chosen || *probability <= 0.05);
                prop_assert!(*chosen || *probability > 0.05 / p.len() as f64);
            }
        }
    }
}

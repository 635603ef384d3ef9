//! The difference of one figure between two sides, its uncertainty, and the correction for the number of differences.
//!
//! Takes the figure in each run of both sides. Returns the difference on the comparison's scale and its variance, which
//! is always that *between runs*. With one run a side it comes from the noise within the runs ([`super::noise`]). With
//! several runs, their scatter counts too.
//!
//! Correction: Y. Benjamini and Y. Hochberg (1995). At most the share `level` of the reported differences is expected to be
//! false. If nothing differs at all, `level` is also the probability of any report.
//!
//! **Variance between runs.** A few runs a side say little about their own variance: four pairs have three degrees of freedom. But each run
//! also has a forecast from the noise of its rounds. All series come from the same runs on the same
//! machine. If the runs of the other series lie twice as far apart as forecast, this one's likely do so too. This is
//! an empirical Bayes estimate (G. K. Smyth, *Linear models and empirical Bayes methods*, 2004). It is the moderated
//! t of limma, with the rounds' forecast as its trend.
//!
//! Takes, for one figure, the observed and the forecast variance of each series. Returns the variance of each with its
//! degrees of freedom. A series never influences its own prior, and correlated series count as fewer.

use punctual_record::Distribution;
use punctual_record::statistics::median;

use crate::evidence::LEVEL;
use crate::evidence::distributions::{digamma, inverse_trigamma, student_quantile, student_two_sided, trigamma};
use crate::evidence::noise::{FREEDOM, Reading, SCALE};

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

/// A difference, its variance known or not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Draft {
    /// With one run a side, whose rounds tell it.
    Known(Shift),
    /// With several runs: the old figure, new minus old, the runs' scatter, and the factors from its variance to those of the difference
    /// and of one pair.
    Seen { from: f64, by: f64, scatter: Scatter, times: f64, pair: f64 },
}

/// A figure in one run of a side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InRun<'a> {
    /// Place of the run in its side.
    pub(crate) run: usize,
    pub(crate) reading: Reading,
    /// Of a percentile of the tail: where it may lie. Only such a figure jumps from run to run.
    pub(crate) places: Option<&'a [f64]>,
}

/// The difference between two sides: of neighbours, where at least two pairs of them have the figure.
pub(crate) fn between(old: &[InRun<'_>], new: &[InRun<'_>], neighbours: Option<&[(usize, usize)]>) -> Option<Draft> {
    let neighbours = neighbours.into_iter().flatten();
    let pairs = neighbours
        .filter_map(|(a, b)| Some([old.iter().find(|one| one.run == *a)?, new.iter().find(|one| one.run == *b)?]));
    let readings = |side: &[InRun<'_>]| side.iter().map(|one| one.reading).collect::<Vec<_>>();
    paired(&pairs.collect::<Vec<_>>()).or_else(|| apart(&readings(old), &readings(new)))
}

/// The difference between two sides whose runs are independent of each other.
fn apart(old: &[Reading], new: &[Reading]) -> Option<Draft> {
    let (from, to) = (mean(old)?, mean(new)?);
    Some(match (old, new) {
        ([one], [other]) => Draft::Known(one_each(*one, *other)),
        _ => several([(old, from), (new, to)]),
    })
}

fn mean(side: &[Reading]) -> Option<f64> {
    (!side.is_empty()).then(|| side.iter().map(|run| run.place).sum::<f64>() / side.len() as f64)
}

/// With one run a side. The floor is not an estimate: it adds to the freedom (F. Satterthwaite, 1946).
pub(crate) fn one_each(old: Reading, new: Reading) -> Shift {
    let variance = old.noise + new.noise + old.floor + new.floor;
    let doubt = (old.noise * old.noise + new.noise * new.noise) / FREEDOM;
    let freedom = if doubt > 0.0 { variance * variance / doubt } else { f64::MAX };
    let (by, error) = (new.place - old.place, variance.sqrt());
    Shift { from: old.place, by, error, freedom: freedom.clamp(FREEDOM, 1e6), pair: variance }
}

/// With several: each side and its mean.
fn several(sides: [(&[Reading], f64); 2]) -> Draft {
    let [(old, from), (new, to)] = sides;
    let deviations = sides.iter().flat_map(|(side, mean)| side.iter().map(move |run| run.place - mean)).collect();
    let freedom = (old.len() + new.len() - 2) as f64;
    let part = |side: &[Reading]| SHARED + (1.0 - SHARED) / side.len() as f64;
    let scatter = Scatter { deviations, freedom, forecast: forecast(old.iter().chain(new)) };
    Draft::Seen { from, by: to - from, scatter, times: part(old) + part(new), pair: 2.0 }
}

/// Variance of one run's figure, estimated from the run itself.
fn forecast<'a>(runs: impl Iterator<Item = &'a Reading>) -> f64 {
    let (sum, count) = runs.fold((0.0, 0.0), |(sum, count), run| (sum + run.noise + run.floor, count + 1.0));
    sum / count
}

/// An old run and its neighbour.
type Neighbours<'a> = [&'a InRun<'a>; 2];

/// The difference between two sides that alternated. The two runs of a pair saw the same drift. So the pairs'
/// differences are independent and average out with more pairs.
fn paired(pairs: &[Neighbours<'_>]) -> Option<Draft> {
    if pairs.len() < 2 {
        return None;
    }
    let count = pairs.len() as f64;
    let places: Option<Vec<Vec<f64>>> = pairs.iter().map(|[old, new]| places_between(old, new)).collect();
    let (from, by, deviations) = match places.filter(|_| pairs.len() >= ROBUST) {
        Some(places) => centered(pairs, &places),
        None => averaged(pairs),
    };
    let forecast = 2.0 * forecast(pairs.iter().flatten().map(|run| &run.reading));
    let scatter = Scatter { deviations, freedom: count - 1.0, forecast };
    Some(Draft::Seen { from, by, scatter, times: 1.0 / count, pair: 1.0 })
}

/// New minus old at the places where a percentile of the tail may lie; `None` of another figure.
fn places_between(old: &InRun<'_>, new: &InRun<'_>) -> Option<Vec<f64>> {
    let (before, after) = (old.places?, new.places?);
    // A run without a histogram has one place.
    if before.len() != after.len() {
        return Some(vec![new.reading.place - old.reading.place]);
    }
    Some(after.iter().zip(before).map(|(new, old)| new - old).collect())
}

/// The mean of the old figures, that of the differences, and the differences' deviations.
fn averaged(pairs: &[Neighbours<'_>]) -> (f64, f64, Vec<f64>) {
    let count = pairs.len() as f64;
    let from = pairs.iter().map(|[old, _]| old.reading.place).sum::<f64>() / count;
    let differences = || pairs.iter().map(|[old, new]| new.reading.place - old.reading.place);
    let by = differences().sum::<f64>() / count;
    (from, by, differences().map(|difference| difference - by).collect())
}

/// The same with the robust centre. Differences below the floor between runs always count by their size.
fn centered(pairs: &[Neighbours<'_>], places: &[Vec<f64>]) -> (f64, f64, Vec<f64>) {
    let floors = pairs.iter().map(|[old, new]| old.reading.floor + new.reading.floor);
    let floor = (floors.sum::<f64>() / pairs.len() as f64).sqrt();
    let old: Vec<Vec<f64>> = pairs.iter().map(|[old, _]| vec![old.reading.place]).collect();
    let (from, _) = center(&old, floor);
    let (by, deviations) = center(places, floor);
    (from, by, deviations)
}

/// The differences of one figure; where several runs were seen, all estimate their scatter together.
pub(crate) fn settled<'d>(drafts: impl Iterator<Item = Option<&'d Draft>> + Clone) -> Vec<Option<Shift>> {
    let scatter = |draft: &'d Draft| match draft {
        Draft::Known(_) => None,
        Draft::Seen { scatter, .. } => Some(scatter.clone()),
    };
    let scatters: Vec<Scatter> = drafts.clone().flatten().filter_map(scatter).collect();
    let mut estimates = estimates(&scatters).into_iter();
    let settle = |draft: Option<&Draft>| match *draft? {
        Draft::Known(shift) => Some(shift),
        Draft::Seen { from, by, times, pair, .. } => {
            let Estimate { variance, freedom } = estimates.next()?;
            Some(Shift { from, by, error: (variance * times).sqrt(), freedom, pair: variance * pair })
        }
    };
    drafts.map(settle).collect()
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

/// Degrees of freedom of the forecast if the machine's ratio of the variances between and within runs were known.
/// Series of one machine scatter around it by a factor of about 1.6 to either side.
const FREEDOM_OF_FORECAST: f64 = 8.0;

/// Prior standard deviation of the logarithm of that ratio, on an unknown machine. It is wide: a whole run can be off
/// without a sign in its rounds. Short rounds can exceed the noise of their run.
const UNKNOWN_MACHINE: f64 = 2.0;

/// From this many degrees of freedom on, the observed variance needs no forecast.
const ENOUGH: f64 = 60.0;

/// Bounds of a variance, as a multiple of the forecast and its inverse. A series that never moved says no more.
const FURTHEST: f64 = 1e4;

/// Data on one figure of one series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scatter {
    /// Observations: the deviations of the runs, or of the pairs, from their mean, in order of time.
    pub(crate) deviations: Vec<f64>,
    /// Degrees of freedom of the observations, 1 or more.
    pub(crate) freedom: f64,
    /// The variance of one such deviation, forecast from the rounds.
    pub(crate) forecast: f64,
}

/// A variance and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) variance: f64,
    pub(crate) freedom: f64,
}

impl Scatter {
    fn seen(&self) -> f64 {
        self.deviations.iter().map(|deviation| deviation * deviation).sum::<f64>() / self.freedom
    }

    /// The logarithm of observed over forecast, corrected for its bias with few degrees of freedom.
    fn surprise(&self) -> f64 {
        let half = self.freedom / 2.0;
        (self.seen() / self.forecast).clamp(1.0 / FURTHEST, FURTHEST).ln() - (digamma(half) - half.ln())
    }

    /// The deviations as a unit vector; `None` if they all are zero.
    fn direction(&self) -> Option<Vec<f64>> {
        let length = self.deviations.iter().map(|deviation| deviation * deviation).sum::<f64>().sqrt();
        (length > 0.0).then(|| self.deviations.iter().map(|deviation| deviation / length).collect())
    }
}

/// The variances of one figure in all series.
pub(crate) fn estimates(series: &[Scatter]) -> Vec<Estimate> {
    let surprises: Vec<f64> = series.iter().map(Scatter::surprise).collect();
    let together = Together::new(series);
    let sum: f64 = surprises.iter().sum();
    let one = |(place, own): (usize, &Scatter)| {
        let seen = Estimate { variance: own.seen(), freedom: own.freedom };
        if own.freedom >= ENOUGH {
            return seen;
        }
        // Prior of an unknown machine: a ratio of 1, with its uncertainty.
        let (mut weight, mut ratio) = (UNKNOWN_MACHINE.powi(-2), 0.0);
        let others = surprises.len() - 1;
        if others > 0 {
            let scatter = trigamma(own.freedom / 2.0) + trigamma(FREEDOM_OF_FORECAST / 2.0);
            let told = together.worth(place) / scatter;
            ratio = told * (sum - surprises[place]) / others as f64 / (weight + told);
            weight += told;
        }
        let freedom = 2.0 * inverse_trigamma(trigamma(FREEDOM_OF_FORECAST / 2.0) + 1.0 / weight);
        let forecast = Estimate { variance: own.forecast * ratio.exp(), freedom };
        forecast.and(seen)
    };
    series.iter().enumerate().map(one).collect()
}

impl Estimate {
    /// The combination of both, each weighted by its degrees of freedom.
    fn and(self, other: Self) -> Self {
        let freedom = self.freedom + other.freedom;
        Self { variance: (self.freedom * self.variance + other.freedom * other.variance) / freedom, freedom }
    }
}

/// Correlation of the series.
struct Together {
    count: f64,
    /// For each series, the sum over all series of the squared correlation with it, including itself.
    of_each: Vec<f64>,
}

impl Together {
    /// The sum of squared correlations of all pairs equals the sum of squares of the directions' second moments. This
    /// takes linear time in the number of series instead of quadratic.
    fn new(series: &[Scatter]) -> Self {
        let length = series.first().map_or(0, |first| first.deviations.len());
        let alike = series.iter().all(|one| one.deviations.len() == length && one.freedom < ENOUGH);
        let count = series.len() as f64;
        if !alike {
            // Different runs measured them: their correlation is unknown, so the worst is assumed.
            return Self { count, of_each: vec![count; series.len()] };
        }
        let directions: Vec<Option<Vec<f64>>> = series.iter().map(Scatter::direction).collect();
        let mut moments = vec![0.0; length * length];
        for direction in directions.iter().flatten() {
            for (row, at_row) in direction.iter().enumerate() {
                for (column, at_column) in direction.iter().enumerate() {
                    moments[row * length + column] += at_row * at_column;
                }
            }
        }
        let with_all = |direction: &Option<Vec<f64>>| {
            let Some(direction) = direction else { return 1.0 };
            let rows = moments.chunks(length.max(1)).zip(direction);
            rows.map(|(row, at)| at * row.iter().zip(direction).map(|(a, b)| a * b).sum::<f64>()).sum::<f64>().max(1.0)
        };
        Self { count, of_each: directions.iter().map(with_all).collect() }
    }

    /// The effective number of independent series without this one.
    fn worth(&self, place: usize) -> f64 {
        let others = self.count - 1.0;
        if others < 2.0 {
            return others;
        }
        let all: f64 = self.of_each.iter().sum();
        // Excludes the correlations of each with itself, and those of this series.
        let pairs = all - self.count - 2.0 * (self.of_each[place] - 1.0);
        let squared = (pairs / (others * (others - 1.0))).clamp(0.0, 1.0);
        others / (1.0 + (others - 1.0) * squared)
    }
}

// Figures that a few far values do not rule: the median, the scatter around it, the centre of differences, and where a
// p99 may lie.
//
// The p99 of a short run jumps. With one disturbance more it is a millisecond, with one less a tenth of that. The mean
// of such differences is ruled by the jumps. The centre counts a difference by its size up to half of their standard
// deviation, and by its sign beyond. Source: P. J. Huber, *Robust estimation of a location parameter*, 1964.
//
// That p99 is one of the largest samples: of 370, the fourth. Its neighbours are nearly as likely to be the true
// percentile. So a run has [`PLACES`] values, each equally likely to be it. Their ranks are quantiles of the beta
// distribution of the percentile, by E. B. Wilson and M. M. Hilferty's approximation (1931). Source: F. E. Harrell and C.
// E. Davis, *A new distribution-free quantile estimator*, 1982.

/// Size from which only the sign counts, in robust standard deviations. Decided on simulated machines like those of
/// `tests/all/power.rs`. At 1.3 a comparison takes a third more runs; with the mean, more than twice as many.
const BY_SIZE: f64 = 0.5;

/// Most steps towards the centre. Each moves it to the mean of what is clipped around it.
const STEPS: usize = 100;

/// The centre of one or several differences of each pair, and the influence of each pair on it. The influences take the
/// place of deviations from a mean: their variance, divided by the number of pairs, is that of the centre.
fn center(pairs: &[Vec<f64>], least: f64) -> (f64, Vec<f64>) {
    let all: Vec<f64> = pairs.iter().flatten().copied().collect();
    let mut center = median(&all).unwrap_or(0.0);
    let reach = (BY_SIZE * scatter(&all)).max(least);
    let mut found = influences(pairs, center, reach);
    for _ in 0..STEPS {
        let step = found.iter().sum::<f64>() / found.len().max(1) as f64;
        center += step;
        found = influences(pairs, center, reach);
        if step.abs() < 1e-12 {
            break;
        }
    }
    (center, found)
}

/// The clipped distance of each pair from the centre, over the share of the values that are not clipped.
fn influences(pairs: &[Vec<f64>], center: f64, reach: f64) -> Vec<f64> {
    let mean = |values: &[f64], weight: &dyn Fn(f64) -> f64| {
        values.iter().map(|value| weight(value - center)).sum::<f64>() / values.len().max(1) as f64
    };
    let inside = |away: f64| f64::from(u8::from(away.abs() <= reach));
    let counted = pairs.iter().map(|pair| mean(pair, &inside)).sum::<f64>() / pairs.len().max(1) as f64;
    // Without any value inside, a step is as long as the reach.
    let counted = if counted > 0.0 { counted } else { 1.0 };
    pairs.iter().map(|pair| mean(pair, &|away| away.clamp(-reach, reach)) / counted).collect()
}

/// A standard deviation, as a multiple of the median absolute deviation of normal values.
const OF_MEDIAN: f64 = 1.4826;

/// The scatter of single values: the median absolute deviation, scaled to a standard deviation.
pub(crate) fn scatter(values: &[f64]) -> f64 {
    let Some(middle) = median(values) else { return 0.0 };
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    OF_MEDIAN * median(&away).unwrap_or(0.0)
}

/// How many values stand for the percentile of a run.
pub(crate) const PLACES: usize = 15;

/// Share of the samples above the percentile.
const ABOVE: f64 = 0.01;

/// Normal quantiles at the middles of fifteen equal probabilities: zero, and these to either side.
const NORMAL: [f64; 7] = [0.167_894, 0.340_695, 0.524_401, 0.727_913, 0.967_422, 1.281_552, 1.833_915];

/// The values where the 99th percentile of a run may lie, on the comparison's scale, the largest first; `None` without samples.
pub(crate) fn places(distribution: &Distribution) -> Option<[f64; PLACES]> {
    let count = distribution.count();
    let mut found = [0.0; PLACES];
    for (place, rank) in found.iter_mut().zip(ranks(count)) {
        *place = SCALE.place(distribution.value_at_rank(rank)? as f64);
    }
    Some(found)
}

/// The ranks of these values among this many samples, the highest first.
fn ranks(count: u64) -> impl Iterator<Item = u64> {
    let above = (count as f64 + 1.0) * ABOVE;
    let low = NORMAL.iter().rev().map(|quantile| -quantile);
    low.chain([0.0]).chain(NORMAL).map(move |normal| {
        let root = 1.0 - 1.0 / (9.0 * above) + normal / (3.0 * above.sqrt());
        let from_the_top = (above * root.powi(3)).max(0.0).floor() as u64;
        count.saturating_sub(from_the_top).max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::distributions::Beta;
    use proptest::prelude::*;

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

    fn scatter(deviations: &[f64], forecast: f64) -> Scatter {
        Scatter { deviations: deviations.to_vec(), freedom: deviations.len() as f64 - 1.0, forecast }
    }

    const SMALL: [f64; 4] = [0.01, -0.01, 0.01, -0.01];

    /// Four runs that happen to agree are not believed if the other series scatter widely.
    #[test]
    fn others_have_a_say() {
        let calm = [
            scatter(&SMALL, 1e-4),
            scatter(&[0.01, 0.01, -0.01, -0.01], 1e-4),
            scatter(&[0.01, -0.01, -0.01, 0.01], 1e-4),
        ];
        let wild = |sign: f64| scatter(&[0.2, sign * 0.2, -0.2, -sign * 0.2], 1e-4);
        let among_wild = [scatter(&SMALL, 1e-4), wild(1.0), wild(-1.0)];
        let (calm, among_wild) = (estimates(&calm)[0], estimates(&among_wild)[0]);
        assert!(among_wild.variance > 3.0 * calm.variance, "{calm:?} {among_wild:?}");
        assert!(calm.freedom > 4.0);
    }

    /// A duplicate of another series adds no information.
    #[test]
    fn those_that_move_together_count_once() {
        let others =
            [[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, -1.0, 1.0]].map(|signs| scatter(&signs.map(|s| 0.03 * s), 1e-4));
        let apart = estimates(&[scatter(&SMALL, 1e-4), others[0].clone(), others[1].clone()])[0];
        let together = estimates(&[scatter(&SMALL, 1e-4), others[0].clone(), others[0].clone()])[0];
        assert!(together.freedom < apart.freedom, "{together:?} {apart:?}");
        let alone = estimates(&[scatter(&SMALL, 1e-4)])[0];
        assert!(alone.freedom < together.freedom && alone.freedom > 3.0, "{alone:?}");
    }

    #[test]
    fn many_runs_speak_for_themselves() {
        let deviations: Vec<f64> = (0..62).map(|i| if i % 2 == 0 { 0.1 } else { -0.1 }).collect();
        let found = estimates(&[scatter(&deviations, 1.0), scatter(&deviations, 1.0)])[0];
        assert_eq!(found.freedom, 61.0);
    }

    proptest! {
        #[test]
        fn between_what_was_seen_and_what_was_foretold_or_learned(
            runs in prop::collection::vec(prop::collection::vec(-1.0f64..1.0, 5), 1..12), forecast in 1e-6f64..1.0
        ) {
            let series: Vec<Scatter> = runs.iter().map(|run| scatter(run, forecast)).collect();
            for found in estimates(&series) {
                prop_assert!(found.variance.is_finite() && found.variance > 0.0);
                prop_assert!(found.freedom > 4.0 && found.freedom < 4.0 + FREEDOM_OF_FORECAST + 0.01);
            }
        }
    }

    fn singles(values: &[f64]) -> Vec<Vec<f64>> {
        values.iter().map(|value| vec![*value]).collect()
    }

    #[test]
    fn a_few_jumps_do_not_move_it_far() {
        let calm = [0.38, 0.40, 0.41, 0.39, 0.42, 0.40, 0.38, 0.41];
        let (alone, _) = center(&singles(&calm), 0.0);
        let (with_jumps, _) = center(&singles(&[&calm[..], &[2.5, -2.0]].concat()), 0.0);
        assert!((alone - 0.4).abs() < 0.01 && (with_jumps - 0.4).abs() < 0.02, "{alone} {with_jumps}");
        let (more_up, _) = center(&singles(&[&calm[..], &[2.5; 6]].concat()), 0.0);
        assert!(more_up > with_jumps + 0.01, "a jump still counts by its sign: {more_up}");
    }

    #[test]
    fn equal_differences_have_no_spread() {
        assert_eq!(center(&singles(&[0.5; 6]), 0.0), (0.5, vec![0.0; 6]));
    }

    proptest! {
        #[test]
        fn it_lies_among_the_values_and_its_influences_cancel(
            values in prop::collection::vec(-3.0f64..3.0, 3..60), by in -2.0f64..2.0
        ) {
            let (found, influences) = center(&singles(&values), 0.03);
            let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
            prop_assert!((low - 1e-9..=high + 1e-9).contains(&found));
            prop_assert!(influences.iter().sum::<f64>().abs() < 1e-3 * values.len() as f64);
            let moved: Vec<f64> = values.iter().map(|value| -value + by).collect();
            let (other, _) = center(&singles(&moved), 0.03);
            prop_assert!((found + other - by).abs() < 1e-2, "mirrored and moved: {} {}", found, other);
        }
    }

    /// Each rank is where the beta distribution of the percentile has the probability that the rank stands for.
    #[test]
    fn ranks_are_quantiles_of_the_beta_distribution() {
        for count in [200_u64, 370, 5000, 1_000_000] {
            let beta = Beta::new((count as f64 + 1.0) * (1.0 - ABOVE), (count as f64 + 1.0) * ABOVE);
            for (number, rank) in ranks(count).enumerate() {
                let wanted = 1.0 - (number as f64 + 0.5) / PLACES as f64;
                let (below, above) = ((rank - 1) as f64 / count as f64, rank as f64 / count as f64);
                let (below, above) = (beta.below(below) - 0.02, beta.below(above) + 0.02);
                assert!(below <= wanted && wanted <= above, "{count} {number}: {below} {wanted} {above}");
            }
        }
        assert!(ranks(370).all(|rank| (361..=370).contains(&rank)));
        assert!(ranks(1).all(|rank| rank == 1));
    }
}

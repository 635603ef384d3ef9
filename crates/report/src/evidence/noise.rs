//! The noise of a figure, estimated from one run.
//!
//! Figures are compared on a scale on which equal steps are equal ratios ([`Scale`]); variances are on that scale.
//!
//! **Why not the rounds' standard error.** The lateness of a machine drifts: neighbours come and go, a host moves its
//! guests. Such flicker noise has the same power at ten times the duration. So averaging over a longer time does not
//! reduce it. The standard error of the rounds, or a block bootstrap, is too optimistic. On the development machine
//! the factor is 1.4 to 1.8. The **Allan variance** measures the scatter of time averages of such noise. Source: D. W.
//! Allan, *Statistics of Atomic Frequency Standards*, 1966. It is half the mean square of the difference between
//! averages of adjacent stretches. It levels off where flicker begins. So the value at a fifth of a run estimates the
//! distance between two consecutive runs.

use punctual_record::{Distribution, Quantile, RoundFigures};

use super::student::Beta;

/// Fewest rounds for an estimate.
pub(crate) const MIN_ROUNDS: usize = 5;

/// Number of stretches of a run.
const STRETCHES: usize = 5;

/// Degrees of freedom of the Allan variance of one run: four differences between neighbours among five stretches.
/// Overlapping stretches add a little; neighbouring differences share a stretch, which takes it away.
pub(crate) const FREEDOM: f64 = 4.0;

/// The scale of comparisons: the inverse hyperbolic sine. It is logarithmic far above the cost of a clock reading and
/// linear below. So large figures compare by ratio; tiny, zero and negative ones by difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    unit: f64,
}

impl Scale {
    /// With the cost of a clock reading, in ns, as the size below which ratios mean nothing.
    const fn new(reading_ns: f64) -> Self {
        Self { unit: 2.0 * reading_ns.clamp(1.0, 1e9) }
    }

    /// From a figure to the scale.
    pub(crate) fn place(self, ns: f64) -> f64 {
        (ns / self.unit).asinh()
    }

    /// From the scale to a figure.
    pub(crate) fn figure(self, place: f64) -> f64 {
        place.sinh() * self.unit
    }

    /// The slope of the scale at a figure, per ns.
    pub(crate) fn step(self, ns: f64) -> f64 {
        1.0 / ns.hypot(self.unit)
    }
}

/// That of every comparison, so that the figures do not depend on the order of the sides. A clock reading costs this much on current
/// machines.
pub(crate) const SCALE: Scale = Scale::new(25.0);

/// The Allan variance of a figure's rounds at a fifth of their duration; `None` with fewer than [`MIN_ROUNDS`].
pub(crate) fn wandering(places: &[f64]) -> Option<f64> {
    if places.len() < MIN_ROUNDS {
        return None;
    }
    let stretch = (places.len() / STRETCHES).max(1);
    let averages: Vec<f64> =
        places.windows(stretch).map(|window| window.iter().sum::<f64>() / stretch as f64).collect();
    let pairs = averages.len().saturating_sub(stretch);
    let sum: f64 = (0..pairs).map(|i| (averages[i + stretch] - averages[i]).powi(2)).sum();
    let variance = sum / (2.0 * pairs as f64);
    variance.is_finite().then_some(variance)
}

/// Up to this many samples, every rank around a percentile is weighted. Beyond, samples are so dense that two of them
/// suffice.
const WEIGHED: u64 = 50_000;

/// The sampling variance of a percentile. Each nearby sample is weighted by the probability that the true percentile is
/// there. Source: J. S. Maritz and R. G. Jarrett, *A note on estimating the variance of the sample median*, 1978.
pub(crate) fn by_rank(distribution: &Distribution, quantile: Quantile) -> Option<f64> {
    let count = distribution.count();
    let rank = quantile.rank(count)?;
    let ratio = quantile.ratio();
    let deviation = (count as f64 * ratio * (1.0 - ratio)).sqrt();
    let at = |rank: u64| distribution.value_at_rank(rank.clamp(1, count)).map(|ns| SCALE.place(ns as f64));
    if count > WEIGHED {
        let away = deviation.ceil() as u64;
        let half = (at(rank.saturating_add(away))? - at(rank.saturating_sub(away))?) / 2.0;
        return Some(half * half);
    }
    // The probability of ranks further away is below 1e-9.
    let reach = (8.0 * deviation).ceil() as u64;
    let (first, last) = (rank.saturating_sub(reach), rank.saturating_add(reach));
    let chances = Beta::new(rank as f64, (count - rank + 1) as f64);
    let (min, max) = distribution.extremes()?;
    let place = |ns: i64| SCALE.place(ns.clamp(min, max) as f64);
    let (mut so_far, mut mean, mut square) = (0.0, 0.0, 0.0);
    let mut weigh = |chance: f64, place: f64| {
        let weight = chance - so_far;
        mean += weight * place;
        square += weight * place * place;
        so_far = chance;
    };
    let mut reached = distribution.overflow().0;
    for bucket in distribution.buckets() {
        reached += bucket.count;
        if reached >= last {
            break;
        }
        if reached > first {
            weigh(chances.below(reached as f64 / count as f64), place(bucket.high));
        }
    }
    weigh(1.0, at(last)?);
    Some((square - mean * mean).max(0.0))
}

/// One figure of each round that has it.
pub(crate) fn places(rounds: &[RoundFigures], figure: impl Fn(&RoundFigures) -> Option<f64>) -> Vec<f64> {
    let finite = |ns: &f64| ns.is_finite();
    rounds.iter().filter_map(|round| figure(round).filter(finite)).map(|ns| SCALE.place(ns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The variance is p (1 - p) / (n density^2), here of logistic samples.
    #[test]
    fn a_percentile_scatters_as_theory_says() {
        let mut recorder = punctual_record::Recorder::new();
        let count = 2000;
        (0..count).for_each(|i| {
            let p = (f64::from(i) + 0.5) / f64::from(count);
            recorder.record((100_000.0 + 5_000.0 * (p / (1.0 - p)).ln()) as i64);
        });
        let distribution = recorder.distribution();
        let found = by_rank(&distribution, Quantile::P99).unwrap();
        // A logistic distribution's density at a quantile is p (1 - p) / scale.
        let value = 100_000.0 + 5_000.0 * 99.0_f64.ln();
        let expected = (5_000.0 / value).powi(2) / (0.99 * 0.01 * f64::from(count));
        assert!((found / expected - 1.0).abs() < 0.2, "{found} {expected}");
    }

    #[test]
    fn independent_rounds_scatter_by_their_standard_error() {
        // Alternating rounds cancel within a stretch of two; a step between halves does not.
        let alternating: Vec<f64> = (0..10).map(|i| f64::from(i % 2)).collect();
        assert_eq!(wandering(&alternating), Some(0.0));
        let step: Vec<f64> = (0..10).map(|i| f64::from(i / 5)).collect();
        assert!(wandering(&step).unwrap() > 0.05);
        assert_eq!(wandering(&[1.0; 4]), None);
        assert_eq!(wandering(&[1.0; 5]), Some(0.0));
    }

    proptest! {
        #[test]
        fn there_and_back(ns in -1e12f64..1e12, reading in 0.0f64..1e4) {
            let scale = Scale::new(reading);
            let back = scale.figure(scale.place(ns));
            prop_assert!((back - ns).abs() <= 1e-9 * ns.abs().max(1.0));
        }

        #[test]
        fn ratios_of_large_figures_are_equal_steps(ns in 1e5f64..1e9) {
            let scale = Scale::new(24.0);
            let step = scale.place(1.2 * ns) - scale.place(ns);
            prop_assert!((step - 1.2f64.ln()).abs() < 1e-5);
        }
    }
}

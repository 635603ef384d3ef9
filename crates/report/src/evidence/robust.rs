//! Figures that a few far values do not rule: the median, the scatter around it, the centre of differences, and where a
//! p99 may lie.
//!
//! The p99 of a short run jumps. With one disturbance more it is a millisecond, with one less a tenth of that. The mean
//! of such differences is ruled by the jumps. The centre counts a difference by its size up to half of their standard
//! deviation, and by its sign beyond. Source: P. J. Huber, *Robust estimation of a location parameter*, 1964.
//!
//! That p99 is one of the largest samples: of 370, the fourth. Its neighbours are nearly as likely to be the true
//! percentile. So a run has [`PLACES`] values, each equally likely to be it. Their ranks are quantiles of the beta
//! distribution of the percentile, by E. B. Wilson and M. M. Hilferty's approximation (1931). Source: F. E. Harrell and C.
//! E. Davis, *A new distribution-free quantile estimator*, 1982.

use punctual_record::Distribution;
use punctual_record::statistics::median;

use super::noise::SCALE;

/// Size from which only the sign counts, in robust standard deviations. Decided on simulated machines like those of
/// `tests/all/power.rs`. At 1.3 a comparison takes a third more runs; with the mean, more than twice as many.
const BY_SIZE: f64 = 0.5;

/// Most steps towards the centre. Each moves it to the mean of what is clipped around it.
const STEPS: usize = 100;

/// The centre of one or several differences of each pair, and the influence of each pair on it. The influences take the
/// place of deviations from a mean: their variance, divided by the number of pairs, is that of the centre.
pub(crate) fn center(pairs: &[Vec<f64>], least: f64) -> (f64, Vec<f64>) {
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
    use proptest::prelude::*;

    use super::*;
    use crate::evidence::distributions::Beta;

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

//! Where in a run its 99th percentile may lie.
//!
//! The p99 of a short run is one of its largest samples: of 370, the fourth. Its neighbours are nearly as likely to be
//! the true percentile. Takes the distribution of a run and returns [`PLACES`] values, each equally likely to be the
//! percentile. Their ranks are quantiles of its beta distribution, by E. B. Wilson and M. M. Hilferty's approximation
//! (1931). Source: F. E. Harrell and C. E. Davis, *A new distribution-free quantile estimator*, 1982.

use punctual_record::Distribution;

use super::noise::SCALE;

/// How many values stand for the percentile of a run.
pub(crate) const PLACES: usize = 15;

/// Share of the samples above the percentile.
const ABOVE: f64 = 0.01;

/// Normal quantiles at the middles of fifteen equal probabilities: zero, and these to either side.
const NORMAL: [f64; 7] = [0.167_894, 0.340_695, 0.524_401, 0.727_913, 0.967_422, 1.281_552, 1.833_915];

/// The values on the comparison's scale, the largest first; `None` without samples.
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
    use crate::evidence::student::Beta;

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

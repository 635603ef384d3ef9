//! Statistics that a few disturbed values do not change.

use punctual_record::Quantile;
use punctual_record::statistics::{confidence_ranks, median};

/// The quantile, interpolated between the two nearest values; `None` for no values. Reorders the values.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = q * values.len().checked_sub(1)? as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(values[low] + (values[high] - values[low]) * at.fract())
}

/// The median, and its 95 % confidence interval if there are enough values (6).
pub(crate) fn median_with_interval(values: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let middle = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ranks = confidence_ranks(sorted.len() as u64, Quantile::P50);
    Some((middle, ranks.map(|ranks| (sorted[ranks.low as usize - 1], sorted[ranks.high as usize - 1]))))
}

/// The median of some durations; the lower of the two for an even number.
pub(crate) fn middle(durations: &[i64]) -> Option<i64> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_and_none() {
        assert_eq!(quantile(&mut [1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(median_with_interval(&[3.0, 1.0, 2.0]), Some((2.0, None)));
        assert_eq!(median_with_interval(&[6.0, 1.0, 2.0, 5.0, 4.0, 3.0]), Some((3.5, Some((1.0, 6.0)))));
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[3, 1, 2]), Some(2));
        assert_eq!(middle(&[4, 1, 2, 3]), Some(2));
    }
}

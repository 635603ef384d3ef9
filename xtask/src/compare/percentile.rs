//! Percentiles of a handful of values.

/// Nearest-rank percentile of sorted values.
pub(crate) fn percentile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil().max(1.0) as usize;
    rank.min(sorted.len()).checked_sub(1).map_or(f64::NAN, |place| sorted[place])
}

/// Sorts and returns the median.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(values, 0.5)
}

//! The median, and the scatter around it.

/// A standard deviation, as a multiple of the median absolute deviation of normal values.
pub(super) const OF_MEDIAN: f64 = 1.4826;

/// The mean of the two middle ones of an even number; 0 of nothing.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// The scatter of single values: the median absolute deviation, scaled to a standard deviation.
pub(crate) fn scatter(values: &[f64]) -> f64 {
    let middle = median(values);
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    OF_MEDIAN * median(&away)
}

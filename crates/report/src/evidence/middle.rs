//! The scatter around the median.

use punctual_record::statistics::median;

/// A standard deviation, as a multiple of the median absolute deviation of normal values.
pub(super) const OF_MEDIAN: f64 = 1.4826;

/// The scatter of single values: the median absolute deviation, scaled to a standard deviation.
pub(crate) fn scatter(values: &[f64]) -> f64 {
    let Some(middle) = median(values) else { return 0.0 };
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    OF_MEDIAN * median(&away).unwrap_or(0.0)
}

//! Statistics that a few disturbed values do not change.

/// The median; `None` for no values. Reorders the values.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile, interpolated between the two nearest values; `None` for no values. Reorders the values.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = q * values.len().checked_sub(1)? as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(values[low] + (values[high] - values[low]) * at.fract())
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
        assert_eq!(median(&mut []), None);
        assert_eq!(middle(&[]), None);
        assert_eq!(middle(&[3, 1, 2]), Some(2));
        assert_eq!(middle(&[4, 1, 2, 3]), Some(2));
    }
}

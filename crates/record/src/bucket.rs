//! The buckets of the histogram: their bounds, and the bucket of each value.
//!
//! The geometry is that of HdrHistogram with 3 significant digits and a unit of 1 ns. Values up to 2047 are exact.
//! Above that, each power of two has 1024 buckets. So a bucket is at most 1/1024 (0.098 %) as wide as its values.
//! Negative values mirror the positive ones.

/// Largest magnitude that a histogram places: 2^37 - 1 ns, 137 s.
pub const RANGE_NS: i64 = (1 << 37) - 1;

/// Significant decimal digits of a histogram.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Bits of a magnitude that are kept.
const KEPT_BITS: u32 = 11;

/// An occupied bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value of the bucket.
    pub low: i64,
    /// The largest value of the bucket.
    pub high: i64,
    /// Number of samples in it, at least 1.
    pub count: u64,
}

impl Bucket {
    /// The bucket of `value`, with a count. The value is within ±[`RANGE_NS`].
    pub(crate) fn holding(value: i64, count: u64) -> Self {
        let (near, far) = bounds(value.unsigned_abs());
        let (near, far) = (near as i64, far as i64);
        if value < 0 { Self { low: -far, high: -near, count } } else { Self { low: near, high: far, count } }
    }
}

/// Smallest and largest magnitude of the bucket that contains this one.
fn bounds(magnitude: u64) -> (u64, u64) {
    let dropped = (u64::BITS - magnitude.leading_zeros()).saturating_sub(KEPT_BITS);
    let low = magnitude >> dropped << dropped;
    (low, low + ((1 << dropped) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn geometry_is_that_of_hdrhistogram(bits in 0u32..37, value in any::<u64>()) {
            let value = value & ((1 << (bits + 1)) - 1) & RANGE_NS as u64;
            let histogram = Histogram::<u64>::new_with_bounds(1, RANGE_NS as u64, SIGNIFICANT_DIGITS).unwrap();
            prop_assert_eq!(bounds(value), (histogram.lowest_equivalent(value), histogram.highest_equivalent(value)));
            let (low, high) = bounds(value);
            prop_assert!((high - low) as f64 <= low as f64 / 1000.0);
        }
    }

    #[test]
    fn negative_values_mirror_positive_ones() {
        assert_eq!(Bucket::holding(4097, 1), Bucket { low: 4096, high: 4099, count: 1 });
        assert_eq!(Bucket::holding(-4097, 1), Bucket { low: -4099, high: -4096, count: 1 });
        assert_eq!(Bucket::holding(-1, 1), Bucket { low: -1, high: -1, count: 1 });
    }
}

//! Buckets of durations up to 2^37 ns (137 s). There is one for each below 32 ns, then 32 to each power of two.
//!
//! A bucket is at most 1/32 (3.1 %) as wide as its values. So its middle is at most 1.6 % off.

/// Bits of a value that are kept below the leading one.
const BITS: u32 = 5;
const EACH: usize = 1 << BITS;
/// Values from here on share the last bucket.
const BEYOND_BITS: u32 = 37;
/// Buckets; the last one is for all that is longer.
pub const COUNT: usize = (BEYOND_BITS - BITS + 1) as usize * EACH + 1;

/// The bucket of a duration.
#[inline]
#[must_use]
pub fn number(ns: u64) -> usize {
    if ns < EACH as u64 {
        return ns as usize;
    }
    let power = ns.ilog2();
    if power >= BEYOND_BITS {
        return COUNT - 1;
    }
    (power - BITS + 1) as usize * EACH + (ns >> (power - BITS)) as usize % EACH
}

/// The value that stands for a bucket: its middle; of the last one its beginning.
#[must_use]
pub fn middle(bucket: usize) -> u64 {
    let bucket = bucket.min(COUNT - 1);
    let (power, place) = ((bucket / EACH) as u32, (bucket % EACH) as u64);
    let Some(shift) = power.checked_sub(1) else { return place };
    let low = (EACH as u64 + place) << shift;
    if bucket >= COUNT - 1 { low } else { low + (1 << shift) / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other() {
        assert_eq!((number(0), number(31), number(32), number(63), number(64), number(65)), (0, 31, 32, 63, 64, 64));
        assert_eq!((number((1 << 37) - 1), number(1 << 37), number(u64::MAX)), (COUNT - 2, COUNT - 1, COUNT - 1));
        assert!((0..COUNT).all(|bucket| number(middle(bucket)) == bucket));
        assert_eq!(middle(COUNT - 1), middle(usize::MAX));
        assert!((1..COUNT).all(|bucket| middle(bucket - 1) < middle(bucket)));
    }

    proptest::proptest! {
        #[test]
        fn the_middle_is_near(bits in 0u32..37, ns in proptest::num::u64::ANY) {
            let ns = ns & ((1 << bits) - 1);
            let error = middle(number(ns)).abs_diff(ns) as f64;
            proptest::prop_assert!(error <= ns as f64 / 64.0 + 0.5, "{} of {ns}", middle(number(ns)));
        }
    }
}

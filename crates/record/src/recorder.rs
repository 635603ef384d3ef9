//! A [`Recorder`] takes samples while the clock runs. Its memory is fixed at construction.
//!
//! [`Recorder::record`] allocates nothing, takes no lock and makes no system call. All its memory is touched
//! beforehand, so it causes no page fault. No sample is dropped: those beyond the histogram's range count in the
//! extremes, the mean and the ranks of percentiles. Negative samples have their own histogram.

use std::ops::RangeInclusive;

use crate::distribution::{BUCKETS, Bucket, Distribution, RANGE_NS, place};
use crate::model::Summary;
use crate::statistics::Moments;

/// Samples in nanoseconds, signed.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// Samples of zero or more, in each bucket.
    positive: Box<[u64]>,
    /// Magnitudes of negative samples, in each bucket.
    negative: Box<[u64]>,
    below: u64,
    above: u64,
    min: i64,
    max: i64,
    moments: Moments,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty recorder. Allocates and touches all its memory, some 450 kB.
    #[must_use]
    pub fn new() -> Self {
        Self {
            positive: touched_counts(),
            negative: touched_counts(),
            below: 0,
            above: 0,
            min: i64::MAX,
            max: i64::MIN,
            moments: Moments::default(),
        }
    }

    /// Records one sample, in ns. Takes a few nanoseconds; allocates nothing, locks nothing, makes no system call.
    #[inline]
    pub fn record(&mut self, value: i64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if !(-RANGE_NS..=RANGE_NS).contains(&value) {
            self.record_far(value);
            return;
        }
        self.moments.add_near(value);
        self.place(value, 1);
    }

    /// Records one value many times: what another histogram has in a bucket. A value beyond the range counts as the end of the range.
    pub fn record_times(&mut self, value: i64, times: u64) {
        if times == 0 {
            return;
        }
        let value = value.clamp(-RANGE_NS, RANGE_NS);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.moments.add_times(value, times);
        self.place(value, times);
    }

    /// Counts a value within the range.
    #[inline]
    fn place(&mut self, value: i64, times: u64) {
        let counts = if value < 0 { &mut self.negative } else { &mut self.positive };
        let count = &mut counts[place(value.unsigned_abs())];
        *count = count.saturating_add(times);
    }

    #[cold]
    #[inline(never)]
    fn record_far(&mut self, value: i64) {
        if value < 0 {
            self.below += 1;
        } else {
            self.above += 1;
        }
        self.moments.add_far(value);
    }

    /// Clears all samples and keeps the memory.
    pub fn clear(&mut self) {
        let (positive, negative) = self.occupied_places();
        positive.into_iter().for_each(|places| self.positive[places].fill(0));
        negative.into_iter().for_each(|places| self.negative[places].fill(0));
        (self.below, self.above) = (0, 0);
        (self.min, self.max) = (i64::MAX, i64::MIN);
        self.moments = Moments::default();
    }

    /// Adds the samples of another recorder. Allocates nothing.
    pub fn merge(&mut self, other: &Self) {
        let (positive, negative) = other.occupied_places();
        for (counts, others, places) in
            [(&mut self.positive, &other.positive, positive), (&mut self.negative, &other.negative, negative)]
        {
            for place in places.into_iter().flatten() {
                counts[place] = counts[place].saturating_add(others[place]);
            }
        }
        self.below += other.below;
        self.above += other.above;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.moments.merge(&other.moments);
    }

    /// Number of samples, including overflowed ones.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments.count_near() + self.below + self.above
    }

    /// Smallest and largest sample, exact; `None` without samples.
    #[must_use]
    pub fn extremes(&self) -> Option<(i64, i64)> {
        (self.count() > 0).then_some((self.min, self.max))
    }

    /// The distribution of the samples, in a few kilobytes.
    #[must_use]
    pub fn distribution(&self) -> Distribution {
        let mirrored = |bucket: Bucket| Bucket { low: -bucket.high, high: -bucket.low, ..bucket };
        let (positive, negative) = self.occupied_places();
        let mut buckets = negative.map_or_else(Vec::new, |places| occupied(&self.negative, places));
        buckets.reverse();
        buckets.iter_mut().for_each(|bucket| *bucket = mirrored(*bucket));
        buckets.extend(positive.into_iter().flat_map(|places| occupied(&self.positive, places)));
        Distribution::new(buckets, (self.below, self.above), self.extremes(), self.moments)
    }

    /// The buckets between the smallest and the largest sample: of those of zero or more, and of the magnitudes of negative ones.
    fn occupied_places(&self) -> (Option<RangeInclusive<usize>>, Option<RangeInclusive<usize>>) {
        let near = |value: i64| place(value.unsigned_abs().min(RANGE_NS as u64));
        let positive = (self.max >= 0).then(|| near(self.min.max(0))..=near(self.max));
        let negative = (self.min < 0).then(|| near(self.max.min(-1))..=near(self.min));
        (positive, negative)
    }

    /// All figures; [`Distribution`] describes how they are computed.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.distribution().summary()
    }

    /// The value of the sample with this rank, 1 to `count`; see [`Distribution::value_at_rank`].
    #[must_use]
    pub fn value_at_rank(&self, rank: u64) -> Option<i64> {
        self.distribution().value_at_rank(rank)
    }
}

/// The occupied ones of these buckets, ascending, as magnitudes.
fn occupied(counts: &[u64], places: RangeInclusive<usize>) -> Vec<Bucket> {
    let first = *places.start();
    let mut buckets = Vec::new();
    for (nth, &count) in counts[places].iter().enumerate() {
        if count > 0 {
            buckets.push(Bucket::at(first + nth, count));
        }
    }
    buckets
}

/// Counts of zero with every page touched. The kernel maps zeroed memory on first access only; that page fault must
/// not happen while the clock runs.
fn touched_counts() -> Box<[u64]> {
    let mut counts = vec![1; BUCKETS].into_boxed_slice();
    // Otherwise the compiler asks for zeroed memory instead.
    std::hint::black_box(&mut counts).fill(0);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Quantile;
    use proptest::prelude::*;

    /// Values of every size and sign, including overflowing ones.
    fn any_value() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => -3000i64..3000,
            4 => -200_000_000i64..200_000_000,
            2 => -(2 * RANGE_NS)..(2 * RANGE_NS),
            1 => any::<i64>(),
            1 => prop_oneof![Just(0), Just(i64::MIN), Just(i64::MAX), Just(RANGE_NS), Just(RANGE_NS + 1), Just(-RANGE_NS - 1)],
        ]
    }

    fn recorded(values: &[i64]) -> Recorder {
        let mut recorder = Recorder::new();
        values.iter().for_each(|&value| recorder.record(value));
        recorder
    }

    #[test]
    fn empty_says_nothing() {
        assert_eq!(Recorder::new().summary(), Summary::default());
        assert_eq!(Recorder::new().distribution().to_histograms(), crate::Histograms::default());
        assert_eq!(Recorder::new().value_at_rank(1), None);
    }

    #[test]
    fn percentiles_are_absent_until_supported() {
        let values: Vec<i64> = (1..=2000).collect();
        let summary = |n: usize| recorded(&values[..n]).summary();
        assert_eq!((summary(2).p50, summary(3).p50), (None, Some(2)));
        assert_eq!((summary(19).p90, summary(20).p90), (None, Some(18)));
        assert_eq!((summary(199).p99, summary(200).p99), (None, Some(198)));
        assert_eq!((summary(1999).p999, summary(2000).p999), (None, Some(1998)));
        assert_eq!((summary(1).stdev, summary(1).mean), (None, Some(1.0)));
    }

    #[test]
    fn overflow_is_counted_at_the_proper_end() {
        let recorder = recorded(&[i64::MIN, -RANGE_NS - 5, -3, 7, 9, RANGE_NS + 2, i64::MAX]);
        let summary = recorder.summary();
        assert_eq!((summary.count, summary.negative, summary.overflow), (7, 3, 4));
        assert_eq!((summary.min, summary.max, summary.p50), (Some(i64::MIN), Some(i64::MAX), Some(7)));
        let all: Vec<_> = (1..=7).map(|rank| recorder.value_at_rank(rank).unwrap()).collect();
        assert_eq!(all, [i64::MIN, -RANGE_NS - 1, -3, 7, 9, i64::MAX, i64::MAX]);
    }

    proptest! {
        #[test]
        fn ranks_agree_with_the_sorted_samples(mut values in prop::collection::vec(any_value(), 1..300)) {
            let distribution = recorded(&values).distribution();
            values.sort_unstable();
            prop_assert_eq!(distribution.count(), values.len() as u64);
            for (index, &exact) in values.iter().enumerate() {
                let at_or_below = values.partition_point(|&value| value <= exact) as u64;
                prop_assert!(distribution.count_at_or_below(exact) <= at_or_below);
                let end = distribution.value_at_rank(at_or_below).unwrap();
                prop_assert!(distribution.count_at_or_below(end) >= at_or_below);
                let bounds = distribution.bounds_at_rank(index as u64 + 1).unwrap();
                prop_assert!(bounds.low <= exact && exact <= bounds.high, "{:?} {}", bounds, exact);
                if exact.unsigned_abs() <= RANGE_NS as u64 {
                    let error = (bounds.high - exact) as f64;
                    prop_assert!(error <= exact.unsigned_abs() as f64 * 0.001, "{} for {}", bounds.high, exact);
                }
            }
            let summary = distribution.summary();
            prop_assert_eq!(summary.min, values.first().copied());
            prop_assert_eq!(summary.max, values.last().copied());
            prop_assert_eq!(summary.negative, values.iter().filter(|&&value| value < 0).count() as u64);
            let mean = values.iter().map(|&value| i128::from(value)).sum::<i128>() as f64 / values.len() as f64;
            let largest = values.iter().map(|value| value.unsigned_abs()).max().unwrap() as f64;
            prop_assert!((summary.mean.unwrap() - mean).abs() <= 1e-12 * largest + 1e-9);
        }

        #[test]
        fn percentiles_are_nearest_rank(mut values in prop::collection::vec(-2047i64..2048, 1..3000)) {
            let distribution = recorded(&values).distribution();
            values.sort_unstable();
            for quantile in [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999] {
                let least = (quantile.ratio() * values.len() as f64).ceil() as usize;
                let exact = values.iter().copied().find(|v| values.partition_point(|x| x <= v) >= least).unwrap();
                prop_assert_eq!(distribution.value_at(quantile), Some(exact));
                prop_assert!(distribution.count_at_or_below(exact) >= least as u64);
            }
        }

        #[test]
        fn merging_is_recording_both(
            one in prop::collection::vec(any_value(), 0..100),
            two in prop::collection::vec(any_value(), 0..100),
        ) {
            let all = recorded(&[one.clone(), two.clone()].concat()).summary();
            let mut recorder = recorded(&one);
            recorder.merge(&recorded(&two));
            let mut distribution = recorded(&one).distribution();
            distribution.merge(&recorded(&two).distribution());
            for merged in [recorder.summary(), distribution.summary()] {
                let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1e10),
                    (a, b) => a == b,
                };
                prop_assert!(near(all.mean, merged.mean) && near(all.stdev, merged.stdev), "{:?} {:?}", all, merged);
                prop_assert_eq!(Summary { mean: all.mean, stdev: all.stdev, ..merged }, all.clone());
            }
            prop_assert_eq!(recorder.distribution().buckets().to_vec(), distribution.buckets().to_vec());
        }

        #[test]
        fn many_times_is_one_by_one(value in -RANGE_NS..=RANGE_NS, other in any_value(), times in 0u64..50) {
            let (mut all, mut each) = (recorded(&[other]), recorded(&[other]));
            all.record_times(value, times);
            (0..times).for_each(|_| each.record(value));
            prop_assert_eq!(all.distribution(), each.distribution());
        }

        #[test]
        fn cleared_is_new(values in prop::collection::vec(any_value(), 1..50), later in prop::collection::vec(any_value(), 0..50)) {
            let mut recorder = recorded(&values);
            recorder.clear();
            prop_assert_eq!(recorder.distribution(), Recorder::new().distribution());
            // All buckets are read between these.
            let later = [later, vec![-RANGE_NS, RANGE_NS]].concat();
            later.iter().for_each(|&value| recorder.record(value));
            prop_assert_eq!(recorder.distribution(), recorded(&later).distribution());
        }
    }
}

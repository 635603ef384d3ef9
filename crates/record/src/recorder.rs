//! A [`Recorder`] takes samples while the clock runs, and a [`SeriesTally`] builds a [`Series`] from them and the resource usage of each round.
//!
//! [`Recorder::record`] allocates nothing, takes no lock and makes no system call. All its memory is fixed at construction and touched
//! beforehand, so it causes no page fault. No sample is dropped: those beyond the histogram's range count in the
//! extremes, the mean and the ranks of percentiles. Negative samples have their own histogram.
//!
//! Rounds keep their figures only. The samples of all rounds share one [`Distribution`] of a few kilobytes. So hundreds
//! of series fit in a few megabytes.

use std::ops::RangeInclusive;

use crate::distribution::{BUCKETS, Bucket, Distribution, RANGE_NS, place};
use crate::experiment::Experiment;
use crate::model::{About, Quantity, RoundFigures, Series, Summary};
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
    places.filter(|place| counts[*place] > 0).map(|place| Bucket::at(place, counts[place])).collect()
}

/// Counts of zero with every page touched. The kernel maps zeroed memory on first access only; that page fault must
/// not happen while the clock runs.
fn touched_counts() -> Box<[u64]> {
    let mut counts = vec![1; BUCKETS].into_boxed_slice();
    // Otherwise the compiler asks for zeroed memory instead.
    std::hint::black_box(&mut counts).fill(0);
    counts
}

/// Resource usage of the measuring thread during one batch, including the probe itself. Unavailable figures are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Elapsed time.
    pub elapsed_ns: u64,
    /// CPU time.
    pub cpu_ns: Option<u64>,
    /// Voluntary context switches.
    pub voluntary: Option<u64>,
    /// Preemptions.
    pub involuntary: Option<u64>,
}

impl Usage {
    /// The sum of both; a figure is known only if both know it.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            elapsed_ns: self.elapsed_ns.saturating_add(other.elapsed_ns),
            cpu_ns: both(self.cpu_ns, other.cpu_ns),
            voluntary: both(self.voluntary, other.voluntary),
            involuntary: both(self.involuntary, other.involuntary),
        }
    }
}

/// The identity of a series, as its creator states it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesId {
    /// The experiment, with its parameters and metrics.
    pub experiment: Experiment,
    /// The subject, for instance `nanosleep`.
    pub subject: String,
    /// Description of the subject.
    pub about: About,
    /// Label of its conditions.
    pub conditions: String,
    /// The measured quantity.
    pub quantity: Quantity,
}

/// The rounds of one series so far.
#[derive(Debug, Clone, Default)]
pub struct SeriesTally {
    total: Distribution,
    usage: Option<Usage>,
    rounds: Vec<RoundFigures>,
}

impl SeriesTally {
    /// A tally without rounds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a round: its number from 0, the time from the run's start to its batch, its samples, its usage.
    /// Allocates; do not call it while the clock runs.
    pub fn add_round(&mut self, round: u32, started_ns: u64, recorder: &Recorder, usage: Usage) {
        let distribution = recorder.distribution();
        self.rounds.push(RoundFigures {
            round,
            started_ns,
            summary: distribution.summary(),
            cpu_ns_per_op: per_operation(usage.cpu_ns, distribution.count()),
            involuntary_switches: usage.involuntary,
            competitor_cpu_share: None,
            own_cpu_share: None,
        });
        self.total.merge(&distribution);
        self.usage = Some(self.usage.map_or(usage, |so_far| so_far.plus(usage)));
    }

    /// Adds a round of samples that were taken before, without resource usage. Clears the recorder first.
    pub fn add_samples(
        &mut self,
        (round, started_ns): (u32, u64),
        recorder: &mut Recorder,
        samples: impl IntoIterator<Item = i64>,
    ) {
        recorder.clear();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        self.add_round(round, started_ns, recorder, Usage::default());
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total.count()
    }

    /// All samples.
    #[must_use]
    pub fn distribution(&self) -> &Distribution {
        &self.total
    }

    /// The rounds so far.
    #[must_use]
    pub fn rounds(&self) -> &[RoundFigures] {
        &self.rounds
    }

    /// The series, without single samples ([`Series::samples`]). Figures per operation are absent without operations.
    #[must_use]
    pub fn to_series(&self, id: SeriesId) -> Series {
        let usage = self.usage.unwrap_or_default();
        let count = self.count();
        let (histogram, negative_histogram) = self.total.to_histograms();
        let share = usage.cpu_ns.filter(|_| usage.elapsed_ns > 0).map(|cpu| cpu as f64 / usage.elapsed_ns as f64);
        Series {
            experiment: id.experiment,
            subject: id.subject,
            about: id.about,
            conditions: id.conditions,
            quantity: id.quantity,
            unit: "ns".into(),
            summary: self.total.summary(),
            cpu_ns_per_op: per_operation(usage.cpu_ns, count),
            cpu_share: share,
            voluntary_switches_per_op: per_operation(usage.voluntary, count),
            involuntary_switches_per_op: per_operation(usage.involuntary, count),
            histogram,
            negative_histogram,
            samples: None,
            rounds: self.rounds.clone(),
            parts: Vec::new(),
        }
    }
}

fn per_operation(total: Option<u64>, operations: u64) -> Option<f64> {
    total.filter(|_| operations > 0).map(|total| total as f64 / operations as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::experiment::{Typed, wait};
    use crate::statistics::Quantile;

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
        assert_eq!(Recorder::new().distribution().to_histograms(), (None, None));
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

    fn id() -> SeriesId {
        SeriesId {
            experiment: Experiment::Wait(Typed::asked(wait::Parameters::asking(100_000))),
            subject: "nanosleep".into(),
            about: About::default(),
            conditions: "other".into(),
            quantity: Quantity::Overshoot,
        }
    }

    fn usage(elapsed_ns: u64, cpu_ns: u64, voluntary: u64, involuntary: u64) -> Usage {
        Usage { elapsed_ns, cpu_ns: Some(cpu_ns), voluntary: Some(voluntary), involuntary: Some(involuntary) }
    }

    #[test]
    fn rounds_add_up() {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        for round in 0..3u32 {
            recorder.clear();
            (0..100).for_each(|value| recorder.record(value + 1000 * i64::from(round)));
            tally.add_round(round, u64::from(round) * 5000, &recorder, usage(1000, 200, 100, u64::from(round)));
        }
        let series = tally.to_series(id());
        assert_eq!(series.summary.count, 300);
        assert_eq!((series.summary.min, series.summary.p50, series.summary.max), (Some(0), Some(1049), Some(2099)));
        assert_eq!((series.cpu_ns_per_op, series.cpu_share), (Some(2.0), Some(0.2)));
        assert_eq!((series.voluntary_switches_per_op, series.involuntary_switches_per_op), (Some(1.0), Some(0.01)));
        assert_eq!(series.rounds.iter().map(|round| round.summary.p50.unwrap()).collect::<Vec<_>>(), [49, 1049, 2049]);
        assert_eq!(series.rounds[2].involuntary_switches, Some(2));
        assert_eq!(series.rounds[2].started_ns, 10_000);
    }

    #[test]
    fn without_operations_there_is_no_cost_per_operation() {
        let mut tally = SeriesTally::new();
        tally.add_round(0, 0, &Recorder::new(), usage(1000, 200, 1, 0));
        let series = tally.to_series(id());
        assert_eq!((series.summary.count, series.cpu_ns_per_op, series.voluntary_switches_per_op), (0, None, None));
        assert_eq!((series.histogram, series.negative_histogram), (None, None));
    }

    #[test]
    fn a_figure_unknown_in_one_round_is_unknown() {
        let mut tally = SeriesTally::new();
        let mut recorder = Recorder::new();
        recorder.record(1);
        tally.add_round(0, 0, &recorder, usage(1000, 200, 1, 0));
        tally.add_round(1, 0, &recorder, Usage { cpu_ns: None, ..usage(1000, 200, 1, 0) });
        let series = tally.to_series(id());
        assert_eq!((series.cpu_ns_per_op, series.voluntary_switches_per_op), (None, Some(1.0)));
    }

    /// Other programs recognise a compressed HdrHistogram V2 by these first bytes (the cookie 0x1c849314).
    #[test]
    fn histograms_are_what_they_say() {
        let mut recorder = Recorder::new();
        (-5..10).for_each(|value| recorder.record(value));
        let (histogram, negative_histogram) = recorder.distribution().to_histograms();
        assert!(histogram.unwrap().starts_with("HISTF"));
        assert!(negative_histogram.unwrap().starts_with("HISTF"));
    }

    proptest! {
        #[test]
        fn a_series_gives_its_distribution_back(
            values in prop::collection::vec(prop_oneof![-5000i64..5_000_000_000, any::<i64>()], 0..300)
        ) {
            let mut recorder = Recorder::new();
            values.iter().for_each(|&value| recorder.record(value));
            let mut tally = SeriesTally::new();
            tally.add_round(0, 0, &recorder, Usage::default());
            let series = tally.to_series(id());
            let back = Distribution::from_series(&series).unwrap().summary();
            let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-14 * a.abs(),
                (a, b) => a == b,
            };
            prop_assert!(near(back.stdev, series.summary.stdev));
            prop_assert_eq!(&crate::Summary { stdev: series.summary.stdev, ..back }, &series.summary);
        }

        #[test]
        fn damaged_histograms_are_refused_or_read(text in "[A-Za-z0-9+/=]{0,200}", whole in any::<bool>(), at in 0usize..2000, with in any::<u8>()) {
            let mut recorder = Recorder::new();
            (0..1000).for_each(|value| recorder.record(value * 77));
            let mut tally = SeriesTally::new();
            tally.add_round(0, 0, &recorder, Usage::default());
            let mut series = tally.to_series(id());
            if whole {
                series.histogram = Some(text);
                prop_assert!(Distribution::from_series(&series).is_err());
            } else {
                let mut bytes = series.histogram.unwrap().into_bytes();
                let at = at % bytes.len();
                bytes[at] = with;
                series.histogram = Some(String::from_utf8_lossy(&bytes).into_owned());
                if let Ok(read) = Distribution::from_series(&series) {
                    prop_assert_eq!(read.count(), 1000);
                }
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let mut recorder = Recorder::new();
        (0..10).for_each(|value| recorder.record(value));
        let mut tally = SeriesTally::new();
        tally.add_round(0, 0, &recorder, Usage::default());
        let good = tally.to_series(id());
        assert!(Distribution::from_series(&good).is_ok());
        let mut bad = good.clone();
        bad.summary.count = 11;
        let error = Distribution::from_series(&bad).unwrap_err().to_string();
        assert!(error.contains("nanosleep") && error.contains("count 11"), "{error}");
        let mut bad = good;
        bad.summary.mean = None;
        assert!(Distribution::from_series(&bad).is_err());
    }
}

//! A finished distribution: the occupied buckets of many samples, and the figures computed from them.
//!
//! Input: a [`Recorder`](crate::Recorder), other distributions, or a [`Series`] read from a file. Output: the
//! [`Summary`], any other percentile, and the histograms for the file. Its size is a few kilobytes, whatever the number
//! of samples.
//!
//! **Percentiles** are nearest-rank: the smallest value with at least q n samples at or below it. The reported value is
//! the *upper* end of the bucket of that rank, within the exact extremes. It exceeds the sample by at most 0.1 % and is
//! never less. Confidence intervals are widened to whole buckets.

use crate::histogram::{Bucket, RANGE_NS, decode, encode};
use crate::model::{Ci95, Interval, Series, Summary};
use crate::moments::Moments;
use crate::sanitize::{self, NAME};
use crate::statistics::{Quantile, confidence_ranks};

/// Why the histograms of a series cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The histogram's text is damaged.
    #[error("the {which} of series {series} cannot be decoded: {why}")]
    Histogram {
        /// Subject of the series.
        series: String,
        /// `histogram` or `negative_histogram`.
        which: &'static str,
        /// Message of the decoder.
        why: String,
    },
    /// Figures and histograms contradict each other.
    #[error("the figures of series {series} contradict each other: {why}; the file was altered or is damaged")]
    Contradiction {
        /// Subject of the series.
        series: String,
        /// The contradiction.
        why: String,
    },
}

/// The histograms of a series as stored in its file: HdrHistogram V2, compressed, base64. Every HdrHistogram library
/// reads this format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histograms {
    /// Samples of zero or more; absent if there are none.
    pub histogram: Option<String>,
    /// Magnitudes of negative samples; absent if there are none.
    pub negative_histogram: Option<String>,
}

/// Smallest and largest sample; `None` without samples.
type Extremes = Option<(i64, i64)>;

/// The distribution of many samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Ascending and disjoint, each with at least one sample.
    buckets: Vec<Bucket>,
    /// Samples below the range.
    below: u64,
    /// Samples above the range.
    above: u64,
    /// Smallest and largest.
    extremes: Extremes,
    moments: Moments,
}

impl Distribution {
    pub(crate) fn new(buckets: Vec<Bucket>, (below, above): (u64, u64), extremes: Extremes, moments: Moments) -> Self {
        Self { buckets, below, above, extremes, moments }
    }

    /// Number of samples, including overflowed ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.below + self.above + self.buckets.iter().map(|bucket| bucket.count).sum::<u64>()
    }

    /// Number of samples below and above the histogram's range.
    #[must_use]
    pub fn overflow(&self) -> (u64, u64) {
        (self.below, self.above)
    }

    /// The occupied buckets, ascending.
    #[must_use]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Smallest and largest sample, exact.
    #[must_use]
    pub fn extremes(&self) -> Option<(i64, i64)> {
        self.extremes
    }

    /// Adds the samples of another.
    pub fn merge(&mut self, other: &Self) {
        let mut merged: Vec<Bucket> = self.buckets.iter().chain(&other.buckets).copied().collect();
        merged.sort_by_key(|bucket| bucket.low);
        merged.dedup_by(|next, kept| {
            let same = next.low == kept.low;
            if same {
                kept.count += next.count;
            }
            same
        });
        merged.shrink_to_fit();
        self.buckets = merged;
        self.below += other.below;
        self.above += other.above;
        self.extremes = match (self.extremes, other.extremes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, two) => one.or(two),
        };
        self.moments.merge(&other.moments);
    }

    /// The value of the sample with this rank; 1 is the smallest, `count` the largest. It is the upper end of its
    /// bucket, within the extremes. `None` for other ranks.
    #[must_use]
    pub fn value_at_rank(&self, rank: u64) -> Option<i64> {
        self.bounds_at_rank(rank).map(|bounds| bounds.high)
    }

    /// The values between which the sample with this rank lies.
    #[must_use]
    pub fn bounds_at_rank(&self, rank: u64) -> Option<Interval> {
        let (min, max) = self.extremes?;
        if rank == 0 || rank > self.count() {
            return None;
        }
        let (low, high) = if rank <= self.below {
            (i64::MIN, -RANGE_NS - 1)
        } else {
            let mut reached = self.below;
            let bucket = self.buckets.iter().find(|bucket| {
                reached += bucket.count;
                reached >= rank
            });
            bucket.map_or((RANGE_NS + 1, i64::MAX), |bucket| (bucket.low, bucket.high))
        };
        // The first and the last sample are known exactly.
        match rank {
            1 => Some(Interval { low: min, high: min }),
            rank if rank == self.count() => Some(Interval { low: max, high: max }),
            _ => Some(Interval { low: low.max(min), high: high.min(max) }),
        }
    }

    /// A percentile, whether or not the samples support it; see [`Quantile::is_supported_by`].
    #[must_use]
    pub fn value_at(&self, quantile: Quantile) -> Option<i64> {
        self.value_at_rank(quantile.rank(self.count())?)
    }

    /// A percentile, if the samples support it.
    #[must_use]
    pub fn percentile(&self, quantile: Quantile) -> Option<i64> {
        if quantile.is_supported_by(self.count()) { self.value_at(quantile) } else { None }
    }

    /// The 95 % confidence interval of a percentile; `None` with too few samples.
    #[must_use]
    pub fn confidence_interval(&self, quantile: Quantile) -> Option<Interval> {
        let ranks = confidence_ranks(self.count(), quantile)?;
        let (low, high) = (self.bounds_at_rank(ranks.low)?, self.bounds_at_rank(ranks.high)?);
        Some(Interval { low: low.low, high: high.high })
    }

    /// Number of samples at or below `value`, to the resolution of the buckets and the exact extremes. A bucket counts
    /// once `value` reaches its upper end.
    #[must_use]
    pub fn count_at_or_below(&self, value: i64) -> u64 {
        match self.extremes {
            Some((_, max)) if value >= max => self.count(),
            Some((min, _)) if value >= min => {
                let reached = self.buckets.iter().take_while(|bucket| bucket.high <= value);
                let below = if value > -RANGE_NS - 2 { self.below } else { 0 };
                let placed = below + reached.map(|bucket| bucket.count).sum::<u64>();
                placed.max(1)
            }
            _ => 0,
        }
    }

    /// All the figures.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let negative = self.buckets.iter().take_while(|bucket| bucket.low < 0).map(|bucket| bucket.count).sum::<u64>();
        Summary {
            count: self.count(),
            negative: negative + self.below,
            overflow: self.below + self.above,
            min: self.extremes.map(|(min, _)| min),
            p50: self.percentile(Quantile::P50),
            p90: self.percentile(Quantile::P90),
            p99: self.percentile(Quantile::P99),
            p999: self.percentile(Quantile::P999),
            max: self.extremes.map(|(_, max)| max),
            mean: self.moments.mean(),
            stdev: self.moments.stdev(),
            ci95: Ci95 { p50: self.confidence_interval(Quantile::P50), p99: self.confidence_interval(Quantile::P99) },
        }
    }

    /// The histograms for the file.
    #[must_use]
    pub fn to_histograms(&self) -> Histograms {
        let split = self.buckets.partition_point(|bucket| bucket.low < 0);
        Histograms { histogram: encode(&self.buckets[split..]), negative_histogram: encode(&self.buckets[..split]) }
    }

    /// Rebuilds the distribution of a series that was read from a file. Count, extremes, mean and standard deviation
    /// come from its figures, the rest from its histograms.
    ///
    /// # Errors
    /// When a histogram cannot be decoded, has another number of significant digits than 3, or contradicts the figures.
    pub fn from_series(series: &Series) -> Result<Self, Error> {
        let contradiction = |why: String| Error::Contradiction { series: sanitize::line(&series.subject, NAME), why };
        let decoded = |text: &Option<String>, which| match text {
            None => Ok(Vec::new()),
            Some(text) => decode(text).map_err(|why| Error::Histogram {
                series: sanitize::line(&series.subject, NAME),
                which,
                why,
            }),
        };
        let positive = decoded(&series.histogram, "histogram")?;
        let negative = decoded(&series.negative_histogram, "negative_histogram")?;
        let (below, above) = overflow(&series.summary, &positive, &negative).map_err(contradiction)?;
        let (extremes, moments) = figures(&series.summary).map_err(|why| contradiction(why.into()))?;
        let mut buckets: Vec<Bucket> = Vec::with_capacity(positive.len() + negative.len());
        let mirrored = negative.into_iter().rev().map(|(magnitude, count)| (-magnitude, count));
        for (value, count) in mirrored.chain(positive) {
            let next = Bucket::holding(value, count);
            match buckets.last_mut() {
                Some(last) if last.low == next.low => last.count += count,
                _ => buckets.push(next),
            }
        }
        Ok(Self { buckets, below, above, extremes, moments })
    }
}

/// Number of samples that a summary counts below and above its histograms. Fails if they differ from its overflow
/// count.
fn overflow(summary: &Summary, positive: &[(i64, u64)], negative: &[(i64, u64)]) -> Result<(u64, u64), String> {
    if negative.iter().any(|&(magnitude, _)| magnitude == 0) {
        return Err("negative_histogram holds a zero".into());
    }
    let total = |placed: &[(i64, u64)]| {
        let sum = placed.iter().try_fold(0u64, |sum, &(_, count)| sum.checked_add(count));
        sum.ok_or_else(|| "a histogram holds more samples than can be counted".to_string())
    };
    let (positive, negative) = (total(positive)?, total(negative)?);
    let below = summary.negative.checked_sub(negative);
    let above = summary.count.checked_sub(summary.negative).and_then(|rest| rest.checked_sub(positive));
    match below.zip(above) {
        Some((below, above)) if below.checked_add(above) == Some(summary.overflow) => Ok((below, above)),
        _ => Err(format!(
            "count {}, negative {} and overflow {}, but {positive} samples in the histogram and {negative} in the negative one",
            summary.count, summary.negative, summary.overflow
        )),
    }
}

/// Extremes and moments stated by a summary.
fn figures(summary: &Summary) -> Result<(Extremes, Moments), &'static str> {
    if summary.count == 0 {
        return Ok((None, Moments::default()));
    }
    let (Some(min), Some(max), Some(mean)) = (summary.min, summary.max, summary.mean) else {
        return Err("there are samples, but min, max or mean is absent");
    };
    if min > max {
        return Err("min is above max");
    }
    let stdev = match summary.stdev {
        Some(stdev) => stdev,
        None if summary.count == 1 => 0.0,
        None => return Err("there are samples, but stdev is absent"),
    };
    Ok((Some((min, max)), Moments::of_figures(summary.count, mean, stdev)))
}

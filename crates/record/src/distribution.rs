//! A finished distribution: the occupied buckets of many samples, and the figures computed from them.
//!
//! Input: a [`Recorder`](crate::Recorder), other distributions, or a [`Series`] read from a file. Output: the
//! [`Summary`], any other percentile, and the histograms for the file. Its size is a few kilobytes, whatever the number
//! of samples.
//!
//! **Percentiles** are nearest-rank: the smallest value with at least q n samples at or below it. The reported value is
//! the *upper* end of the bucket of that rank, within the exact extremes. It exceeds the sample by at most 0.1 % and is
//! never less. Confidence intervals are widened to whole buckets.
//!
//! The histogram of a series is its buckets; its text in the record is base64, usually deflated, HdrHistogram V2. The geometry is that of HdrHistogram with 3 significant digits and a unit of 1 ns. Values up to 2047 are exact.
//! Above that, each power of two has 1024 buckets. So a bucket is at most 1/1024 (0.098 %) as wide as its values.
//! Negative values mirror the positive ones.
//!
//! The decoding library trusts the size that a histogram states, and a file may come from anywhere. A hundred bytes can
//! promise gigabytes, or inflate to them. This module therefore inflates the text up to a limit and checks the header
//! first.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::model::{Ci95, Interval, Series, Summary};
use crate::sanitize::{self, NAME};
use crate::statistics::{Moments, Quantile, confidence_ranks};

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

    /// The histograms for the file: of the samples of zero or more, and of the magnitudes of negative samples, each absent if there are none.
    /// They are HdrHistogram V2, compressed, base64. Every HdrHistogram library reads this format.
    #[must_use]
    pub fn to_histograms(&self) -> (Option<String>, Option<String>) {
        let split = self.buckets.partition_point(|bucket| bucket.low < 0);
        (encode(&self.buckets[split..]), encode(&self.buckets[..split]))
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
    /// The bucket of magnitudes at this place.
    pub(crate) fn at(place: usize, count: u64) -> Self {
        let dropped = (place >> (KEPT_BITS - 1)).saturating_sub(1);
        let low = ((place - (dropped << (KEPT_BITS - 1))) as i64) << dropped;
        Self { low, high: low + ((1 << dropped) - 1), count }
    }

    /// The bucket of `value`, with a count. The value is within ±[`RANGE_NS`].
    pub(crate) fn holding(value: i64, count: u64) -> Self {
        let (near, far) = bounds(value.unsigned_abs());
        let (near, far) = (near as i64, far as i64);
        if value < 0 { Self { low: -far, high: -near, count } } else { Self { low: near, high: far, count } }
    }
}

/// Buckets of all magnitudes within the range.
pub(crate) const BUCKETS: usize = place(RANGE_NS as u64) + 1;

/// The place of a magnitude's bucket among those of all magnitudes.
#[inline]
pub(crate) const fn place(magnitude: u64) -> usize {
    let dropped = dropped_bits(magnitude);
    ((dropped as usize) << (KEPT_BITS - 1)) + (magnitude >> dropped) as usize
}

/// Bits of a magnitude that its bucket does not keep.
#[inline]
const fn dropped_bits(magnitude: u64) -> u32 {
    (u64::BITS - magnitude.leading_zeros()).saturating_sub(KEPT_BITS)
}

/// Smallest and largest magnitude of the bucket that contains this one.
fn bounds(magnitude: u64) -> (u64, u64) {
    let dropped = dropped_bits(magnitude);
    let low = magnitude >> dropped << dropped;
    (low, low + ((1 << dropped) - 1))
}

/// Buckets of one sign as base64 text; `None` without buckets.
pub(crate) fn encode(buckets: &[Bucket]) -> Option<String> {
    let largest = buckets.iter().map(|bucket| bucket.high.unsigned_abs()).max()?;
    let mut histogram = Histogram::<u64>::new_with_bounds(1, largest.max(2), SIGNIFICANT_DIGITS).ok()?;
    for bucket in buckets {
        histogram.record_n(bucket.high.unsigned_abs(), bucket.count).ok()?;
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).ok()?;
    Some(BASE64.encode(bytes))
}

/// First bytes of a deflated histogram; its length follows, then the stream.
const DEFLATED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();

/// Size of the inflated header: cookie, payload length, offset, digits, lowest and highest value, ratio.
const HEAD: usize = 40;

/// Most bytes of an inflated histogram. With three digits, the whole range and every bucket at its largest count, it
/// has a quarter of a million.
const MOST_BYTES: usize = 4 << 20;

/// Different values that any histogram may hold, and that one may hold for each byte of its text. Counts of a measurement differ, so deflated
/// it has one or two values a byte. A histogram with the same count in all its buckets has hundreds.
const MOST_VALUES: usize = 4096;
const VALUES_A_BYTE: usize = 8;

/// Recorded values and their counts, ascending.
pub(crate) fn decode(text: &str) -> Result<Vec<(i64, u64)>, String> {
    let bytes = BASE64.decode(text).map_err(|error| format!("not base64: {error}"))?;
    let mut plain = inflated(bytes)?;
    bounded(&mut plain)?;
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut plain.as_slice())
        .map_err(|error| format!("not an HdrHistogram of version 2: {error}"))?;
    let most = MOST_VALUES.max(text.len() * VALUES_A_BYTE);
    let mut placed = Vec::new();
    for step in histogram.iter_recorded() {
        if placed.len() == most {
            return Err(format!("its {} bytes hold more than {most} values, which no measurement does", text.len()));
        }
        match i64::try_from(step.value_iterated_to()) {
            Ok(value) if value <= RANGE_NS => placed.push((value, step.count_at_value())),
            _ => return Err(format!("it holds {} ns, beyond {RANGE_NS} ns", step.value_iterated_to())),
        }
    }
    Ok(placed)
}

fn inflated(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let Some(rest) = bytes.strip_prefix(&DEFLATED) else { return Ok(bytes) };
    let (length, stream) = rest.split_at_checked(4).ok_or("it ends within its head")?;
    let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let mut plain = Vec::new();
    let stream = &stream[..length.min(stream.len())];
    let inflating = ZlibDecoder::new(stream).take(MOST_BYTES as u64 + 1).read_to_end(&mut plain);
    inflating.map_err(|error| format!("it cannot be inflated: {error}"))?;
    if plain.len() > MOST_BYTES {
        return Err(format!("it inflates to more than {MOST_BYTES} bytes, which no histogram of {RANGE_NS} ns does"));
    }
    Ok(plain)
}

/// Refuses a header that promises more than follows, or another number of digits: each one more is ten times the memory. Narrows a range beyond ours, which other programs may write,
/// because the library allocates memory for all of it.
fn bounded(plain: &mut [u8]) -> Result<(), String> {
    let (head, rest) = plain.split_at_mut_checked(HEAD).ok_or("it ends within its head")?;
    let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let promised = number(4);
    if promised > rest.len() {
        return Err(format!("it promises {promised} bytes and has {}", rest.len()));
    }
    let digits = number(12);
    if digits != usize::from(SIGNIFICANT_DIGITS) {
        return Err(format!("it has {digits} significant digits, where a run has {SIGNIFICANT_DIGITS}"));
    }
    let highest = &mut head[24..32];
    let mut bytes = [0; 8];
    bytes.copy_from_slice(highest);
    highest.copy_from_slice(&u64::from_be_bytes(bytes).min(RANGE_NS as u64).to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    use flate2::write::ZlibEncoder;
    use hdrhistogram::serialization::V2Serializer;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn geometry_is_that_of_hdrhistogram(bits in 0u32..37, value in any::<u64>()) {
            let value = value & ((1 << (bits + 1)) - 1) & RANGE_NS as u64;
            let histogram = Histogram::<u64>::new_with_bounds(1, RANGE_NS as u64, SIGNIFICANT_DIGITS).unwrap();
            prop_assert_eq!(bounds(value), (histogram.lowest_equivalent(value), histogram.highest_equivalent(value)));
            let (low, high) = bounds(value);
            prop_assert!((high - low) as f64 <= low as f64 / 1000.0);
            prop_assert_eq!(Bucket::at(place(value), 1), Bucket::holding(value as i64, 1));
            prop_assert!(low == 0 || place(low) == place(low - 1) + 1, "no place is left out");
        }
    }

    #[test]
    fn negative_values_mirror_positive_ones() {
        assert_eq!(Bucket::holding(4097, 1), Bucket { low: 4096, high: 4099, count: 1 });
        assert_eq!(Bucket::holding(-4097, 1), Bucket { low: -4099, high: -4096, count: 1 });
        assert_eq!(Bucket::holding(-1, 1), Bucket { low: -1, high: -1, count: 1 });
    }
    /// This many bytes as text: deflated, with the header of a deflated histogram.
    fn deflated(plain: impl Iterator<Item = u8>) -> String {
        let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        let mut block = Vec::new();
        for byte in plain {
            block.push(byte);
            if block.len() == 1 << 16 {
                encoder.write_all(&block).unwrap();
                block.clear();
            }
        }
        encoder.write_all(&block).unwrap();
        let stream = encoder.finish().unwrap();
        BASE64.encode([&DEFLATED[..], &(stream.len() as u32).to_be_bytes(), &stream].concat())
    }

    /// The header of an inflated histogram with this payload length, range and number of digits.
    fn head(promised: u32, highest: u64, digits: u32) -> Vec<u8> {
        let mut head = 0x1c84_9313_u32.to_be_bytes().to_vec();
        head.extend([promised, 0, digits].into_iter().flat_map(u32::to_be_bytes));
        head.extend([1, highest].into_iter().flat_map(u64::to_be_bytes));
        head.extend(1.0_f64.to_be_bytes());
        head
    }

    /// The most memory held while it is decoded, in bytes.
    fn most_held(text: &str) -> (u64, Result<Vec<(i64, u64)>, String>) {
        let mut found = None;
        let held = allocation_counter::measure(|| found = Some(decode(text)));
        (held.bytes_max, found.unwrap())
    }

    #[test]
    fn what_inflates_without_end_is_refused() {
        let bomb = deflated(head(256 << 20, 1 << 40, 3).into_iter().chain(std::iter::repeat_n(0, 256 << 20)));
        assert!(bomb.len() < 1 << 20, "a thousandth of what it inflates to: {}", bomb.len());
        let (held, found) = most_held(&bomb);
        assert!(found.unwrap_err().contains("inflates to more"));
        assert!(held < 16 << 20, "{held} bytes");
    }

    #[test]
    fn a_head_that_promises_gigabytes_is_refused() {
        for text in [deflated(head(u32::MAX, 1 << 40, 3).into_iter()), BASE64.encode(head(u32::MAX, 1 << 40, 3))] {
            let (held, found) = most_held(&text);
            assert!(found.unwrap_err().contains("promises 4294967295 bytes"));
            assert!(held < 1 << 20, "{held} bytes");
        }
    }

    #[test]
    fn more_digits_and_more_values_than_a_measurement_has_are_refused() {
        let (held, found) = most_held(&BASE64.encode(head(0, 1 << 37, 5)));
        assert!(found.unwrap_err().contains("5 significant digits") && held < 1 << 16, "{held} bytes");
        let mut histogram = Histogram::<u64>::new_with_bounds(1, RANGE_NS as u64, SIGNIFICANT_DIGITS).unwrap();
        let mut value = 1;
        while value < RANGE_NS as u64 {
            histogram.record(value).unwrap();
            value = histogram.next_non_equivalent(value);
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        let (held, found) = most_held(&BASE64.encode(&bytes));
        assert!(found.unwrap_err().contains("which no measurement does"));
        assert!(held < 2 << 20, "{held} bytes");
    }

    /// Another program may state the largest possible range; the library would allocate 100 MB for it.
    #[test]
    fn a_range_beyond_ours_takes_no_memory() {
        let (held, found) = most_held(&BASE64.encode(head(0, i64::MAX as u64, 3)));
        assert_eq!(found, Ok(Vec::new()));
        assert!(held < 1 << 20, "{held} bytes");
        let mut histogram = Histogram::<u64>::new_with_bounds(1, i64::MAX as u64, 3).unwrap();
        histogram.record_n(1000, 7).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        assert_eq!(decode(&BASE64.encode(&bytes)), Ok(vec![(1000, 7)]));
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        assert_eq!(decode(&BASE64.encode(&bytes)), Ok(vec![(1000, 7)]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_histogram(
            plain in prop::collection::vec(any::<u8>(), 0..200), digits in 0u32..9, promised in 0u32..200, deflate in any::<bool>()
        ) {
            let bytes = [head(promised, 1 << 40, digits), plain].concat();
            let text = if deflate { deflated(bytes.into_iter()) } else { BASE64.encode(bytes) };
            if let Ok(placed) = decode(&text) {
                prop_assert!(placed.windows(2).all(|two| two[0].0 < two[1].0));
            }
        }
    }
}

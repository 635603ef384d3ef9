//! The histogram of a series: its buckets, and its text in the record (base64, usually deflated, HdrHistogram V2).
//!
//! The geometry is that of HdrHistogram with 3 significant digits and a unit of 1 ns. Values up to 2047 are exact.
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

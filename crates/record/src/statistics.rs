//! Ranks of a sorted sample for percentiles and their confidence intervals; the median of some values, pseudo-random numbers;
//! and `Moments`: mean and standard deviation of samples, updated while they are recorded.
//!
//! Takes the number of samples and returns ranks (1 is the smallest). No distribution is assumed: the number of samples
//! below the true q-quantile is binomial(n, q) for any distribution. Sources: H. A. David, *Order Statistics*, 7.1;
//! J.-Y. Le Boudec, *Performance Evaluation of Computer and Communication Systems*, 2.2.2. Samples are assumed
//! independent. Consecutive samples are not quite, which is why rounds exist. Too few samples give no result.
//!
//! For the moments, samples within the histogram's range are summed exactly in integers. Below 2^37 ns their squares stay below 2^74, so
//! 2^53 of them fit in a `u128`. For samples beyond it the sum is exact too. The squared deviations are updated in
//! floating point (Welford), as for figures read from a file. All parts are combined on request.

/// Confidence of the intervals.
pub const CONFIDENCE: f64 = 0.95;

/// A percentile is reported only if at least this many samples are expected beyond it, n (1 - q). With one, it would be
/// little more than the maximum.
pub const MIN_SAMPLES_BEYOND: u64 = 2;

/// Fewest samples for a median: one on either side.
pub const MIN_SAMPLES_MEDIAN: u64 = 3;

/// Up to this many samples, the ranks of the interval come from the exact binomial distribution. Beyond, they come from
/// its normal approximation, widened by one rank on either side for the neglected skew.
pub const EXACT_BINOMIAL_UP_TO: u64 = 1_000_000;

/// The 97.5 % point of the normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;

/// The denominator of a [`Quantile`].
const WHOLE: u32 = 1_000_000;

/// A quantile, in exact millionths, so that ranks are exact too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantile(u32);

impl Quantile {
    /// The median.
    pub const P50: Self = Self(500_000);
    /// 90th percentile.
    pub const P90: Self = Self(900_000);
    /// 99th percentile.
    pub const P99: Self = Self(990_000);
    /// 99.9th percentile.
    pub const P999: Self = Self(999_000);

    /// From millionths, 1 to 999 999; `None` for other numbers.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths >= WHOLE { None } else { Some(Self(millionths)) }
    }

    /// As a ratio, 0 to 1.
    #[must_use]
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// The nearest rank, ceil(q n): the smallest rank with at least that share of `n` samples at or below it. `None`
    /// without samples.
    #[must_use]
    pub fn rank(self, n: u64) -> Option<u64> {
        let rank = (u128::from(n) * u128::from(self.0)).div_ceil(u128::from(WHOLE));
        (n > 0).then_some(rank as u64)
    }

    /// The fewest samples that are enough to report it; the rule of [`MIN_SAMPLES_BEYOND`] and [`MIN_SAMPLES_MEDIAN`].
    #[must_use]
    pub fn fewest_samples(self) -> u64 {
        if self == Self::P50 {
            return MIN_SAMPLES_MEDIAN;
        }
        // The thinner side decides; for quantiles below the median it is the lower one.
        let beyond = self.0.min(WHOLE - self.0);
        (MIN_SAMPLES_BEYOND * u64::from(WHOLE)).div_ceil(u64::from(beyond))
    }

    /// Whether `n` samples are enough to report it.
    #[must_use]
    pub fn is_supported_by(self, n: u64) -> bool {
        n >= self.fewest_samples()
    }
}

/// Two ranks of a sorted sample, 1 to n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// Rank of the lower end.
    pub low: u64,
    /// Rank of the upper end.
    pub high: u64,
}

/// The ranks whose samples enclose the true quantile with at least [`CONFIDENCE`]. At most half of the remainder is
/// on either side.
///
/// `None` when `n` samples are too few for a two-sided interval. The median needs 6, the 99th percentile 368.
#[must_use]
pub fn confidence_ranks(n: u64, quantile: Quantile) -> Option<Ranks> {
    if n <= EXACT_BINOMIAL_UP_TO { exact_ranks(n, quantile) } else { normal_ranks(n, quantile) }
}

/// From the binomial distribution. With B samples below the quantile, sample `low` lies above it if B < low. Sample
/// `high` lies below it if B >= high. Each may happen with at most 2.5 %.
fn exact_ranks(n: u64, quantile: Quantile) -> Option<Ranks> {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let binomial = Binomial::new(n, quantile.ratio());
    let low = binomial.largest_with_lower_tail(tail)?;
    let high = binomial.smallest_with_upper_tail(tail)?;
    Some(Ranks { low, high })
}

/// From the normal approximation with continuity correction, one rank wider on either side.
fn normal_ranks(n: u64, quantile: Quantile) -> Option<Ranks> {
    let (count, q) = (n as f64, quantile.ratio());
    let half = Z_975 * (count * q * (1.0 - q)).sqrt();
    let low = (count * q - half + 0.5).floor() - 1.0;
    let high = (count * q + half + 0.5).ceil() + 1.0;
    (low >= 1.0 && high <= count).then_some(Ranks { low: low as u64, high: high as u64 })
}

/// The probability that at least `hits` of `n` independent trials hit, each with probability `p`.
#[must_use]
pub fn binomial_upper_tail(n: u64, p: f64, hits: u64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    if hits > n {
        return 0.0;
    }
    let binomial = Binomial::new(n, p.clamp(0.0, 1.0));
    let from = hits.max(binomial.first);
    let skip = (from - binomial.first) as usize;
    binomial.mass.iter().skip(skip).rev().sum::<f64>().min(1.0)
}

/// The part of a binomial distribution with any weight in double precision.
struct Binomial {
    n: u64,
    /// The number of hits of `mass[0]`.
    first: u64,
    mass: Vec<f64>,
}

impl Binomial {
    /// Steps outwards from the mode by the ratio of neighbours until weights are negligible. Then scales to a sum of 1.
    /// This needs no factorials or logarithms, does not overflow, and takes O(sqrt n) steps.
    fn new(n: u64, p: f64) -> Self {
        const NEGLIGIBLE: f64 = 1e-30;
        if p <= 0.0 || p >= 1.0 {
            return Self { n, first: if p <= 0.0 { 0 } else { n }, mass: vec![1.0] };
        }
        let odds = p / (1.0 - p);
        let mode = (((n as f64 + 1.0) * p).floor() as u64).min(n);
        let mut below = Vec::new();
        let (mut weight, mut k) = (1.0, mode);
        while k > 0 && weight > NEGLIGIBLE {
            weight *= k as f64 / ((n - k + 1) as f64 * odds);
            k -= 1;
            below.push(weight);
        }
        let first = k;
        let mut mass: Vec<f64> = below.into_iter().rev().chain([1.0]).collect();
        let (mut weight, mut k) = (1.0, mode);
        while k < n && weight > NEGLIGIBLE {
            weight *= (n - k) as f64 * odds / (k + 1) as f64;
            k += 1;
            mass.push(weight);
        }
        let total: f64 = mass.iter().sum();
        mass.iter_mut().for_each(|weight| *weight /= total);
        Self { n, first, mass }
    }

    /// The largest k >= 1 with P(B < k) <= tail.
    fn largest_with_lower_tail(&self, tail: f64) -> Option<u64> {
        let k = self.first + within(self.mass.iter(), tail);
        (k >= 1).then_some(k)
    }

    /// The smallest k <= n with P(B >= k) <= tail.
    fn smallest_with_upper_tail(&self, tail: f64) -> Option<u64> {
        let k = self.first + self.mass.len() as u64 - within(self.mass.iter().rev(), tail);
        (k <= self.n).then_some(k)
    }
}

/// How many masses, from the first on, sum to the tail at most.
fn within<'a>(masses: impl Iterator<Item = &'a f64>, tail: f64) -> u64 {
    let sums = masses.scan(0.0, |sum, mass| {
        *sum += mass;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= tail).count() as u64
}

/// The median of some values, the mean of the two middle ones of an even number; `None` of no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

/// The median of some whole values, the lower of the two middle ones of an even number; `None` of no values.
#[must_use]
pub fn lower_median<T: Ord + Copy>(values: &[T]) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Pseudo-random numbers, the same from the same seed on every machine: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Numbers from this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number between 0 and 1, neither of them.
    pub const fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// A number from `least` to `most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.bits() % (most.saturating_sub(least).saturating_add(1))
    }

    /// A number below `limit`, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// Puts the items in random order (R. Durstenfeld, 1964).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Sums of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moments {
    near_count: u64,
    near_sum: i128,
    near_squares: u128,
    /// Sum of the samples beyond: 2^63 of them, each below 2^63, fit.
    far_sum: i128,
    far: Deviations,
    figures: Deviations,
}

/// Count, mean and sum of squared deviations from it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Deviations {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviations {
    /// Combines both: B. P. Welford's recurrence in its pairwise form (Chan, Golub, LeVeque 1983).
    fn joined(self, other: Self) -> Self {
        if self.count == 0 {
            return other;
        }
        if other.count == 0 {
            return self;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        Self {
            count: self.count + other.count,
            mean: self.mean + apart * (m / (n + m)),
            squares: self.squares + other.squares + apart * apart * (n * m / (n + m)),
        }
    }
}

impl Moments {
    /// Adds a sample whose magnitude is within the histogram's range.
    #[inline]
    pub(crate) fn add_near(&mut self, value: i64) {
        let magnitude = u128::from(value.unsigned_abs());
        self.near_count += 1;
        self.near_sum += i128::from(value);
        self.near_squares += magnitude * magnitude;
    }

    /// Adds a sample within the range more than once.
    pub(crate) fn add_times(&mut self, value: i64, times: u64) {
        let magnitude = u128::from(value.unsigned_abs());
        self.near_count = self.near_count.saturating_add(times);
        self.near_sum += i128::from(value) * i128::from(times);
        self.near_squares = self.near_squares.saturating_add((magnitude * magnitude).saturating_mul(u128::from(times)));
    }

    /// Adds a sample beyond the histogram's range.
    pub(crate) fn add_far(&mut self, value: i64) {
        self.far_sum += i128::from(value);
        self.far = self.far.joined(Deviations { count: 1, mean: value as f64, squares: 0.0 });
    }

    /// The moments of `count` samples, from a finished summary.
    pub(crate) fn of_figures(count: u64, mean: f64, stdev: f64) -> Self {
        let squares = stdev * stdev * count.saturating_sub(1) as f64;
        Self { figures: Deviations { count, mean, squares }, ..Self::default() }
    }

    /// Number of samples that were added and are within the histogram's range.
    pub(crate) fn count_near(&self) -> u64 {
        self.near_count
    }

    /// Adds the moments of other samples.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.near_count += other.near_count;
        self.near_sum += other.near_sum;
        self.near_squares = self.near_squares.saturating_add(other.near_squares);
        self.far_sum += other.far_sum;
        self.far = self.far.joined(other.far);
        self.figures = self.figures.joined(other.figures);
    }

    /// The arithmetic mean; `None` without samples.
    pub(crate) fn mean(&self) -> Option<f64> {
        let all = self.samples().joined(self.figures);
        (all.count > 0).then_some(all.mean)
    }

    /// The sample standard deviation (divisor n - 1); `None` with fewer than two samples.
    pub(crate) fn stdev(&self) -> Option<f64> {
        let all = self.samples().joined(self.figures);
        (all.count > 1).then(|| (all.squares.max(0.0) / (all.count - 1) as f64).sqrt())
    }

    /// All samples about their exact mean: large samples that cancel do so exactly.
    fn samples(&self) -> Deviations {
        let both = self.near().joined(self.far);
        if self.far.count == 0 {
            return both;
        }
        let (n, sum) = (i128::from(both.count), self.near_sum + self.far_sum);
        let mean = sum.div_euclid(n) as f64 + sum.rem_euclid(n) as f64 / n as f64;
        Deviations { mean, ..both }
    }

    /// The exact sums as deviations. The integer part of the mean is subtracted first, in integers, to avoid
    /// cancellation.
    fn near(&self) -> Deviations {
        if self.near_count == 0 {
            return Deviations::default();
        }
        let n = i128::from(self.near_count);
        let whole = self.near_sum.div_euclid(n);
        let rest = self.near_sum.rem_euclid(n);
        let fraction = rest as f64 / n as f64;
        // sum (x - w)^2 = sum x^2 - 2 w sum x + n w^2, with sum x = n w + rest.
        let about_whole = self.near_squares as i128 - whole * (whole * n + 2 * rest);
        let squares = about_whole as f64 - rest as f64 * fraction;
        Deviations { count: self.near_count, mean: whole as f64 + fraction, squares: squares.max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_of_the_literature() {
        // Le Boudec, table A.1: 95 % intervals of the median.
        for (n, low, high) in [(6, 1, 6), (9, 2, 8), (25, 8, 18), (50, 18, 33)] {
            assert_eq!(confidence_ranks(n, Quantile::P50), Some(Ranks { low, high }), "n {n}");
        }
    }

    #[test]
    fn too_few_for_two_ends() {
        assert_eq!(confidence_ranks(0, Quantile::P50), None);
        assert_eq!(confidence_ranks(5, Quantile::P50), None);
        assert!(confidence_ranks(6, Quantile::P50).is_some());
        assert_eq!(confidence_ranks(367, Quantile::P99), None);
        assert!(confidence_ranks(368, Quantile::P99).is_some());
    }

    #[test]
    fn approximation_joins_the_exact_ranks() {
        for quantile in [Quantile::P50, Quantile::P90, Quantile::P99, Quantile::P999] {
            let exact = exact_ranks(EXACT_BINOMIAL_UP_TO, quantile).unwrap();
            let normal = normal_ranks(EXACT_BINOMIAL_UP_TO, quantile).unwrap();
            assert!(normal.low <= exact.low && exact.high <= normal.high, "{quantile:?} {exact:?} {normal:?}");
            assert!(normal.high - normal.low <= exact.high - exact.low + 4, "{quantile:?} {exact:?} {normal:?}");
        }
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0])), (None, Some(2.0), Some(2.5)));
        let middles = [&[][..], &[3, 1, 2], &[4, 1, 2, 3]].map(lower_median::<i64>);
        assert_eq!(middles, [None, Some(2), Some(2)]);
    }

    #[test]
    fn random_numbers_stay_within_their_bounds_and_vary() {
        let mut random = Random::new(0);
        let drawn: Vec<u64> = (0..10_000).map(|_| random.between(100, 199)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&100), Some(&199)));
        assert_eq!((random.between(7, 7), random.below(0), random.below(1)), (7, 0, 0));
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
        random.shuffle(&mut items);
        assert_ne!(items, [0, 1, 2, 3, 4, 5, 6, 7]);
        items.sort_unstable();
        assert_eq!(items, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn tail_of_known_binomials() {
        assert_eq!(binomial_upper_tail(10, 0.5, 0), 1.0);
        assert_eq!(binomial_upper_tail(10, 0.5, 11), 0.0);
        assert!((binomial_upper_tail(10, 0.5, 10) - 1.0 / 1024.0).abs() < 1e-15);
        assert!((binomial_upper_tail(3, 0.05, 2) - 0.00725).abs() < 1e-12);
        assert_eq!(binomial_upper_tail(5, 0.0, 1), 0.0);
        assert_eq!(binomial_upper_tail(5, 1.0, 5), 1.0);
    }

    #[test]
    fn which_percentiles_are_supported() {
        for (quantile, least) in [(Quantile::P50, 3), (Quantile::P90, 20), (Quantile::P99, 200), (Quantile::P999, 2000)]
        {
            assert!(!quantile.is_supported_by(least - 1) && quantile.is_supported_by(least), "{quantile:?}");
        }
    }

    proptest! {
        #[test]
        fn ranks_enclose_the_percentile(n in 1u64..5_000_000, millionths in 1u32..1_000_000) {
            let quantile = Quantile::from_millionths(millionths).unwrap();
            if let Some(Ranks { low, high }) = confidence_ranks(n, quantile) {
                let rank = quantile.rank(n).unwrap();
                prop_assert!(1 <= low && low <= rank && rank <= high && high <= n);
            }
        }

        #[test]
        fn each_tail_is_used_up_and_no_more(n in 6u64..400, millionths in 200_000u32..800_000) {
            let quantile = Quantile::from_millionths(millionths).unwrap();
            if let Some(Ranks { low, high }) = confidence_ranks(n, quantile) {
                let (q, tail) = (quantile.ratio(), 0.025 + 1e-12);
                prop_assert!(1.0 - binomial_upper_tail(n, q, low) <= tail);
                prop_assert!(1.0 - binomial_upper_tail(n, q, low + 1) > 0.025 - 1e-12);
                prop_assert!(binomial_upper_tail(n, q, high) <= tail);
                prop_assert!(binomial_upper_tail(n, q, high - 1) > 0.025 - 1e-12);
            }
        }
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(Moments::default().mean(), None);
        assert_eq!(Moments::default().stdev(), None);
    }

    #[test]
    fn tiny_spread_on_a_large_mean_is_not_lost() {
        let mut moments = Moments::default();
        for value in [100_000_000_001, 100_000_000_002, 100_000_000_003] {
            moments.add_near(value);
        }
        assert_eq!(moments.mean(), Some(100_000_000_002.0));
        assert_eq!(moments.stdev(), Some(1.0));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut moments = Moments::default();
        for _ in 0..1000 {
            moments.add_far(i64::MAX);
            moments.add_far(i64::MIN);
        }
        assert!(moments.mean().unwrap().abs() < 1e4);
        assert!((moments.stdev().unwrap() / (i64::MAX as f64) - 1.0).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn agrees_with_two_passes(values in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 2..200), split in 0usize..200) {
            let split = split.min(values.len());
            let (mut one, mut two) = (Moments::default(), Moments::default());
            values[..split].iter().for_each(|&value| one.add_near(value));
            values[split..].iter().for_each(|&value| two.add_far(value));
            one.merge(&two);
            let n = values.len() as f64;
            let mean = values.iter().map(|&value| i128::from(value)).sum::<i128>() as f64 / n;
            let stdev = (values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            prop_assert!((one.mean().unwrap() - mean).abs() <= 1e-3);
            prop_assert!((one.stdev().unwrap() - stdev).abs() <= 1e-9 * stdev + 1e-3);
        }
    }
}

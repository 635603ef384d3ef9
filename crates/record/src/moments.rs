//! Mean and standard deviation of samples, updated while they are recorded.
//!
//! Samples within the histogram's range are summed exactly in integers. Below 2^37 ns their squares stay below 2^74, so
//! 2^53 of them fit in a `u128`. For samples beyond it the sum is exact too. The squared deviations are updated in
//! floating point (Welford), as for figures read from a file. All parts are combined on request.

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
    use super::*;
    use proptest::prelude::*;

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

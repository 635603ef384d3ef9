//! Student's t distribution, the beta distribution, and derivatives of the logarithm of the gamma function.
//!
//! The crates that have them were weighed. `statrs` and `puruspe` lack the trigamma function, and `puruspe` has eight digits
//! for shapes above 3000. `special` has ten digits of the digamma function, and takes a thousand terms for the percentile
//! of a long run. These functions have twelve digits or more, which the tests check against values of mpmath.
//!
//! The incomplete beta function is evaluated by its continued fraction. Sources: W. H. Press et al., *Numerical Recipes*,
//! 6.4; Abramowitz and Stegun 26.5.8. The derivatives use the recurrence to arguments of 10 or more, and the asymptotic
//! series there: Abramowitz and Stegun 6.3.5, 6.3.18, 6.4.6, 6.4.12.

/// The two-sided probability of a t at least this far from zero, with degrees of freedom of 1 or more, not necessarily whole.
pub(super) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    Beta::new(freedom / 2.0, 0.5).below(freedom / (freedom + t * t)).clamp(0.0, 1.0)
}

/// The t with the two-sided probability `tail` (above 0, below 1).
///
/// Newton's method on the logarithm of the probability, which is nearly linear in the tail, safeguarded by bisection.
pub(crate) fn student_quantile(tail: f64, freedom: f64) -> f64 {
    let mut high = 1.0;
    while student_two_sided(high, freedom) > tail && high < 1e300 {
        high *= 2.0;
    }
    let mut low = if high > 1.0 { high / 2.0 } else { 0.0 };
    let log_density =
        log_gamma(f64::midpoint(freedom, 1.0)) - log_gamma(freedom / 2.0) - 0.5 * (freedom * std::f64::consts::PI).ln();
    let density = |t: f64| (log_density - f64::midpoint(freedom, 1.0) * (t * t / freedom).ln_1p()).exp();
    let mut t = f64::midpoint(low, high);
    // Some five steps suffice; bisection alone would need 60.
    for _ in 0..60 {
        let found = student_two_sided(t, freedom);
        if found > tail {
            low = t
        } else {
            high = t
        }
        let step = (found / tail).ln() * found / (2.0 * density(t));
        let next = t + step;
        // The bounds meet, or the probability underflows: bisect.
        let next = if next >= low && next <= high { next } else { f64::midpoint(low, high) };
        if (next - t).abs() <= 1e-13 * t.abs() {
            return next;
        }
        t = next;
    }
    t
}

/// A beta distribution.
pub(super) struct Beta {
    a: f64,
    b: f64,
    log_front: f64,
}

impl Beta {
    /// The distribution with these shapes, both above zero.
    pub(super) fn new(a: f64, b: f64) -> Self {
        Self { a, b, log_front: log_gamma(a + b) - log_gamma(a) - log_gamma(b) }
    }

    /// The probability of a value of at most `x`: the regularised incomplete beta function.
    pub(super) fn below(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        if x >= 1.0 {
            return 1.0;
        }
        let Self { a, b, log_front } = *self;
        let front = (log_front + a * x.ln() + b * (1.0 - x).ln()).exp();
        // The fraction converges fast on this side of the mean only.
        if x < (a + 1.0) / (a + b + 2.0) {
            front * fraction(a, b, x) / a
        } else {
            1.0 - front * fraction(b, a, 1.0 - x) / b
        }
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let safe = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / safe(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / safe(1.0 + even * d);
        c = safe(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / safe(1.0 + odd * d);
        c = safe(1.0 + odd / c);
        value *= d * c;
        if (d * c - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// The logarithm of the gamma function by C. Lanczos' approximation (g = 7, nine terms), for arguments above zero.
fn log_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Reflection: gamma(x) gamma(1 - x) = pi / sin(pi x).
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - log_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let base = x + 7.5;
    let sum = TERMS.iter().enumerate().skip(1).fold(TERMS[0], |sum, (i, term)| sum + term / (x + i as f64));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// Above this, the series is good to 12 digits.
const FAR: f64 = 10.0;

/// The first derivative of the logarithm of the gamma function, for arguments above zero. It gives the mean of the logarithm of
/// an estimated variance.
pub(super) fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < FAR {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let i = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - i * (1.0 / 12.0 - i * (1.0 / 120.0 - i * (1.0 / 252.0 - i * (1.0 / 240.0 - i / 132.0))))
}

/// The second derivative, likewise, which gives the variance of that logarithm.
pub(super) fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < FAR {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let i = 1.0 / (x * x);
    sum + 1.0 / x
        + i / 2.0
        + i / x * (1.0 / 6.0 - i * (1.0 / 30.0 - i * (1.0 / 42.0 - i * (1.0 / 30.0 - i * 5.0 / 66.0))))
}

/// The argument of this value of [`trigamma`], which falls from infinity at zero to zero at infinity.
pub(super) fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-8_f64, 1e8_f64);
    // Bisection on a logarithmic scale: 36 powers of e, halved 60 times, is below 1e-16.
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_near(found: f64, oracle: f64) {
        assert!((found - oracle).abs() <= 1e-11 * oracle.abs().max(1e-3), "{found} {oracle}");
    }

    /// `betainc(a, b, 0, x, regularized=True)` of mpmath with 40 digits.
    #[test]
    fn the_beta_distribution_is_that_of_mpmath() {
        for (a, b, x, oracle) in [
            (0.5, 0.5, 0.3, 0.369_010_119_565_545_38),
            (2.0, 0.5, 0.2, 0.016_130_089_900_092_534),
            (30.0, 0.5, 0.9, 0.012_282_448_499_852_75),
            (5.0, 6.0, 0.4, 0.366_896_742_4),
            (185.0, 186.0, 0.5, 0.520_726_012_795_059_4),
            (4950.0, 51.0, 0.99, 0.537_517_164_966_375_4),
            (1.0, 1.0, 0.25, 0.25),
        ] {
            assert_near(Beta::new(a, b).below(x), oracle);
        }
    }

    /// The two-sided tail by the same function; quantiles from the tables of any statistics book.
    #[test]
    fn student_is_that_of_mpmath_and_of_the_tables() {
        for (t, freedom, oracle) in [
            (0.5, 1.0, 0.704_832_764_699_133_5),
            (2.5, 4.0, 0.066_766_544_811_988_14),
            (10.0, 4.0, 0.000_562_003_622_715_991_1),
            (3.3, 7.5, 0.011_891_634_562_261_177),
            (50.0, 12.0, 2.686_412_562_688_250_5e-15),
        ] {
            assert_near(student_two_sided(t, freedom), oracle);
        }
        for (freedom, tail, t) in [
            (1.0, 0.05, 12.706),
            (4.0, 0.05, 2.776),
            (8.0, 0.05, 2.306),
            (8.0, 0.01, 3.355),
            (30.0, 0.05, 2.042),
            (120.0, 0.001, 3.373),
        ] {
            assert!((student_quantile(tail, freedom) - t).abs() < 0.001, "{freedom} {tail}");
        }
        assert!((student_quantile(0.05, 1e7) - 1.959_964).abs() < 1e-4);
    }

    /// `psi(0, x)` and `psi(1, x)` of mpmath.
    #[test]
    fn the_derivatives_are_those_of_mpmath() {
        for (x, first, second) in [
            (0.01, -100.560_885_457_868_67, 10_001.621_213_528_313),
            (0.5, -1.963_510_026_021_423_5, 4.934_802_200_544_679),
            (1.0, -0.577_215_664_901_532_9, 1.644_934_066_848_226_4),
            (3.7, 1.167_153_539_361_511_4, 0.310_037_857_670_038_32),
            (100.0, 4.600_161_852_738_087, 0.010_050_166_663_333_571),
        ] {
            assert_near(digamma(x), first);
            assert_near(trigamma(x), second);
        }
    }

    proptest! {
        #[test]
        fn probability_and_quantile_are_inverse(tail in 1e-9f64..0.99, freedom in 1.0f64..200.0) {
            let back = student_two_sided(student_quantile(tail, freedom), freedom);
            prop_assert!((back / tail - 1.0).abs() < 1e-6, "{back} for {tail}");
        }

        #[test]
        fn rarer_the_further(t in 0.0f64..50.0, freedom in 1.0f64..1000.0) {
            prop_assert!(student_two_sided(t + 0.1, freedom) < student_two_sided(t, freedom) + 1e-12);
        }
    }

    proptest! {
        #[test]
        fn one_step_on(x in 0.01f64..200.0) {
            prop_assert!((digamma(x + 1.0) - digamma(x) - 1.0 / x).abs() < 1e-9 / x.min(1.0));
            prop_assert!((trigamma(x) - trigamma(x + 1.0) - 1.0 / (x * x)).abs() < 1e-9 / (x * x).min(1.0));
        }

        #[test]
        fn there_and_back(x in 0.01f64..1e5) {
            prop_assert!((inverse_trigamma(trigamma(x)) / x - 1.0).abs() < 1e-6);
        }
    }
}

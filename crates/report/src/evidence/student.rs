//! Student's t distribution: the significance of a difference whose variance is an estimate.
//!
//! Takes t and degrees of freedom (1 or more, not necessarily whole) and returns a probability, or the inverse. The
//! incomplete beta function is evaluated by its continued fraction, good to some 12 digits. Sources: W. H. Press et
//! al., *Numerical Recipes*, 6.4; Abramowitz and Stegun 26.5.8.

/// The two-sided probability of a t at least this far from zero.
pub(crate) fn two_sided(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { 1.0 } else { 0.0 };
    }
    Beta::new(freedom / 2.0, 0.5).below(freedom / (freedom + t * t)).clamp(0.0, 1.0)
}

/// The t with the two-sided probability `tail` (above 0, below 1).
///
/// Newton's method on the logarithm of the probability, which is nearly linear in the tail, safeguarded by bisection.
pub(crate) fn quantile(tail: f64, freedom: f64) -> f64 {
    let mut high = 1.0;
    while two_sided(high, freedom) > tail && high < 1e300 {
        high *= 2.0;
    }
    let mut low = if high > 1.0 { high / 2.0 } else { 0.0 };
    let log_density =
        log_gamma(f64::midpoint(freedom, 1.0)) - log_gamma(freedom / 2.0) - 0.5 * (freedom * std::f64::consts::PI).ln();
    let density = |t: f64| (log_density - f64::midpoint(freedom, 1.0) * (t * t / freedom).ln_1p()).exp();
    let mut t = f64::midpoint(low, high);
    // Some five steps suffice; bisection alone would need 60.
    for _ in 0..60 {
        let found = two_sided(t, freedom);
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

/// The regularised incomplete beta function of two shapes: the probability that a beta variable is at most `x`.
pub(crate) struct Beta {
    a: f64,
    b: f64,
    log_front: f64,
}

impl Beta {
    /// Of shapes above zero.
    pub(crate) fn new(a: f64, b: f64) -> Self {
        Self { a, b, log_front: log_gamma(a + b) - log_gamma(a) - log_gamma(b) }
    }

    /// Its value, 0 to 1.
    pub(crate) fn below(&self, x: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From the tables of any statistics book.
    #[test]
    fn as_in_the_tables() {
        for (freedom, tail, t) in [
            (1.0, 0.05, 12.706),
            (4.0, 0.05, 2.776),
            (8.0, 0.05, 2.306),
            (8.0, 0.01, 3.355),
            (30.0, 0.05, 2.042),
            (120.0, 0.001, 3.373),
        ] {
            assert!((quantile(tail, freedom) - t).abs() < 0.001, "{freedom} {tail}: {}", quantile(tail, freedom));
        }
        assert!((quantile(0.05, 1e7) - 1.959_964).abs() < 1e-4);
    }

    proptest! {
        #[test]
        fn probability_and_quantile_are_inverse(tail in 1e-9f64..0.99, freedom in 1.0f64..200.0) {
            let back = two_sided(quantile(tail, freedom), freedom);
            prop_assert!((back / tail - 1.0).abs() < 1e-6, "{back} for {tail}");
        }

        #[test]
        fn rarer_the_further(t in 0.0f64..50.0, freedom in 1.0f64..1000.0) {
            prop_assert!(two_sided(t + 0.1, freedom) < two_sided(t, freedom) + 1e-12);
        }
    }
}

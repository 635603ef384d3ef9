//! The first two derivatives of the logarithm of the gamma function. They give the mean and the variance of the
//! logarithm of an estimated variance.
//!
//! Both by recurrence to arguments of 10 or more and the asymptotic series there. See Abramowitz and Stegun 6.3.5, 6.3.18, 6.4.6,
//! 6.4.12.

/// Above this, the series is good to 12 digits.
const FAR: f64 = 10.0;

/// The first derivative, for arguments above zero.
pub(crate) fn digamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < FAR {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let i = 1.0 / (x * x);
    sum + x.ln() - 0.5 / x - i * (1.0 / 12.0 - i * (1.0 / 120.0 - i * (1.0 / 252.0 - i * (1.0 / 240.0 - i / 132.0))))
}

/// The second derivative, for arguments above zero.
pub(crate) fn trigamma(x: f64) -> f64 {
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

/// The argument with this second derivative, which falls from infinity at zero to zero at infinity.
pub(crate) fn inverse_trigamma(value: f64) -> f64 {
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
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_in_the_tables() {
        // digamma(1) is minus Euler's constant, trigamma(1) is pi^2 / 6, trigamma(1/2) is pi^2 / 2.
        let pi_squared = std::f64::consts::PI.powi(2);
        for (found, expected) in [
            (digamma(1.0), -0.577_215_664_901_532_9),
            (digamma(0.5), -1.963_510_026_021_423_5),
            (trigamma(1.0), pi_squared / 6.0),
            (trigamma(0.5), pi_squared / 2.0),
            (digamma(100.0), 4.600_161_852_738_087),
        ] {
            assert!((found - expected).abs() < 1e-11, "{found} {expected}");
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

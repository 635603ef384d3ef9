//! The robust fit of the model elapsed = (TS + TE) + X·(TN + T).
//!
//! The input is measurements of many X (consecutive sleeps) and T (requested time of each). The output is TN, the
//! overhead of a sleep, and TS + TE, the cost of reading the clock. The slope is the Theil-Sen estimator: the median
//! of the slopes of all pairs of points. Up to 29 % of the points may be arbitrary. A fit of two points has no such
//! robustness.

use punctual_record::statistics::median;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Consecutive sleeps.
    pub sleeps: u32,
    /// Requested time of each, ns.
    pub asked_ns: i64,
    /// Elapsed time of all together, ns.
    pub elapsed_ns: i64,
}

/// The result of a fit, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The overhead of a sleep (TN).
    pub sleep_adds_ns: f64,
    /// The cost of reading the clock before and after (TS + TE).
    pub clock_costs_ns: f64,
}

/// The median slope of all pairs of points with different x. None if there is no such pair.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (n, a) in points.iter().enumerate() {
        slopes.extend(points[..n].iter().filter(|b| b.0 != a.0).map(|b| (a.1 - b.1) / (a.0 - b.0)));
    }
    median(&slopes)
}

/// Fits the model. None without two different X.
#[must_use]
pub fn fit(points: &[Point]) -> Option<Fit> {
    // The requested time is known exactly, so only X and the constant are left to fit.
    let rest: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (f64::from(p.sleeps), (p.elapsed_ns - i64::from(p.sleeps) * p.asked_ns) as f64))
        .collect();
    let sleep_adds_ns = slope(&rest)?;
    let intercepts: Vec<f64> = rest.iter().map(|(x, y)| y - sleep_adds_ns * x).collect();
    Some(Fit { sleep_adds_ns, clock_costs_ns: median(&intercepts)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(tn: f64, clock: f64, mut disturb: impl FnMut(usize) -> f64) -> Vec<Point> {
        let mut points = Vec::new();
        for sleeps in [1, 2, 4, 8, 16] {
            for asked_us in [10, 20, 50, 100, 200] {
                let asked_ns = asked_us * 1_000;
                let elapsed = clock + f64::from(sleeps) * (tn + asked_ns as f64) + disturb(points.len());
                points.push(Point { sleeps, asked_ns, elapsed_ns: elapsed as i64 });
            }
        }
        points
    }

    proptest! {
        #[test]
        fn what_is_put_in_comes_out(tn in 0.0_f64..200_000.0, clock in 0.0_f64..100_000.0) {
            let fit = fit(&points(tn, clock, |_| 0.0)).unwrap();
            prop_assert!((fit.sleep_adds_ns - tn).abs() < 5.0, "{fit:?}");
            prop_assert!((fit.clock_costs_ns - clock).abs() < 10.0, "{fit:?}");
        }

        /// A quarter of the points may be off by milliseconds.
        #[test]
        fn outliers_do_not_matter(tn in 1_000.0_f64..200_000.0, which in 0_usize..4, by in 0.0_f64..50_000_000.0) {
            let disturbed = points(tn, 50.0, |n| if n % 5 == which { by } else { 0.0 });
            let fit = fit(&disturbed).unwrap();
            prop_assert!((fit.sleep_adds_ns - tn).abs() < tn * 0.02 + 100.0, "{fit:?} for {tn}");
        }
    }

    /// The published example: X = 1 took 215.935 µs and X = 10 took 1696.492 µs, at 100 µs each.
    #[test]
    fn the_note_of_2019() {
        let two = [(1, 215_935), (10, 1_696_492)];
        let two = two.map(|(sleeps, elapsed_ns)| Point { sleeps, asked_ns: 100_000, elapsed_ns });
        let fit = fit(&two).unwrap();
        assert!((fit.sleep_adds_ns / 1e3 - 64.5).abs() < 0.1, "{fit:?}");
        assert!((fit.clock_costs_ns / 1e3 - 51.5).abs() < 0.2, "{fit:?}");
    }

    #[test]
    fn nothing_to_fit_is_none() {
        assert_eq!(fit(&[]), None);
        let one = Point { sleeps: 3, asked_ns: 5, elapsed_ns: 50 };
        assert_eq!(fit(&[one, one]), None);
    }
}

//! How exactly departures keep the rate in the long run: whether their lateness grows.
//!
//! Departures at a rate that is too low by one in a million get a microsecond later every second. The events of a trial are
//! divided into thirds. The drift is the usual lateness of the last third less that of the first, divided by the time between
//! them. Usual lateness is the mean from the 10th to the 60th percentile: departures may be very late but only slightly early,
//! so 40 % of them may be arbitrary. If batches leave at once, lateness has steps, and a median would jump from one step to
//! the next. Events divided by time would be a wrong rate after a single late departure, for instance the last one.

use crate::frame::figures::median_with_interval;

/// The percentiles that limit usual lateness.
const USUAL: std::ops::Range<usize> = 10..60;

/// Smallest number of departures in a third of a trial: with fewer, usual lateness means little.
const FEWEST_IN_A_THIRD: usize = 10;
/// Iterations that remove the drift and estimate the rest.
const PASSES: u32 = 4;

/// The drifts of the trials, in ppm: positive if departures get later.
#[derive(Debug, Clone, Default)]
pub(super) struct Drift {
    of_trials: Vec<f64>,
}

impl Drift {
    /// Enters a trial: for each departure its ideal time and lateness, ns, in order of time.
    pub(super) fn take(&mut self, departures: &[(i64, i64)]) {
        self.of_trials.extend(of_trial(departures));
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.of_trials.extend(&more.of_trials);
    }

    /// The median of the trials, and its 95 % confidence interval if there are enough trials (6).
    pub(super) fn ppm(&self) -> Option<(f64, Option<(f64, f64)>)> {
        median_with_interval(&self.of_trials)
    }
}

fn of_trial(departures: &[(i64, i64)]) -> Option<f64> {
    let third = departures.len() / 3;
    if third < FEWEST_IN_A_THIRD {
        return None;
    }
    // Relative to the first event: a float holds a trial to the nanosecond, but not the time since boot.
    let (begin, _) = departures[0];
    let thirds = [&departures[..third], &departures[departures.len() - third..]];
    let of_third = |third: &[(i64, i64)], of: &dyn Fn(f64, f64) -> f64| {
        usual(&mut third.iter().map(|(due, late)| of((due - begin) as f64, *late as f64)).collect::<Vec<_>>())
    };
    let [begins, ends] = thirds.map(|third| of_third(third, &|due, _| due));
    let apart = ends - begins;
    if apart <= 0.0 {
        return None;
    }
    // Drift changes which departures are usual. Without the drift the estimate is exact.
    let mut slope = 0.0;
    for _ in 0..PASSES {
        let [first, last] = thirds.map(|third| of_third(third, &|due, late| late - slope * due));
        slope += (last - first) / apart;
    }
    Some(slope * 1e6)
}

/// The mean of the [`USUAL`] percentiles. Reorders the values, of which there must be at least one.
fn usual(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = |of_hundred: usize| values.len() * of_hundred / 100;
    let usual = &values[place(USUAL.start)..place(USUAL.end).max(1)];
    usual.iter().sum::<f64>() / usual.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Departures every 10 µs at a rate with an error of `ppm`, each late by its jitter.
    fn trial(ppm: f64, jitter: &[i64]) -> Vec<(i64, i64)> {
        let boot = 1 << 52;
        let ideal = |n: usize| n as i64 * 10_000;
        jitter.iter().enumerate().map(|(n, j)| (boot + ideal(n), (ideal(n) as f64 * ppm / 1e6) as i64 + j)).collect()
    }

    proptest! {
        /// A quarter of the departures may be late by milliseconds, the last among them.
        #[test]
        fn a_wrong_rate_is_told_from_late_departures(
            ppm in -500.0_f64..500.0,
            jitter in prop::collection::vec(prop_oneof![3 => 0_i64..200, 1 => 0_i64..5_000_000], 3_000..4_000),
        ) {
            let mut drift = Drift::default();
            let mut departures = trial(ppm, &jitter);
            departures.last_mut().unwrap().1 += 20_000_000;
            drift.take(&departures);
            let (found, between) = drift.ppm().unwrap();
            // 200 ns within 20 ms is 10 ppm; and lateness is counted in whole nanoseconds.
            prop_assert!((found - ppm).abs() < 10.1, "{found} for {ppm}");
            prop_assert_eq!(between, None);
        }
    }

    /// Batches of four leave together: the first of each is 30 µs late, the last on time.
    #[test]
    fn batches_are_no_drift() {
        for events in 6_000..6_040 {
            let sawtooth: Vec<i64> = (0..events).map(|n| 30_000 - n % 4 * 10_000).collect();
            let mut drift = Drift::default();
            drift.take(&trial(2.0, &sawtooth));
            let (found, _) = drift.ppm().unwrap();
            // An event more or less of one step: 30 µs in a thousand, within 40 ms.
            assert!((found - 2.0).abs() < 1.0, "{found} with {events} events");
        }
    }

    #[test]
    fn some_trials_make_an_interval_and_a_few_departures_none() {
        let mut drift = Drift::default();
        for ppm in [3.0, 1.0, 2.0, 5.0, 4.0, 900.0] {
            drift.take(&trial(ppm, &[0; 600]));
        }
        let mut few = Drift::default();
        few.take(&trial(3.0, &[0; 29]));
        assert_eq!(few.ppm(), None);
        few.add(&drift);
        let (middle, between) = few.ppm().unwrap();
        assert!((middle - 3.5).abs() < 0.5, "{middle}");
        let (low, high) = between.unwrap();
        assert!(low < 1.5 && high > 800.0, "six trials: from the least to the greatest, {low} to {high}");
    }
}

//! Figures beside the samples: CPU time and context switches of the measuring thread, read before and after a stretch of
//! operations ([`Meter`]), statistics that a few disturbed values do not change ([`median_with_interval`]), and the drift of
//! a series of departures ([`Drift`]).

use punctual_linux::clock::{self, Clock, now_ns};
use punctual_record::statistics::{confidence_ranks, median};
use punctual_record::{Quantile, Usage, WatchEffect};

/// Readings at the beginning of a stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    wall_ns: i64,
    cpu_ns: i64,
    switches: Option<(u64, u64)>,
}

impl Meter {
    /// Reads the thread's usage so far.
    pub(crate) fn start() -> Self {
        let switches = switches();
        Self { switches, wall_ns: now_ns(Clock::Monotonic), cpu_ns: now_ns(Clock::ThreadCpu) }
    }

    /// The usage since the start.
    pub(crate) fn stop(self) -> Usage {
        let cpu_ns = now_ns(Clock::ThreadCpu);
        let wall_ns = now_ns(Clock::Monotonic);
        let switches = self.switches.zip(switches());
        Usage {
            elapsed_ns: (wall_ns - self.wall_ns).unsigned_abs(),
            cpu_ns: Some((cpu_ns - self.cpu_ns).unsigned_abs()),
            voluntary: switches.map(|(before, after)| after.0 - before.0),
            involuntary: switches.map(|(before, after)| after.1 - before.1),
        }
    }
}

/// Voluntary and involuntary context switches of this thread so far, if the kernel reports them.
fn switches() -> Option<(u64, u64)> {
    clock::thread_usage().ok().map(|u| (u.voluntary_switches.unsigned_abs(), u.involuntary_switches.unsigned_abs()))
}

/// Longest stretch of operations before others get the CPU: a fifth of the delay that a terminal user notices.
const STRETCH_NS: u64 = 20_000_000;

/// How many operations fit into the next stretch, from those done: at most eight times as many.
pub(crate) fn next_stretch(done: u64, elapsed_ns: u64) -> u64 {
    (STRETCH_NS / (elapsed_ns / done.max(1)).max(1)).clamp(1, done.saturating_mul(8))
}

/// The usage of several stretches together. A figure unknown in one stretch is unknown in the sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(Option<Usage>);

impl Sum {
    /// Adds the usage of a stretch.
    pub(crate) fn add(&mut self, used: Usage) {
        self.0 = Some(self.0.map_or(used, |sum| sum.plus(used)));
    }

    /// The sum; all unknown if no stretch was added.
    pub(crate) fn usage(self) -> Usage {
        self.0.unwrap_or_default()
    }
}

/// The quantile, interpolated between the two nearest values; `None` for no values. Reorders the values.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = q * values.len().checked_sub(1)? as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(values[low] + (values[high] - values[low]) * at.fract())
}

/// The median, and its 95 % confidence interval if there are enough values (6).
pub(crate) fn median_with_interval(values: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let middle = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ranks = confidence_ranks(sorted.len() as u64, Quantile::P50);
    Some((middle, ranks.map(|ranks| (sorted[ranks.low as usize - 1], sorted[ranks.high as usize - 1]))))
}

/// What watching adds, by these differences: their median and its interval by ranks; absent below six of them.
pub(crate) fn watch_effect(differences: &[f64]) -> Option<WatchEffect> {
    let (p50_ns, interval) = median_with_interval(differences)?;
    let (low_ns, high_ns) = interval?;
    Some(WatchEffect { p50_ns, low_ns, high_ns, pairs: differences.len() as u64 })
}

// How exactly departures keep the rate in the long run: whether their lateness grows.
//
// Departures at a rate that is too low by one in a million get a microsecond later every second. The events of a trial are
// divided into thirds. The drift is the usual lateness of the last third less that of the first, divided by the time between
// them. Usual lateness is the mean from the 10th to the 60th percentile: departures may be very late but only slightly early,
// so 40 % of them may be arbitrary. If batches leave at once, lateness has steps, and a median would jump from one step to
// the next. Events divided by time would be a wrong rate after a single late departure, for instance the last one.

/// The percentiles that limit usual lateness.
const USUAL: std::ops::Range<usize> = 10..60;

/// Smallest number of departures in a third of a trial: with fewer, usual lateness means little.
const FEWEST_IN_A_THIRD: usize = 10;
/// Iterations that remove the drift and estimate the rest.
const PASSES: u32 = 4;

/// The drifts of the trials, in ppm: positive if departures get later.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drift {
    of_trials: Vec<f64>,
}

impl Drift {
    /// Enters a trial: for each departure its ideal time and lateness, ns, in order of time.
    pub(crate) fn take(&mut self, departures: &[(i64, i64)]) {
        self.of_trials.extend(drift_ppm(departures));
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.of_trials.extend(&more.of_trials);
    }

    /// The median of the trials, and its 95 % confidence interval if there are enough trials (6).
    pub(crate) fn ppm(&self) -> Option<(f64, Option<(f64, f64)>)> {
        median_with_interval(&self.of_trials)
    }
}

fn drift_ppm(departures: &[(i64, i64)]) -> Option<f64> {
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

    #[test]
    fn few_values_and_none() {
        assert_eq!(quantile(&mut [1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(median_with_interval(&[3.0, 1.0, 2.0]), Some((2.0, None)));
        assert_eq!(median_with_interval(&[6.0, 1.0, 2.0, 5.0, 4.0, 3.0]), Some((3.5, Some((1.0, 6.0)))));
    }

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

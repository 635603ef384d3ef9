//! The lead time of a boost, learned from the time that the speed took to rise.
//!
//! Takes, now and then, the time from raising the speed to full speed. Returns the 95th percentile of the recent times,
//! plus an eighth. Too early costs a little energy; too late costs a deadline.

use std::time::Duration;

use crate::margin::{HIGHEST_NS, Histogram};

/// Unit of the histogram, in ns: its bins range from 65 µs to 67 ms. Times below the first bin are interpolated.
const UNIT_NS: u128 = 128;
/// Longest credible lead, 67 ms: a longer rise has another cause.
pub(super) const LONGEST: Duration = Duration::from_nanos(HIGHEST_NS as u64 * UNIT_NS as u64);
/// Approximate number of remembered times: the counts are halved again and again.
const MEMORY: u16 = 64;
/// The share of times that may exceed the lead: 5 %.
const ABOVE: f32 = 0.05;
/// Below this number of times the percentile is unknown: the longest counts.
const FEW: u32 = 20;

/// The lead time.
#[derive(Debug, Clone)]
pub(super) struct Lead {
    times: Histogram,
    /// The longest of the first [`FEW`].
    longest: Duration,
    time: Duration,
}

impl Lead {
    pub(super) const fn new() -> Self {
        Self { times: Histogram::new(), longest: Duration::ZERO, time: Duration::ZERO }
    }

    /// The lead time before an activation.
    pub(super) const fn time(&self) -> Duration {
        self.time
    }

    /// Records the time until the speed was reached.
    pub(super) fn observe(&mut self, took: Duration) {
        let units = u32::try_from(took.as_nanos() / UNIT_NS).unwrap_or(u32::MAX).min(HIGHEST_NS - 1);
        self.times.add(units, MEMORY);
        self.longest = self.longest.max(took);
        let needed = if self.times.samples() < FEW {
            self.longest
        } else {
            Duration::from_nanos((u128::from(self.times.exceeded_by(ABOVE)) * UNIT_NS) as u64)
        };
        self.time = needed.saturating_add(needed / 8).min(LONGEST);
    }

    /// Records a time of more than twice the lead. Its length is unknown; three times the lead is assumed.
    pub(super) fn was_too_short(&mut self) {
        self.observe(self.time.saturating_mul(3).min(LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn few_times_count_by_the_longest() {
        let mut lead = Lead::new();
        assert_eq!(lead.time(), Duration::ZERO);
        lead.observe(8 * MS);
        lead.observe(2 * MS);
        assert_eq!(lead.time(), 9 * MS);
    }

    #[test]
    fn an_outlier_in_a_hundred_does_not_count_and_one_in_ten_does() {
        let mut lead = Lead::new();
        (0..99).for_each(|_| lead.observe(MS));
        lead.observe(40 * MS);
        assert!(lead.time() > MS && lead.time() < 2 * MS, "{:?}", lead.time());
        for n in 0..400 {
            lead.observe(if n % 10 == 0 { 10 * MS } else { MS });
        }
        assert!(lead.time() > 8 * MS && lead.time() < 15 * MS, "{:?}", lead.time());
    }

    #[test]
    fn it_follows_a_machine_that_became_slower_and_faster_again() {
        let mut lead = Lead::new();
        (0..100).for_each(|_| lead.observe(MS / 10));
        let quick = lead.time();
        (0..10).for_each(|_| lead.was_too_short());
        assert!(lead.time() > 2 * quick, "{quick:?}, {:?}", lead.time());
        (0..100).for_each(|_| lead.observe(12 * MS));
        assert!(lead.time() >= 12 * MS, "{:?}", lead.time());
        (0..600).for_each(|_| lead.observe(MS / 10));
        assert!(lead.time() < MS, "{:?}", lead.time());
        lead.observe(Duration::from_secs(9));
        (0..100).for_each(|_| lead.was_too_short());
        assert_eq!(lead.time(), LONGEST);
    }
}

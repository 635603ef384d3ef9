//! How long before an activation the speed has to be raised, learned from what raising it took.
//!
//! In goes, now and then, the time from raising the speed until a fixed piece of work ran at full speed; out comes the time that
//! all but one in twenty of the recent ones stayed below, and an eighth to spare. Being early costs a little energy, being late a deadline.

use std::time::Duration;

use crate::margin::{HIGHEST_NS, Histogram};

/// The histogram counts in units of so many ns: its bins then go from 65 µs to 67 ms, and times below the first are told apart by interpolation.
const UNIT_NS: u128 = 128;
/// Longest lead that is believed, 67 ms: what takes longer does not follow.
pub(super) const LONGEST: Duration = Duration::from_nanos(HIGHEST_NS as u64 * UNIT_NS as u64);
/// How many times are remembered, about: from the older ones half is forgotten again and again.
const MEMORY: u16 = 64;
/// The share of times that may exceed the lead: 5 %.
const ABOVE: f32 = 0.05;
/// With fewer times than this no such share can be told: the longest counts.
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

    /// The time to raise the speed before an activation.
    pub(super) const fn time(&self) -> Duration {
        self.time
    }

    /// Takes in how long it took until the speed was there.
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

    /// Takes in that it took longer than twice the lead: how much longer is not known, so three times is assumed.
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

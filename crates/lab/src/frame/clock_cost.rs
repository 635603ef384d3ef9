//! The cost of reading the clock. It is measured and shown, never subtracted.

use punctual_linux::clock::{Clock, now_ns, resolution_ns};
use punctual_record as record;

/// Readings per batch. With this many, the two outer readings do not matter (a reading takes 20 to 1000 ns).
const READINGS: u32 = 500;
/// Number of batches: odd, so that the median is one of them.
const BATCHES: usize = 41;

/// Measures CLOCK_MONOTONIC: the median cost of a reading, and the smallest non-zero step. Takes about 1 ms.
pub(crate) fn measure() -> record::Clock {
    let mut costs = Vec::with_capacity(BATCHES);
    let mut granularity = i64::MAX;
    for _ in 0..BATCHES {
        let begin = now_ns(Clock::Monotonic);
        let mut last = begin;
        for _ in 0..READINGS {
            let now = now_ns(Clock::Monotonic);
            if now > last {
                granularity = granularity.min(now - last);
            }
            last = now;
        }
        costs.push((last - begin) as f64 / f64::from(READINGS));
    }
    costs.sort_by(f64::total_cmp);
    record::Clock {
        source: Clock::Monotonic.name().to_owned(),
        read_ns: costs[BATCHES / 2],
        resolution_ns: resolution_ns(Clock::Monotonic).map_or(0, i64::unsigned_abs),
        granularity_ns: granularity.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_reading_costs_something_and_the_clock_moves() {
        let clock = super::measure();
        assert!(clock.read_ns > 0.0);
        assert!(clock.granularity_ns >= 1);
        assert!(clock.granularity_ns < 1_000_000_000);
    }
}

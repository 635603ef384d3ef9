//! A fixed piece of work whose duration depends on the CPU's speed only.
//!
//! It is a chain of multiplications and shifts in which each step needs the previous one. It touches no memory, so
//! caches do not matter. Its only branch is the loop's, so branch prediction does not matter. Its result is used, so
//! the compiler cannot remove it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual_linux::clock::{Clock, now_ns};

use crate::margin::{HIGHEST_NS, Histogram};

/// An odd constant with well-spread bits (the golden ratio's, as in Fibonacci hashing).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Steps of the first trial of a calibration: some microseconds on any machine.
const FIRST_TRY: u64 = 10_000;
/// Trials, of which the shortest counts: disturbances only lengthen a trial.
const TRIES: u32 = 15;

/// A number of steps of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Number of steps.
    pub steps: u64,
}

impl Work {
    /// The number of steps that take about `target` on the calling thread, at the current speed of its CPU. Warm up the
    /// CPU first.
    #[must_use]
    pub fn calibrate(target: Duration) -> Self {
        let target_ns = target.as_nanos().max(1) as u64;
        let mut steps = FIRST_TRY;
        loop {
            let best = (0..TRIES).map(|_| Self { steps }.timed().1).min().unwrap_or(1).max(1) as u64;
            let scaled = (u128::from(steps) * u128::from(target_ns) / u128::from(best)).max(1) as u64;
            // A trial within a factor of two of the target gives the final scale.
            if best >= target_ns / 2 && best <= target_ns * 2 {
                return Self { steps: scaled };
            }
            // A disturbed trial says little: the next one is at most a hundred times larger.
            steps = scaled.clamp(1, steps * 100);
        }
    }

    /// Keeps the calling thread's CPU busy with such work for this duration.
    pub fn warm_up(time: Duration) {
        let until = now_ns(Clock::Monotonic) + time.as_nanos() as i64;
        while now_ns(Clock::Monotonic) < until {
            black_box(Self { steps: FIRST_TRY }.perform(black_box(1)));
        }
    }

    /// Does the work.
    #[inline(never)]
    #[must_use]
    pub fn perform(self, seed: u64) -> u64 {
        let mut value = seed | 1;
        for _ in 0..self.steps {
            value = (value ^ (value >> 29)).wrapping_mul(FACTOR);
        }
        value
    }

    /// Does the work and returns its end and its duration in ns.
    #[inline]
    #[must_use]
    pub fn timed(self) -> (i64, i64) {
        let begin = now_ns(Clock::Monotonic);
        black_box(self.perform(black_box(begin as u64)));
        let end = now_ns(Clock::Monotonic);
        (end, end - begin)
    }
}

/// Duration of one loop: short compared with a frequency change, long compared with two clock readings.
const LOOP: Duration = Duration::from_micros(20);
/// Busy time before the CPU's speed counts as full: several times the ramp of a processor.
const WARM_UP: Duration = Duration::from_millis(30);
/// Number of loops whose median is the duration at full speed. The minimum could be a short turbo.
const REFERENCE: usize = 51;
/// Tolerance of a loop at full speed, in per cent. It is well above the work's variation, and below the step between two
/// P-states.
const CLOSE_PER_CENT: u32 = 5;
/// Number of consecutive loops at full speed: a single one could be luck.
const IN_A_ROW: u32 = 3;

/// Detects full speed by loops of fixed work. It does not depend on the kernel's reports, so it works with every driver.
///
/// It runs on the CPU that was just raised, and measures the time from raising to the first loop at full speed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullSpeed {
    work: Work,
    at_most: Duration,
}

impl FullSpeed {
    /// Measures it on the calling thread's CPU, whose speed must be raised already. Takes some 40 ms of CPU time.
    pub(super) fn measure() -> Self {
        Work::warm_up(WARM_UP);
        let work = Work::calibrate(LOOP);
        let mut loops: Vec<i64> = (0..REFERENCE).map(|_| work.timed().1).collect();
        loops.sort_unstable();
        let typical = Duration::from_nanos(loops[REFERENCE / 2].unsigned_abs());
        Self { work, at_most: typical + typical * CLOSE_PER_CENT / 100 }
    }

    /// The shortest time in which full speed can be detected: the consecutive loops, and one before them.
    pub(super) fn shortest_look(&self) -> Duration {
        self.at_most * (IN_A_ROW + 2)
    }

    /// Loops until full speed, or until no further loop fits before `until`. Returns the time from `raised` to the
    /// first loop at full speed; `None` if it was not reached.
    pub(super) fn reached(&self, raised: Instant, until: Instant) -> Option<Duration> {
        let mut row = 0;
        let mut first = raised;
        let mut begin = Instant::now();
        while begin + self.at_most < until {
            std::hint::black_box(self.work.perform(1));
            let end = Instant::now();
            if end - begin > self.at_most {
                row = 0;
            } else {
                first = if row == 0 { begin } else { first };
                row += 1;
                if row == IN_A_ROW {
                    return Some(first - raised);
                }
            }
            begin = end;
        }
        None
    }

    /// Keeps the calling thread running until `until`.
    pub(super) fn run_until(&self, until: Instant) {
        while Instant::now() + self.at_most < until {
            std::hint::black_box(self.work.perform(1));
        }
    }
}

// The lead time of a boost, learned from the time that the speed took to rise.
//
// Takes, now and then, the time from raising the speed to full speed. Returns the 95th percentile of the recent times,
// plus an eighth. Too early costs a little energy; too late costs a deadline.

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

    #[test]
    fn every_step_counts() {
        // The same chain, by an independent formula that shares only the constant.
        let reference = |seed: u64, steps: u64| {
            (0..steps)
                .fold(u128::from(seed | 1), |value, _| ((value ^ (value / (1 << 29))) * u128::from(FACTOR)) % (1 << 64))
        };
        for steps in [0, 1, 2, 1000, 10_000] {
            assert_eq!(u128::from(Work { steps }.perform(12345)), reference(12345, steps));
        }
    }

    #[test]
    fn four_times_the_steps_take_more_than_twice_as_long() {
        // No step is skipped or precomputed. The minimum of many trials is the duration of the work itself.
        // They alternate, so that a change of the CPU's speed meets both.
        let (mut one, mut four) = (i64::MAX, i64::MAX);
        for _ in 0..200 {
            one = one.min(Work { steps: 20_000 }.timed().1);
            four = four.min(Work { steps: 80_000 }.timed().1);
        }
        assert!(four > 2 * one, "{one} ns, {four} ns");
    }

    #[test]
    fn calibration_ends_and_is_of_the_right_order() {
        let target = Duration::from_micros(200);
        let work = Work::calibrate(target);
        let shortest = (0..50).map(|_| work.timed().1).min().unwrap();
        assert!(shortest > 20_000, "{} steps take {shortest} ns", work.steps);
    }

    #[test]
    fn a_thread_that_is_at_full_speed_already_finds_that_out() {
        let full = FullSpeed { work: Work { steps: 10 }, at_most: Duration::from_secs(1) };
        let now = Instant::now();
        let took = full.reached(now, now + Duration::from_secs(3600)).unwrap();
        assert!(took <= now.elapsed());
    }

    #[test]
    fn a_speed_that_never_comes_ends_with_the_time_there_is() {
        let never = FullSpeed { work: Work { steps: 10_000 }, at_most: Duration::ZERO };
        let now = Instant::now();
        let until = now + Duration::from_millis(5);
        assert_eq!(never.reached(now, until), None);
        assert!(Instant::now() >= until);
    }

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

//! A fixed piece of work whose duration depends on the CPU's speed only.
//!
//! It is a chain of multiplications and shifts in which each step needs the previous one. It touches no memory, so
//! caches do not matter. Its only branch is the loop's, so branch prediction does not matter. Its result is used, so
//! the compiler cannot remove it.

use std::hint::black_box;
use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};

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
}

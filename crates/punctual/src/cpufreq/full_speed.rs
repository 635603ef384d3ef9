//! Detects full speed by loops of fixed work. It does not depend on the kernel's reports, so it works with every
//! driver.
//!
//! Runs on the CPU that was just raised. Measures the time from raising to the first loop at full speed.

use std::time::{Duration, Instant};

use super::work::Work;

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

/// Duration of a loop at full speed.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}

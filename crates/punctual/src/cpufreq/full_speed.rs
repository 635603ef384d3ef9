//! When full speed is there, as loops of fixed work tell: no kernel's word is needed, so this works with every driver.
//!
//! In goes a thread on the CPU that was just raised; out comes the time from raising it to the first loop at full speed. The thread runs meanwhile.

use std::time::{Duration, Instant};

use super::work::Work;

/// One loop: short beside any change of frequency, long beside reading the clock twice.
const LOOP: Duration = Duration::from_micros(20);
/// How long the CPU is kept busy before its speed counts as full: several times what processors take by themselves.
const WARM_UP: Duration = Duration::from_millis(30);
/// Loops whose middle one is what a loop takes at full speed: the shortest may have been a moment of a turbo that does not last.
const REFERENCE: usize = 51;
/// So much longer (in per cent) a loop at full speed may take: well above the work's own variation and below the step between two P-states.
const CLOSE_PER_CENT: u32 = 5;
/// So many loops in a row must be at full speed: one lucky loop is no arrival.
const IN_A_ROW: u32 = 3;

/// What a loop takes at full speed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullSpeed {
    work: Work,
    at_most: Duration,
}

impl FullSpeed {
    /// Finds out, on the calling thread's CPU, which must have been raised. Takes some 40 ms of CPU time.
    pub(super) fn measure() -> Self {
        Work::warm_up(WARM_UP);
        let work = Work::calibrate(LOOP);
        let mut loops: Vec<i64> = (0..REFERENCE).map(|_| work.timed().1).collect();
        loops.sort_unstable();
        let typical = Duration::from_nanos(loops[REFERENCE / 2].unsigned_abs());
        Self { work, at_most: typical + typical * CLOSE_PER_CENT / 100 }
    }

    /// The shortest time in which full speed can be seen: the loops in a row, and one for the way there.
    pub(super) fn shortest_look(&self) -> Duration {
        self.at_most * (IN_A_ROW + 2)
    }

    /// Loops until full speed is there, or so close to `until` that no loop fits any more. The time from `raised` to the first of the loops that
    /// were at full speed; `None`: it was not there.
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

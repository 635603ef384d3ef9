//! Breaks for busy real-time loops, so that the rest of the machine goes on.
//!
//! In goes how long the loop was busy, out comes now and then a sleep. The kernel's own safety net (RT throttling,
//! /proc/sys/kernel/sched_rt_runtime_us) is switched off on many real-time machines, and does not exist on others.

use std::time::Duration;

/// Sleeps at least a share of the busy time, whenever a burst of it has gathered.
///
/// ```
/// use punctual::Breather;
/// use std::time::Duration;
///
/// let mut breather = Breather::new();
/// assert_eq!(breather.after(Duration::from_millis(49)), None);
/// assert_eq!(breather.after(Duration::from_millis(1)), Some(Duration::from_micros(2500)));
/// ```
#[derive(Debug, Clone)]
pub struct Breather {
    burst: Duration,
    rest_percent: u32,
    busy: Duration,
}

impl Default for Breather {
    fn default() -> Self {
        Self::new()
    }
}

impl Breather {
    /// A break of 5 % after each 50 ms of busy time: what the kernel leaves to others by default (950 ms of each second for
    /// real-time threads), in portions that a user at a terminal does not notice.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Duration::from_millis(50), 5)
    }

    /// A break of `rest_percent` (at least 1) of the busy time, after each `burst` of it.
    #[must_use]
    pub const fn with(burst: Duration, rest_percent: u32) -> Self {
        Self { burst, rest_percent: if rest_percent == 0 { 1 } else { rest_percent }, busy: Duration::ZERO }
    }

    /// To be called between two pieces of work, with how long the last one was busy (not waiting). Sleeps when it is time, and
    /// tells for how long was asked.
    pub fn after(&mut self, busy: Duration) -> Option<Duration> {
        let rest = self.owed(busy)?;
        std::thread::sleep(rest);
        Some(rest)
    }

    /// The arithmetic of [`Breather::after`].
    fn owed(&mut self, busy: Duration) -> Option<Duration> {
        self.busy = self.busy.saturating_add(busy);
        if self.busy.is_zero() || self.busy < self.burst {
            return None;
        }
        let rest = self.busy.saturating_mul(self.rest_percent) / 100;
        self.busy = Duration::ZERO;
        Some(rest.max(Duration::from_nanos(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rests_at_least_the_share_and_never_long_after_it_is_due(
            pieces in proptest::collection::vec(0_u64..200_000_000, 1..200),
            percent in 1_u32..50,
        ) {
            let burst = Duration::from_millis(50);
            let mut breather = Breather::with(burst, percent);
            let mut unpaid = Duration::ZERO;
            for piece in pieces.into_iter().map(Duration::from_nanos) {
                unpaid += piece;
                match breather.owed(piece) {
                    Some(rest) => {
                        prop_assert!(rest >= unpaid * percent / 100);
                        unpaid = Duration::ZERO;
                    }
                    None => prop_assert!(unpaid < burst),
                }
            }
        }
    }

    #[test]
    fn really_sleeps() {
        let begun = std::time::Instant::now();
        assert_eq!(Breather::new().after(Duration::from_millis(100)), Some(Duration::from_millis(5)));
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
}

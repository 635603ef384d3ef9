//! A busy real-time loop throttles itself, so that other threads on its CPU run.
//!
//! The loop reports its busy time, and [`RtThrottle`] sleeps when a break is due. It serves machines without the kernel's RT throttling
//! (`/proc/sys/kernel/sched_rt_runtime_us`, sched(7)): many real-time machines turn it off, some kernels lack it.

use std::time::Duration;

/// Sleeps for a share of the busy time after each burst.
///
/// ```
/// use punctual::RtThrottle;
/// use std::time::Duration;
///
/// let mut throttle = RtThrottle::new();
/// assert_eq!(throttle.after(Duration::from_millis(49)), None);
/// assert_eq!(throttle.after(Duration::from_millis(1)), Some(Duration::from_micros(2500)));
/// ```
#[derive(Debug, Clone)]
pub struct RtThrottle {
    burst: Duration,
    rest_percent: u32,
    busy: Duration,
}

impl Default for RtThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl RtThrottle {
    /// A break of 5 % after each 50 ms of busy time. The kernel reserves the same share for other threads by default: real-time threads get
    /// 950 ms of each second. A terminal user does not notice such short bursts.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Duration::from_millis(50), 5)
    }

    /// A break of `rest_percent` (at least 1, clamped) of the busy time, after each `burst` of it.
    #[must_use]
    pub const fn with(burst: Duration, rest_percent: u32) -> Self {
        Self { burst, rest_percent: if rest_percent == 0 { 1 } else { rest_percent }, busy: Duration::ZERO }
    }

    /// Takes the busy time, without waits, of the last piece of work; call it between two pieces. Sleeps if a break is due and returns
    /// its length.
    pub fn after(&mut self, busy: Duration) -> Option<Duration> {
        let rest = self.owed(busy)?;
        std::thread::sleep(rest);
        Some(rest)
    }

    /// The break due after `busy`, without the sleep.
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
            let mut throttle = RtThrottle::with(burst, percent);
            let mut unpaid = Duration::ZERO;
            for piece in pieces.into_iter().map(Duration::from_nanos) {
                unpaid += piece;
                match throttle.owed(piece) {
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
        assert_eq!(RtThrottle::new().after(Duration::from_millis(100)), Some(Duration::from_millis(5)));
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
}

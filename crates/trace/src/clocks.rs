//! Timers run by several clocks; events are stamped by CLOCK_MONOTONIC.

use rustix::time::{DynamicClockId, clock_gettime_dynamic};

const MONOTONIC: DynamicClockId<'_> = DynamicClockId::Known(rustix::time::ClockId::Monotonic);
const OTHERS: [DynamicClockId<'_>; 3] =
    [DynamicClockId::Known(rustix::time::ClockId::Realtime), DynamicClockId::Boottime, DynamicClockId::Tai];

/// Readings of one time differ by less, even if the thread is preempted between them. CLOCK_BOOTTIME is ahead by the time in
/// suspend.
const SAME_NS: i64 = 100_000_000;

/// How far the other clocks are ahead of CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    ahead_ns: [i64; 4],
}

impl Clocks {
    pub(crate) fn read() -> Self {
        // A clock that the kernel lacks is as far ahead as none.
        let now = |clock| {
            clock_gettime_dynamic(clock).ok().map(|time| time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64)
        };
        let ahead = |clock| {
            let (before, other, after) = (now(MONOTONIC)?, now(clock)?, now(MONOTONIC)?);
            let ahead = other - (before + after) / 2;
            // Two clocks that run alike differ by the readings only.
            Some(if ahead.abs() > SAME_NS { ahead } else { 0 })
        };
        let [realtime, boottime, tai] = OTHERS.map(|clock| ahead(clock).unwrap_or(0));
        Self { ahead_ns: [0, realtime, boottime, tai] }
    }

    #[cfg(test)]
    pub(crate) fn of(ahead_ns: [i64; 4]) -> Self {
        Self { ahead_ns }
    }

    /// How far the clock is ahead that read `now_ns` at about this time.
    pub(crate) fn ahead_of(&self, now_ns: i64, time_ns: u64) -> i64 {
        let ahead = now_ns - time_ns.cast_signed();
        self.ahead_ns.into_iter().min_by_key(|known| known.abs_diff(ahead)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_clock_is_the_one() {
        let clocks = Clocks::of([0, 5_000_000, 900, 37_005_000_000]);
        assert_eq!(clocks.ahead_of(1_000, 1_010), 0);
        assert_eq!(clocks.ahead_of(5_000_990, 1_000), 5_000_000);
        assert_eq!(clocks.ahead_of(37_005_000_800, 1_000), 37_005_000_000);
        assert_eq!(Clocks::read().ahead_ns[0], 0);
    }
}

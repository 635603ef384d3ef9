//! The expected wake-ups of one thread: one every interval, and those that nobody was there for.
//!
//! In goes the time of a wake-up, out come its lateness and the number of wake-ups that it has overslept. Each expected
//! wake-up is counted exactly once: as a cycle, or as missed.

/// The next expected wake-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    next_ns: i64,
    interval_ns: i64,
}

/// A wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Woken {
    /// From the expected time to the wake-up.
    pub(super) late_ns: i64,
    /// Expected wake-ups that passed meanwhile.
    pub(super) missed: u64,
}

impl Cycle {
    /// The first wake-up is an interval after `start_ns`. An interval of less than 1 ns counts as 1 ns.
    #[must_use]
    pub(super) fn new(start_ns: i64, interval_ns: i64) -> Self {
        let interval_ns = interval_ns.max(1);
        Self { next_ns: start_ns.saturating_add(interval_ns), interval_ns }
    }

    /// When the thread is to wake up next.
    #[inline]
    #[must_use]
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// The thread waits for a whole interval from `now_ns` on, whatever was expected.
    #[inline]
    pub(super) fn begin_anew(&mut self, now_ns: i64) {
        self.next_ns = now_ns.saturating_add(self.interval_ns);
    }

    /// The thread woke up at `now_ns`. A wake-up that is expected exactly now is still to come.
    #[inline]
    pub(super) fn woke(&mut self, now_ns: i64) -> Woken {
        let late_ns = now_ns.saturating_sub(self.next_ns);
        self.skip(1);
        Woken { late_ns, missed: self.slept_until(now_ns) }
    }

    /// The thread slept beside its wake-ups. Returns how many were expected before `now_ns`.
    #[inline]
    pub(super) fn slept_until(&mut self, now_ns: i64) -> u64 {
        let behind_ns = now_ns.saturating_sub(self.next_ns).max(0);
        let missed = behind_ns.unsigned_abs().div_ceil(self.interval_ns.unsigned_abs());
        self.skip(missed);
        missed
    }

    /// A timer woke the thread, which read the clock at `now_ns`. The timer expired `missed` times more before its signal was taken.
    /// It counts itself what it misses from then on.
    #[inline]
    pub(super) fn expired(&mut self, now_ns: i64, missed: u64) -> Woken {
        let late_ns = now_ns.saturating_sub(self.next_ns);
        self.skip(missed.saturating_add(1));
        Woken { late_ns, missed }
    }

    /// So many expected wake-ups are over.
    #[inline]
    fn skip(&mut self, missed: u64) {
        let ns = i64::try_from(missed).unwrap_or(i64::MAX).saturating_mul(self.interval_ns);
        self.next_ns = self.next_ns.saturating_add(ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, one expected wake-up after the other.
    fn one_by_one(next_ns: i64, interval_ns: i64, now_ns: i64) -> (Woken, i64) {
        let (mut next, mut missed) = (next_ns + interval_ns, 0);
        while now_ns > next {
            next += interval_ns;
            missed += 1;
        }
        (Woken { late_ns: now_ns - next_ns, missed }, next)
    }

    proptest! {
        #[test]
        fn each_expected_wake_up_is_counted_once(interval in 1i64..2000, sleeps in prop::collection::vec(0i64..20_000, 1..50)) {
            let mut cycle = Cycle::new(0, interval);
            let (mut now, mut counted) = (0, 0);
            for late in sleeps {
                now = cycle.next_ns().max(now) + late;
                let expected = one_by_one(cycle.next_ns(), interval, now);
                let woken = cycle.woke(now);
                prop_assert_eq!((woken, cycle.next_ns()), expected);
                counted += 1 + woken.missed as i64;
                prop_assert_eq!(cycle.next_ns(), interval * (counted + 1));
                prop_assert!(cycle.next_ns() >= now);
            }
        }
    }

    #[test]
    fn a_wake_up_that_is_due_now_is_still_to_come() {
        let mut cycle = Cycle::new(0, 10);
        assert_eq!(cycle.woke(20), Woken { late_ns: 10, missed: 0 });
        assert_eq!(cycle.next_ns(), 20);
        assert_eq!(cycle.woke(41), Woken { late_ns: 21, missed: 2 });
        assert_eq!(cycle.next_ns(), 50);
    }

    #[test]
    fn a_timer_counts_itself_what_it_misses() {
        let mut cycle = Cycle::new(0, 10);
        assert_eq!(cycle.expired(35, 1), Woken { late_ns: 25, missed: 1 });
        assert_eq!(cycle.next_ns(), 30);
        assert_eq!(cycle.expired(36, 0), Woken { late_ns: 6, missed: 0 });
        assert_eq!(cycle.next_ns(), 40);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let mut cycle = Cycle::new(i64::MAX - 5, i64::MAX);
        assert_eq!(cycle.woke(i64::MAX), Woken { late_ns: 0, missed: 0 });
        assert_eq!(Cycle::new(0, -5).next_ns(), 1);
    }
}

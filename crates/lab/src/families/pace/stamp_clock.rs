//! Converts the kernel's arrival stamps from the wall clock to `CLOCK_MONOTONIC`, even if the wall clock is set
//! meanwhile.

use punctual_linux::clock::{Clock, now_ns};

use crate::frame::breaks::{Break, Offset};

/// Tracks the wall clock while stamps are read.
#[derive(Debug)]
pub(super) struct StampClock {
    offset: Offset,
    /// When the clock was last seen to be set: an earlier stamp may precede that.
    set_ns: i64,
}

impl StampClock {
    pub(super) fn new() -> Self {
        Self { offset: Offset::read(Clock::Realtime), set_ns: i64::MIN }
    }

    /// The arrival of a datagram with this stamp, and whether the clock was set since the last call. A stamp that may
    /// precede the setting is not used: the result is the present time.
    pub(super) fn arrival(&mut self, stamp_ns: Option<i64>) -> (i64, Option<Break>) {
        let offset = Offset::read(Clock::Realtime);
        self.arrival_at(stamp_ns, now_ns(Clock::Monotonic), offset)
    }

    fn arrival_at(&mut self, stamp_ns: Option<i64>, now_ns: i64, offset: Offset) -> (i64, Option<Break>) {
        let set = self.offset.changed_to(offset).map(|by_ns| Break::Stepped { by_ns });
        if set.is_some() {
            (self.offset, self.set_ns) = (offset, now_ns);
        }
        let at_ns = stamp_ns.map(|ns| ns - self.offset.ns()).filter(|at| (self.set_ns..=now_ns).contains(at));
        (at_ns.unwrap_or(now_ns), set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn offset(ns: i64) -> Offset {
        Offset { least_ns: ns - 50, most_ns: ns + 50 }
    }

    #[test]
    fn arrivals_are_monotonic_whichever_way_the_clock_is_set() {
        for by_ns in [-6 * SECOND, 6 * SECOND] {
            let (old, new) = (offset(1_000 * SECOND), offset(1_000 * SECOND + by_ns));
            let mut clock = StampClock { offset: old, set_ns: i64::MIN };
            let stamped = |at: i64, offset: Offset| Some(at + offset.ns());
            assert_eq!(clock.arrival_at(stamped(100, old), 130, old), (100, None));
            // Stamped before the clock was set, but read after it: only the time of reading is known.
            assert_eq!(clock.arrival_at(stamped(200, old), 230, new), (230, Some(Break::Stepped { by_ns })));
            assert_eq!(clock.arrival_at(stamped(210, old), 240, new), (240, None));
            assert_eq!(clock.arrival_at(stamped(300, new), 330, new), (300, None));
            assert_eq!(clock.arrival_at(None, 430, new), (430, None));
        }
    }
}

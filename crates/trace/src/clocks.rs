//! The clock of a timer, found from its reading. An event of a timer has times on the timer's own clock, and does not say which clock that
//! is. Its stamp is CLOCK_MONOTONIC. So the clock is the one that is as far ahead of CLOCK_MONOTONIC as the reading is of the stamp.
//!
//! Events and timers have the machine's clocks. A process in a time namespace (time_namespaces(7)) reads clocks with an [`Offsets`], which
//! is taken off here.

use std::fs::{read_link, read_to_string};

use rustix::time::{DynamicClockId, clock_gettime_dynamic};

const MONOTONIC: DynamicClockId<'_> = DynamicClockId::Known(rustix::time::ClockId::Monotonic);

/// Clocks whose readings differ by less count as one. The thread may be preempted between two readings, and CLOCK_BOOTTIME is
/// CLOCK_MONOTONIC until the machine is first suspended.
const SAME_NS: i64 = 100_000_000;

/// How far this process's clocks are ahead of the machine's, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) monotonic_ns: i64,
    boottime_ns: i64,
}

impl Offsets {
    /// From /proc/PID/timens_offsets, which shows the namespace of the children of PID: the file of a process whose children are in the
    /// namespace of this one. After unshare(2) that is not this process itself.
    pub(crate) fn read() -> Self {
        let own = read_link("/proc/self/ns/time").ok();
        let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_pid());
        let in_ours = |pid: &String| own == read_link(format!("/proc/{pid}/ns/time_for_children")).ok();
        let shows = ["self".to_owned(), parent.to_string(), "1".to_owned()].into_iter().find(in_ours);
        shows
            .and_then(|pid| read_to_string(format!("/proc/{pid}/timens_offsets")).ok())
            .map_or(Self::default(), |text| Self::parsed(&text))
    }

    /// `monotonic 100000 5`: seconds and nanoseconds. Without time namespaces there is no line, and the offset is 0.
    fn parsed(text: &str) -> Self {
        let offset = |clock: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(clock))?;
            let mut numbers = line.split_whitespace().map(|number| number.parse::<i64>().ok());
            numbers.next()??.checked_mul(1_000_000_000)?.checked_add(numbers.next()??)
        };
        Self { monotonic_ns: offset("monotonic").unwrap_or(0), boottime_ns: offset("boottime").unwrap_or(0) }
    }
}

/// How far the machine's other clocks are ahead of its CLOCK_MONOTONIC, ns.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    /// CLOCK_MONOTONIC itself, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_TAI.
    ahead_ns: [i64; 4],
}

impl Clocks {
    pub(crate) fn read() -> Self {
        // A clock that the kernel lacks counts as CLOCK_MONOTONIC: no timer runs by it.
        let now = |clock| {
            clock_gettime_dynamic(clock).ok().map(|time| time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64)
        };
        let Offsets { monotonic_ns, boottime_ns } = Offsets::read();
        let ahead = |clock, offset_ns: i64| {
            let (before, other, after) = (now(MONOTONIC)?, now(clock)?, now(MONOTONIC)?);
            let ahead: i64 = (other - offset_ns) - ((before + after) / 2 - monotonic_ns);
            Some(if ahead.abs() > SAME_NS { ahead } else { 0 })
        };
        let others = [
            (DynamicClockId::Known(rustix::time::ClockId::Realtime), 0),
            (DynamicClockId::Boottime, boottime_ns),
            (DynamicClockId::Tai, 0),
        ];
        let [realtime, boottime, tai] = others.map(|(clock, offset_ns)| ahead(clock, offset_ns).unwrap_or(0));
        Self { ahead_ns: [0, realtime, boottime, tai] }
    }

    #[cfg(test)]
    pub(crate) fn ahead_by(ahead_ns: [i64; 4]) -> Self {
        Self { ahead_ns }
    }

    /// How far the clock that read `reading_ns` is ahead of CLOCK_MONOTONIC, which read about `monotonic_ns` then.
    pub(crate) fn ahead_of(&self, reading_ns: i64, monotonic_ns: u64) -> i64 {
        let ahead = reading_ns - monotonic_ns.cast_signed();
        self.ahead_ns.into_iter().min_by_key(|known| known.abs_diff(ahead)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_clock_is_the_one() {
        let clocks = Clocks::ahead_by([0, 5_000_000, 900, 37_005_000_000]);
        assert_eq!(clocks.ahead_of(1_000, 1_010), 0);
        assert_eq!(clocks.ahead_of(5_000_990, 1_000), 5_000_000);
        assert_eq!(clocks.ahead_of(37_005_000_800, 1_000), 37_005_000_000);
        assert_eq!(Clocks::read().ahead_ns[0], 0);
    }

    #[test]
    fn offsets_are_seconds_and_nanoseconds() {
        let text = "monotonic      100000         5\nboottime           -2 500000000\n";
        assert_eq!(Offsets::parsed(text), Offsets { monotonic_ns: 100_000_000_000_005, boottime_ns: -1_500_000_000 });
        assert_eq!(Offsets::parsed("monotonic 1 x"), Offsets::default());
        assert_eq!(Offsets::parsed(""), Offsets::default());
    }
}

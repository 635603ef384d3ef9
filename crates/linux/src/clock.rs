//! Reading the kernel's clocks (`clock_gettime(2)`), in nanoseconds.

use crate::{Result, check};

/// A clock of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Clock {
    /// Time since an unspecified start; never steps, is slewed by NTP, stops in suspend.
    Monotonic,
    /// The wall clock; steps when it is set.
    Realtime,
    /// Monotonic, and continues in suspend.
    Boottime,
    /// The wall clock without leap seconds.
    Tai,
    /// CPU time of the calling thread.
    ThreadCpu,
    /// CPU time of the calling process.
    ProcessCpu,
}

impl Clock {
    /// The kernel's number of this clock.
    #[must_use]
    pub const fn id(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Boottime => libc::CLOCK_BOOTTIME,
            Self::Tai => libc::CLOCK_TAI,
            Self::ThreadCpu => libc::CLOCK_THREAD_CPUTIME_ID,
            Self::ProcessCpu => libc::CLOCK_PROCESS_CPUTIME_ID,
        }
    }

    /// The name in C.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monotonic => "CLOCK_MONOTONIC",
            Self::Realtime => "CLOCK_REALTIME",
            Self::Boottime => "CLOCK_BOOTTIME",
            Self::Tai => "CLOCK_TAI",
            Self::ThreadCpu => "CLOCK_THREAD_CPUTIME_ID",
            Self::ProcessCpu => "CLOCK_PROCESS_CPUTIME_ID",
        }
    }
}

/// `clock_gettime(2)`: nanoseconds on `clock`. Cannot fail for the clocks of [`Clock`] on Linux 3.10 and later.
#[inline]
#[must_use]
pub fn now_ns(clock: Clock) -> i64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    unsafe { libc::clock_gettime(clock.id(), &raw mut ts) };
    ns_of(ts)
}

/// `clock_getres(2)`: the claimed resolution of `clock` in nanoseconds.
pub fn resolution_ns(clock: Clock) -> Result<i64> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    check("clock_getres", unsafe { libc::clock_getres(clock.id(), &raw mut ts) })?;
    Ok(ns_of(ts))
}

/// Nanoseconds of a `timespec`.
#[inline]
pub(crate) const fn ns_of(ts: libc::timespec) -> i64 {
    ts.tv_sec as i64 * 1_000_000_000 + ts.tv_nsec as i64
}

/// The `timespec` of a number of nanoseconds; negative numbers become zero, since no call takes them.
#[inline]
pub(crate) const fn timespec_of(ns: i64) -> libc::timespec {
    let ns = if ns < 0 { 0 } else { ns };
    libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_never_goes_back() {
        let mut last = now_ns(Clock::Monotonic);
        for _ in 0..100_000 {
            let now = now_ns(Clock::Monotonic);
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn timespec_round_trip() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, 123_456_789_012_345] {
            assert_eq!(ns_of(timespec_of(ns)), ns);
        }
        assert_eq!(ns_of(timespec_of(-5)), 0);
    }
}

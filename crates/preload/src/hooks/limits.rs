//! How long a call may wait, as its arguments say.

use libc::{c_int, clockid_t, timespec, timeval};

use crate::memory;
use crate::next::{length_ns, now_ns, now_of};
use crate::observe::Limit;

/// A length. One that cannot be read or is invalid asks for nothing, and the call fails.
pub(super) fn length(time: *const timespec) -> Limit {
    Limit::For(memory::read(time).as_ref().and_then(length_ns).unwrap_or(0))
}

/// The limit of a call that looks if it is zero, and waits without end if there is none.
pub(super) fn limit(time: *const timespec) -> Limit {
    limit_of(memory::read(time).as_ref().map(length_ns))
}

/// The same of a timespec that the C library reads itself.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn limit_given(time: *const timespec) -> Limit {
    // SAFETY: the caller gave null or a timespec.
    limit_of(unsafe { time.as_ref() }.map(length_ns))
}

/// The same of a timespec that the kernel reads. A bad one is its to refuse.
pub(super) fn limit_for_kernel(time: *const timespec) -> Limit {
    match memory::read(time) {
        None if !time.is_null() => Limit::Look,
        time => limit_of(time.as_ref().map(length_ns)),
    }
}

/// The limit of this length, if there is one. An invalid length is left to the C library, as a look is.
pub(super) fn limit_of(length_ns: Option<Option<i64>>) -> Limit {
    match length_ns {
        None => Limit::Endless,
        Some(Some(ns)) if ns > 0 => Limit::For(ns),
        Some(_) => Limit::Look,
    }
}

pub(super) fn limit_of_timeval(time: *const timeval) -> Limit {
    limit_of((!time.is_null()).then(|| memory::read(time).as_ref().and_then(length_of)))
}

/// The length of a valid timeval.
pub(super) fn length_of(time: &timeval) -> Option<i64> {
    let nsec = (time.tv_usec as i64).checked_mul(1_000).filter(|nsec| *nsec >= 0).unwrap_or(-1);
    length_ns(&timespec { tv_sec: time.tv_sec, tv_nsec: nsec as _ })
}

pub(super) fn limit_of_ms(ms: c_int) -> Limit {
    match ms {
        0 => Limit::Look,
        ms if ms < 0 => Limit::Endless,
        ms => Limit::For(i64::from(ms) * 1_000_000),
    }
}

/// The limit of a wait until this time of this clock. It is not known of a clock that is set meanwhile.
pub(super) fn until(clock: clockid_t, time: *const timespec) -> Limit {
    let Some(deadline_ns) = memory::read(time).as_ref().and_then(length_ns) else { return Limit::Endless };
    match clock {
        libc::CLOCK_MONOTONIC => Limit::Until(deadline_ns),
        libc::CLOCK_REALTIME | libc::CLOCK_TAI | libc::CLOCK_BOOTTIME => {
            Limit::Until(now_ns().saturating_add(deadline_ns.saturating_sub(now_of(clock))))
        }
        // CPU time, another clock, or none: the C library says so.
        _ => Limit::Endless,
    }
}

/// The limit of a wait for a condition. The condition holds the clock: it is the one that is nearer to the time. They are decades apart.
pub(super) fn until_some(time: *const timespec) -> Limit {
    let deadline_ns = memory::read(time).as_ref().and_then(length_ns).unwrap_or(0);
    let clocks = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME];
    let [monotonic, realtime] = clocks.map(|clock| now_of(clock).abs_diff(deadline_ns));
    until(clocks[usize::from(realtime < monotonic)], time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(sec: i64, nsec: i64) -> timespec {
        timespec { tv_sec: sec as _, tv_nsec: nsec as _ }
    }

    #[test]
    fn a_limit_is_a_look_a_length_or_no_end() {
        let limit_at = |time: timespec| limit(&raw const time);
        assert_eq!((limit_at(time(1, 5)), limit_at(time(0, 1))), (Limit::For(1_000_000_005), Limit::For(1)));
        assert_eq!((limit_at(time(0, 0)), limit_at(time(0, -1))), (Limit::Look, Limit::Look));
        assert_eq!(limit(std::ptr::null()), Limit::Endless);
        let in_us = |sec: i64, us: i64| limit_of_timeval(&timeval { tv_sec: sec as _, tv_usec: us as _ });
        assert_eq!((in_us(1, 5), in_us(0, 1)), (Limit::For(1_000_005_000), Limit::For(1_000)));
        assert_eq!((in_us(0, 0), in_us(-1, 0)), (Limit::Look, Limit::Look));
        assert_eq!(limit_of_timeval(std::ptr::null()), Limit::Endless);
        assert_eq!([-1, 0, 3].map(limit_of_ms), [Limit::Endless, Limit::Look, Limit::For(3_000_000)]);
        assert_eq!((length(&time(2, 5)), length(&time(-1, 0))), (Limit::For(2_000_000_005), Limit::For(0)));
    }

    #[test]
    fn only_a_valid_timeval_has_a_length() {
        let in_us = |sec: i64, us: i64| length_of(&timeval { tv_sec: sec as _, tv_usec: us as _ });
        assert_eq!((in_us(1, 5), in_us(0, 0), in_us(0, 999_999)), (Some(1_000_005_000), Some(0), Some(999_999_000)));
        assert_eq!((in_us(0, -1), in_us(0, 1_000_000), in_us(-1, 0)), (None, None, None));
    }
}

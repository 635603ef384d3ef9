//! Times in ns, on CLOCK_MONOTONIC where no other clock is named.

/// The largest time that a wait may reach: beyond it, arithmetic would wrap.
const FURTHEST_NS: i64 = i64::MAX / 2;

pub(crate) fn now_ns() -> i64 {
    now_of(libc::CLOCK_MONOTONIC)
}

/// The time on this clock.
#[inline]
pub(crate) fn now_of(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; the vDSO does it without a system call.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

/// The length of a valid timespec, at most some 146 years.
pub(crate) fn length_ns(time: &libc::timespec) -> Option<i64> {
    if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
        return None;
    }
    Some((time.tv_sec as i64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as i64).min(FURTHEST_NS))
}

/// A time as a timespec; zero at least.
pub(crate) fn timespec(ns: i64) -> libc::timespec {
    let ns = ns.max(0);
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// The clock itself: its last reading ends a wait, so a wait is never early.
pub(crate) fn spin_until(deadline_ns: i64) {
    while now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_length_goes_both_ways(sec in 0..1_000_000_000_i64, nsec in 0..1_000_000_000_i64) {
            let time = libc::timespec { tv_sec: sec as _, tv_nsec: nsec as _ };
            let back = timespec(length_ns(&time).unwrap());
            proptest::prop_assert_eq!((back.tv_sec, back.tv_nsec), (time.tv_sec, time.tv_nsec));
        }
    }

    #[test]
    fn invalid_lengths_are_left_to_the_kernel() {
        for (tv_sec, tv_nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(length_ns(&libc::timespec { tv_sec, tv_nsec }), None);
        }
        assert_eq!(length_ns(&libc::timespec { tv_sec: libc::time_t::MAX, tv_nsec: 0 }), Some(FURTHEST_NS));
        assert_eq!(timespec(-5).tv_nsec, 0);
    }
}

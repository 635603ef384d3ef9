//! The sleeping calls.

use std::time::Duration;

use punctual_linux::clock::Clock;
use punctual_linux::sleep;
use punctual_linux::timed::Ended;

use super::waiters::{UNCUTTABLE_NS, absolute, relative, relative_up_to};
use crate::ways::wait::{Kind, Method, Unit, units_up};

/// C libraries differ in the system call of their sleeping functions.
const NANOSLEEP: &[&str] = &["nanosleep", "clock_nanosleep", "clock_nanosleep_time64"];
const CLOCK_NANOSLEEP: &[&str] = &["clock_nanosleep", "clock_nanosleep_time64"];

/// Far below the maximum of `usleep` (4294 s), and far above any measured wait.
const USLEEP_LONGEST_NS: i64 = 1_000_000_000_000;

const RELATIVE: Method = Method { system_calls: CLOCK_NANOSLEEP, ..Method::unnamed(Kind::Sleep) };

const ABSOLUTE: Method = Method { absolute: true, ..RELATIVE };

pub(super) static METHODS: &[Method] = &[
    Method {
        name: "sleep",
        about: "whole seconds: the oldest call, for waits that a person notices",
        call: "sleep(seconds)",
        system_calls: NANOSLEEP,
        unit: Unit::Second,
        open: || relative_up_to(USLEEP_LONGEST_NS, |ns| sleep::sleep(units_up(ns, 1_000_000_000) as u32)),
        ..RELATIVE
    },
    Method {
        name: "usleep",
        about: "microseconds: withdrawn from POSIX in 2008, still everywhere",
        call: "usleep(microseconds)",
        system_calls: NANOSLEEP,
        unit: Unit::Microsecond,
        open: || relative_up_to(USLEEP_LONGEST_NS, |ns| sleep::usleep(units_up(ns, 1_000) as u32)),
        ..RELATIVE
    },
    Method {
        name: "nanosleep",
        about: "nanoseconds, for a duration",
        call: "nanosleep(&duration, &remaining)",
        system_calls: NANOSLEEP,
        open: || relative(sleep::nanosleep),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep",
        about: "a duration on the monotonic clock",
        call: "clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL)",
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Monotonic, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_realtime",
        about: "a duration, named on the wall clock: setting the clock does not change it",
        call: "clock_nanosleep(CLOCK_REALTIME, 0, &duration, NULL)",
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Realtime, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_boottime",
        about: "a duration that goes on while the machine is suspended",
        call: "clock_nanosleep(CLOCK_BOOTTIME, 0, &duration, NULL)",
        needs: "Linux 2.6.39",
        clock: Clock::Boottime,
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Boottime, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_tai",
        about: "a duration on international atomic time",
        call: "clock_nanosleep(CLOCK_TAI, 0, &duration, NULL)",
        needs: "Linux 3.10",
        clock: Clock::Tai,
        open: || relative(|ns| sleep::clock_nanosleep(Clock::Tai, ns)),
        ..RELATIVE
    },
    Method {
        name: "clock_nanosleep_abs",
        about: "until a deadline on the monotonic clock: what periodic work should use",
        call: "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL)",
        relative: "clock_nanosleep",
        open: || absolute(Clock::Monotonic, |at| sleep::clock_nanosleep_until(Clock::Monotonic, at)),
        ..ABSOLUTE
    },
    Method {
        name: "clock_nanosleep_abs_realtime",
        about: "until a time of day; follows the clock when it is set",
        call: "clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &deadline, NULL)",
        clock: Clock::Realtime,
        open: || absolute(Clock::Realtime, |at| sleep::clock_nanosleep_until(Clock::Realtime, at)),
        ..ABSOLUTE
    },
    Method {
        name: "clock_nanosleep_abs_boottime",
        about: "until a deadline on the clock that goes on in suspend",
        call: "clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &deadline, NULL)",
        needs: "Linux 2.6.39",
        clock: Clock::Boottime,
        open: || absolute(Clock::Boottime, |at| sleep::clock_nanosleep_until(Clock::Boottime, at)),
        ..ABSOLUTE
    },
    Method {
        name: "clock_nanosleep_abs_tai",
        about: "until a time of international atomic time, as PTP networks use it",
        call: "clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &deadline, NULL)",
        needs: "Linux 3.10",
        clock: Clock::Tai,
        open: || absolute(Clock::Tai, |at| sleep::clock_nanosleep_until(Clock::Tai, at)),
        ..ABSOLUTE
    },
    Method {
        name: "thread_sleep",
        about: "what Rust programs call; hides signals",
        call: "std::thread::sleep(duration)",
        system_calls: NANOSLEEP,
        open: || {
            relative_up_to(UNCUTTABLE_NS, |ns| {
                std::thread::sleep(Duration::from_nanos(ns.max(0).unsigned_abs()));
                Ok(Ended::TimeUp)
            })
        },
        ..RELATIVE
    },
];

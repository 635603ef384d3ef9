//! The C library's own `sched_yield` and `clock_nanosleep`.
//!
//! Another library that is loaded into the program may replace them (`punctual run --sched-yield`, `--precise-sleep`). That is meant for
//! the program's calls: a rank that waits has to give up the CPU.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::symbol::within;

/// As sched_yield(2).
pub(crate) fn sched_yield() {
    static FOUND: OnceLock<extern "C" fn() -> c_int> = OnceLock::new();
    // SAFETY: the C library's function has this type.
    FOUND.get_or_init(|| found(c"sched_yield").map_or(yield_of_libc, |f| unsafe { std::mem::transmute(f) }))();
}

/// Sleeps for a time of CLOCK_MONOTONIC, or until a signal.
pub(crate) fn sleep(time: &libc::timespec) {
    type Sleep = unsafe extern "C" fn(libc::clockid_t, c_int, *const libc::timespec, *mut libc::timespec) -> c_int;
    static FOUND: OnceLock<Sleep> = OnceLock::new();
    // SAFETY: the C library's function has this type.
    let sleep = FOUND
        .get_or_init(|| found(c"clock_nanosleep").map_or(libc::clock_nanosleep, |f| unsafe { std::mem::transmute(f) }));
    // SAFETY: `time` is valid, and the rest of an interrupted sleep is not asked for.
    unsafe { sleep(libc::CLOCK_MONOTONIC, 0, time, std::ptr::null_mut()) };
}

extern "C" fn yield_of_libc() -> c_int {
    // SAFETY: sched_yield(2) has no preconditions.
    unsafe { libc::sched_yield() }
}

/// `None` where the C library has another name (musl).
fn found(name: &CStr) -> Option<*mut c_void> {
    within(c"libc.so.6", name.as_ptr())
}

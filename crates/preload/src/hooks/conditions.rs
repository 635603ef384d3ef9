//! `pthread_cond_timedwait`, `pthread_cond_clockwait`, `cnd_timedwait`: the C library's own.
//!
//! A condition variable cannot be tried. Between two short waits, a signal of a thread without the mutex would reach nobody. So their
//! timeouts end on time as far as the slack goes, which is 1 ns where sleeps are precise.

use std::ffi::c_void;

use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, timespec};

use crate::caller::Caller;
use crate::next;

/// As pthread_cond_timedwait(3), in the version since glibc 2.3.2. A library of Rust has one version script, which names no versions. So
/// programs of before 2003 find this one too.
///
/// # Safety
/// As pthread_cond_timedwait(3).
pub(crate) unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    limit: *const timespec,
    _: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { next::pthread_cond_timedwait(condition, mutex, limit) }
}

/// As pthread_cond_clockwait(3).
///
/// # Safety
/// As pthread_cond_clockwait(3).
pub(crate) unsafe extern "C-unwind" fn pthread_cond_clockwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    limit: *const timespec,
    _: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { next::pthread_cond_clockwait(condition, mutex, clock, limit) }
}

/// As cnd_timedwait(3).
///
/// # Safety
/// As cnd_timedwait(3).
pub(crate) unsafe extern "C-unwind" fn cnd_timedwait(
    condition: *mut c_void,
    mutex: *mut c_void,
    limit: *const timespec,
    _: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { next::cnd_timedwait(condition, mutex, limit) }
}

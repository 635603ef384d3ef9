//! `pthread_mutex_timedlock`, `pthread_mutex_clocklock`, `mtx_timedlock`.

use std::ffi::c_void;

use libc::{c_int, clockid_t, pthread_mutex_t, timespec};

use super::taking::{Take, wait_until};
use crate::caller::Caller;
use crate::next;

struct Mutex {
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
}

impl Take for Mutex {
    fn take(&self) -> Option<c_int> {
        // SAFETY: the mutex of the caller.
        let error = unsafe { next::pthread_mutex_trylock(self.mutex) };
        (error != libc::EBUSY).then_some(error)
    }

    fn block(&self, limit: &timespec) -> c_int {
        // SAFETY: the mutex of the caller.
        unsafe { kept(self.mutex, self.clock, limit) }
    }
}

/// The C library's. `pthread_mutex_clocklock` is younger.
unsafe fn kept(mutex: *mut pthread_mutex_t, clock: clockid_t, limit: *const timespec) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        match clock {
            libc::CLOCK_REALTIME => next::pthread_mutex_timedlock(mutex, limit),
            _ => next::pthread_mutex_clocklock(mutex, clock, limit),
        }
    }
}

/// As pthread_mutex_timedlock(3).
///
/// # Safety
/// As pthread_mutex_timedlock(3).
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_timedlock(
    mutex: *mut pthread_mutex_t,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, limit, caller) }
}

/// As pthread_mutex_clocklock(3).
///
/// # Safety
/// As pthread_mutex_clocklock(3).
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { wait_until(caller, clock, limit, &Mutex { mutex, clock }).unwrap_or_else(|| kept(mutex, clock, limit)) }
}

/// Results of C11 (threads.h).
const THRD_SUCCESS: c_int = 0;
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_TIMEDOUT: c_int = 4;

/// A mutex of C11. Its results are no error numbers: they stay as they are, but for a timeout.
struct Mtx(*mut c_void);

impl Take for Mtx {
    fn take(&self) -> Option<c_int> {
        // SAFETY: the mutex of the caller.
        let done = unsafe { next::mtx_trylock(self.0) };
        (done != THRD_BUSY).then_some(done)
    }

    fn block(&self, limit: &timespec) -> c_int {
        // SAFETY: the mutex of the caller.
        match unsafe { next::mtx_timedlock(self.0, limit) } {
            THRD_TIMEDOUT => libc::ETIMEDOUT,
            done => done,
        }
    }
}

/// As mtx_timedlock(3).
///
/// # Safety
/// As mtx_timedlock(3).
pub(crate) unsafe extern "C-unwind" fn mtx_timedlock(
    mutex: *mut c_void,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    match unsafe { wait_until(caller, libc::CLOCK_REALTIME, limit, &Mtx(mutex)) } {
        // SAFETY: the arguments of the caller.
        None => unsafe { next::mtx_timedlock(mutex, limit) },
        Some(libc::ETIMEDOUT) => THRD_TIMEDOUT,
        Some(THRD_SUCCESS) => THRD_SUCCESS,
        Some(_) => THRD_ERROR,
    }
}

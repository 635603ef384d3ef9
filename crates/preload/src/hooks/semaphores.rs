//! `sem_timedwait`, `sem_clockwait`. A post is never lost: it stays in the semaphore.

use libc::{c_int, clockid_t, sem_t, timespec};

use super::taking::{Take, wait_until};
use crate::caller::Caller;
use crate::next;

struct Semaphore {
    semaphore: *mut sem_t,
    clock: clockid_t,
}

impl Take for Semaphore {
    fn take(&self) -> Option<c_int> {
        // SAFETY: the semaphore of the caller.
        let error = if unsafe { next::sem_trywait(self.semaphore) } == 0 { 0 } else { next::errno() };
        (error != libc::EAGAIN).then_some(error)
    }

    fn block(&self, limit: &timespec) -> c_int {
        // SAFETY: the semaphore of the caller.
        let done = unsafe { kept(self.semaphore, self.clock, limit) };
        if done == 0 { 0 } else { next::errno() }
    }
}

/// The C library's. `sem_clockwait` is younger.
unsafe fn kept(semaphore: *mut sem_t, clock: clockid_t, limit: *const timespec) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        match clock {
            libc::CLOCK_REALTIME => next::sem_timedwait(semaphore, limit),
            _ => next::sem_clockwait(semaphore, clock, limit),
        }
    }
}

/// As sem_timedwait(3).
///
/// # Safety
/// As sem_timedwait(3).
pub(crate) unsafe extern "C-unwind" fn sem_timedwait(
    semaphore: *mut sem_t,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    unsafe { sem_clockwait(semaphore, libc::CLOCK_REALTIME, limit, caller) }
}

/// As sem_clockwait(3).
///
/// # Safety
/// As sem_clockwait(3).
pub(crate) unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: takes nothing. The tries below are no cancellation points.
    unsafe { next::pthread_testcancel() };
    // SAFETY: the arguments of the caller.
    match unsafe { wait_until(caller, clock, limit, &Semaphore { semaphore, clock }) } {
        // SAFETY: the arguments of the caller.
        None => unsafe { kept(semaphore, clock, limit) },
        Some(0) => 0,
        Some(error) => {
            next::set_errno(error);
            -1
        }
    }
}

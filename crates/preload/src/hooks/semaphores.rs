//! `sem_timedwait`, `sem_clockwait`. A post is never lost: it stays in the semaphore.

use libc::{c_int, clockid_t, sem_t, timespec};

use super::taking::{Take, concerned, wait_until};
use crate::callers::Caller;
use crate::now::length_ns;
use crate::{next, settings};

struct Semaphore {
    semaphore: *mut sem_t,
    /// None for `sem_timedwait`.
    clock: Option<clockid_t>,
}

impl Take for Semaphore {
    const TIMED_OUT: c_int = TIMED_OUT;
    const INTERRUPTED: Option<c_int> = Some(INTERRUPTED);

    fn take(&self) -> Option<c_int> {
        // SAFETY: the semaphore of the caller.
        (unsafe { next::sem_trywait(self.semaphore) } == 0).then_some(0)
    }

    fn block(&self, limit: &timespec) -> c_int {
        // SAFETY: the semaphore of the caller.
        let done = unsafe { kept(self.semaphore, self.clock, limit) };
        if done == -1 && next::errno() == libc::ETIMEDOUT { TIMED_OUT } else { done }
    }
}

/// Not results of the C library, which reports them by errno.
const TIMED_OUT: c_int = 1;
const INTERRUPTED: c_int = 2;

/// The function that the program calls: at CLOCK_REALTIME they differ for a cancelled thread.
unsafe fn kept(semaphore: *mut sem_t, clock: Option<clockid_t>, limit: *const timespec) -> c_int {
    // SAFETY: as the caller says.
    unsafe {
        match clock {
            None => next::sem_timedwait(semaphore, limit),
            Some(clock) => next::sem_clockwait(semaphore, clock, limit),
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
    unsafe { wait(semaphore, None, limit, caller) }
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
    // SAFETY: the arguments of the caller.
    unsafe { wait(semaphore, Some(clock), limit, caller) }
}

unsafe fn wait(semaphore: *mut sem_t, clock: Option<clockid_t>, limit: *const timespec, caller: Caller) -> c_int {
    let settings = settings::for_caller(caller);
    // SAFETY: the arguments of the caller.
    let own = || unsafe { kept(semaphore, clock, limit) };
    let read_clock = clock.unwrap_or(libc::CLOCK_REALTIME);
    // SAFETY: glibc reads the limit first.
    if !concerned(&settings, read_clock, limit) || length_ns(unsafe { &*limit }).is_none() {
        return own();
    }
    if clock.is_none() {
        // sem_timedwait ends a cancelled thread before it takes a free semaphore; sem_clockwait takes it.
        next::end_if_cancelled();
    }
    match wait_until(&settings, read_clock, limit, &Semaphore { semaphore, clock }, own) {
        TIMED_OUT => next::failed(libc::ETIMEDOUT),
        INTERRUPTED => next::failed(libc::EINTR),
        done => done,
    }
}

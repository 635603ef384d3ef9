//! `sem_timedwait`, `sem_clockwait`; `pthread_mutex_timedlock`, `pthread_mutex_clocklock`, `mtx_timedlock`; and `pthread_cond_timedwait`, `pthread_cond_clockwait`,
//! `cnd_timedwait`, which stay the C library's own.
//!
//! A condition variable cannot be tried. Between two short waits, a signal of a thread without the mutex would reach nobody. So their
//! timeouts end on time as far as the slack goes, which is 1 ns where sleeps are precise.
//!
//! A post is never lost: it stays in the semaphore.

use std::ffi::c_void;

use libc::{c_int, clockid_t, pthread_cond_t, pthread_mutex_t, sem_t, timespec};

use super::taking::{Take, concerned, wait_until};
use crate::callers::Caller;
use crate::now::length_ns;
use crate::{next, settings};

/// A try is the same function with a time that is over. It says at once what it refuses: a lock that the thread has. A robust mutex stays
/// usable: pthread_mutex_trylock(3) of glibc 2.36 breaks one that is not recoverable. glibc makes no system call for a time before 1970.
const OVER: timespec = timespec { tv_sec: -1, tv_nsec: 0 };

struct Mutex {
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
}

impl Take for Mutex {
    const TIMED_OUT: c_int = libc::ETIMEDOUT;
    const INTERRUPTED: Option<c_int> = None;

    fn take(&self) -> Option<c_int> {
        Some(self.block(&OVER)).filter(|done| *done != libc::ETIMEDOUT)
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
    let settings = settings::for_caller(caller);
    // SAFETY: the arguments of the caller.
    let own = || unsafe { kept(mutex, clock, limit) };
    match concerned(&settings, clock, limit) {
        true => match wait_until(&settings, clock, limit, &Mutex { mutex, clock }, own) {
            // With priority inheritance the kernel waits, which refuses such a time.
            libc::EINVAL => own(),
            done => done,
        },
        false => own(),
    }
}

/// A result of C11 (threads.h).
const THRD_TIMEDOUT: c_int = 4;

/// A mutex of C11.
struct Mtx(*mut c_void);

impl Take for Mtx {
    const TIMED_OUT: c_int = THRD_TIMEDOUT;
    const INTERRUPTED: Option<c_int> = None;

    fn take(&self) -> Option<c_int> {
        Some(self.block(&OVER)).filter(|done| *done != THRD_TIMEDOUT)
    }

    fn block(&self, limit: &timespec) -> c_int {
        // SAFETY: the mutex of the caller.
        unsafe { next::mtx_timedlock(self.0, limit) }
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
    let settings = settings::for_caller(caller);
    // SAFETY: the arguments of the caller.
    let own = || unsafe { next::mtx_timedlock(mutex, limit) };
    match concerned(&settings, libc::CLOCK_REALTIME, limit) {
        true => wait_until(&settings, libc::CLOCK_REALTIME, limit, &Mtx(mutex), own),
        false => own(),
    }
}

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
        let done = unsafe { semaphore_kept(self.semaphore, self.clock, limit) };
        if done == -1 && next::errno() == libc::ETIMEDOUT { TIMED_OUT } else { done }
    }
}

/// Not results of the C library, which reports them by errno.
const TIMED_OUT: c_int = 1;
const INTERRUPTED: c_int = 2;

/// The function that the program calls: at CLOCK_REALTIME they differ for a cancelled thread.
unsafe fn semaphore_kept(semaphore: *mut sem_t, clock: Option<clockid_t>, limit: *const timespec) -> c_int {
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
    let own = || unsafe { semaphore_kept(semaphore, clock, limit) };
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

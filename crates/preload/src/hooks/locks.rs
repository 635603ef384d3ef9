//! `sem_timedwait`, `sem_clockwait`; `pthread_mutex_timedlock`, `pthread_mutex_clocklock`, `mtx_timedlock`.
//!
//! A post is never lost: it stays in the semaphore.
//!
//! `syscall`: programs that make their waits by number, as Rust's standard library does.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_long, c_uint, clockid_t, pthread_mutex_t, sem_t, timespec};

use super::looking::{Take, concerned, wait_until};
use crate::callers::Caller;
use crate::next::{length_ns, now_ns, now_of, timespec as timespec_of};
use crate::polling::{Polled, Waiter, poll_until};
use crate::{memory, next, settings};

/// A try is the same function with a time that is over. It says at once what it refuses: a lock that the thread has. A robust mutex stays
/// usable: pthread_mutex_trylock(3) of glibc 2.36 breaks one that is not recoverable. glibc makes no system call for a time before 1970.
const OVER: timespec = timespec { tv_sec: -1, tv_nsec: 0 };

/// A mutex, by the C library's function that waits for it until a time, and the result of that function for a time that is over.
struct Mutex<const TIMED_OUT: c_int, Lock>(Lock);

impl<const TIMED_OUT: c_int, Lock: Fn(*const timespec) -> c_int> Take for Mutex<TIMED_OUT, Lock> {
    const TIMED_OUT: c_int = TIMED_OUT;
    const INTERRUPTED: Option<c_int> = None;

    fn take(&self) -> Option<c_int> {
        Some(self.block(&OVER)).filter(|done| *done != TIMED_OUT)
    }

    fn block(&self, limit: &timespec) -> c_int {
        (self.0)(limit)
    }
}

/// Takes a mutex until this time of the clock, by the C library's function.
fn take_mutex<const TIMED_OUT: c_int>(
    clock: clockid_t,
    limit: *const timespec,
    caller: Caller,
    lock: impl Fn(*const timespec) -> c_int,
) -> c_int {
    let settings = settings::for_caller(caller);
    if !concerned(&settings, clock, limit) {
        return lock(limit);
    }
    match wait_until(&settings, clock, limit, &Mutex::<TIMED_OUT, _>(&lock), || lock(limit)) {
        // With priority inheritance the kernel waits, which refuses such a time.
        libc::EINVAL => lock(limit),
        done => done,
    }
}

/// As pthread_mutex_clocklock(3).
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn pthread_mutex(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller, or a time of this library. `pthread_mutex_clocklock` is younger.
    let lock = |limit| unsafe {
        match clock {
            libc::CLOCK_REALTIME => next::pthread_mutex_timedlock(mutex, limit),
            _ => next::pthread_mutex_clocklock(mutex, clock, limit),
        }
    };
    take_mutex::<{ libc::ETIMEDOUT }>(clock, limit, caller, lock)
}

/// As mtx_timedlock(3).
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn mtx(mutex: *mut c_void, limit: *const timespec, caller: Caller) -> c_int {
    /// A result of C11 (threads.h).
    const THRD_TIMEDOUT: c_int = 4;
    // SAFETY: the arguments of the caller, or a time of this library.
    let lock = |limit| unsafe { next::mtx_timedlock(mutex, limit) };
    take_mutex::<THRD_TIMEDOUT>(libc::CLOCK_REALTIME, limit, caller, lock)
}

/// A semaphore, by the function that the program calls: at CLOCK_REALTIME they differ for a cancelled thread.
struct Semaphore<Wait> {
    semaphore: *mut sem_t,
    wait: Wait,
}

impl<Wait: Fn(*const timespec) -> c_int> Take for Semaphore<Wait> {
    const TIMED_OUT: c_int = TIMED_OUT;
    const INTERRUPTED: Option<c_int> = Some(INTERRUPTED);

    fn take(&self) -> Option<c_int> {
        // SAFETY: the semaphore of the caller.
        (unsafe { next::sem_trywait(self.semaphore) } == 0).then_some(0)
    }

    fn block(&self, limit: &timespec) -> c_int {
        let done = (self.wait)(limit);
        if done == -1 && next::errno() == libc::ETIMEDOUT { TIMED_OUT } else { done }
    }
}

/// Not results of the C library, which reports them by errno.
const TIMED_OUT: c_int = 1;
const INTERRUPTED: c_int = 2;

/// As sem_clockwait(3), and sem_timedwait(3), which names no clock.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn semaphore(
    semaphore: *mut sem_t,
    clock: Option<clockid_t>,
    limit: *const timespec,
    caller: Caller,
) -> c_int {
    let settings = settings::for_caller(caller);
    // SAFETY: the arguments of the caller, or a time of this library.
    let wait = |limit| unsafe {
        match clock {
            None => next::sem_timedwait(semaphore, limit),
            Some(clock) => next::sem_clockwait(semaphore, clock, limit),
        }
    };
    let read_clock = clock.unwrap_or(libc::CLOCK_REALTIME);
    // SAFETY: glibc reads the limit first.
    if !concerned(&settings, read_clock, limit) || length_ns(unsafe { &*limit }).is_none() {
        return wait(limit);
    }
    if clock.is_none() {
        // sem_timedwait ends a cancelled thread before it takes a free semaphore; sem_clockwait takes it.
        next::end_if_cancelled();
    }
    match wait_until(&settings, read_clock, limit, &Semaphore { semaphore, wait }, || wait(limit)) {
        TIMED_OUT => next::failed(libc::ETIMEDOUT),
        INTERRUPTED => next::failed(libc::EINTR),
        done => done,
    }
}

/// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME say nothing of the operation.
const OPERATION: c_long = !(libc::FUTEX_PRIVATE_FLAG as c_long | libc::FUTEX_CLOCK_REALTIME as c_long);
/// Turns between two readings of the clock.
const TURNS: u32 = 32;

/// As syscall(2). With `poll-first`, `FUTEX_WAIT` looks at its word first. `nanosleep`, `clock_nanosleep`, `sched_yield` and the
/// `prctl` of a thread's name are those of this library.
///
/// # Safety
/// As syscall(2).
pub(crate) unsafe fn syscall(number: c_long, arguments: [c_long; 6], caller: Caller) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    let kept = |d: c_long| {
        // SAFETY: the arguments of the caller, or a limit of this library.
        unsafe { next::syscall(number, a, b, c, d, e, f) }
    };
    match number {
        libc::SYS_futex if waits(b) => {
            let look_ns = settings::for_caller(caller).poll_first_ns;
            let call = Wait { word: a as *const u32, operation: b, expected: c as u32, limit: d as *const timespec };
            // The kernel refuses a set of no bits, and the other clock for a length.
            let valid = if has_deadline(b) { f as u32 != 0 } else { b & c_long::from(libc::FUTEX_CLOCK_REALTIME) == 0 };
            if look_ns > 0 && valid { call.poll_first(look_ns, kept) } else { kept(d) }
        }
        libc::SYS_prctl if a == libc::PR_SET_NAME as c_long || a == libc::PR_SET_SECCOMP as c_long => {
            // SAFETY: the arguments of the caller.
            unsafe { super::thread::prctl(a as _, b as _, c as _, d as _, e as _, caller) }.into()
        }
        libc::SYS_seccomp if matches!(a as c_uint, libc::SECCOMP_SET_MODE_STRICT | libc::SECCOMP_SET_MODE_FILTER) => {
            super::thread::install_filter(|| kept(d))
        }
        libc::SYS_sched_yield => super::sleeping::sched_yield(caller).into(),
        // SAFETY: the arguments of the caller.
        libc::SYS_nanosleep => unsafe { super::sleeping::nanosleep_by_number(a as _, b as _, caller) }.into(),
        libc::SYS_clock_nanosleep => {
            // SAFETY: the arguments of the caller.
            unsafe { super::sleeping::clock_nanosleep_by_number(a as _, b as _, c as _, d as _, caller) }.into()
        }
        _ => kept(d),
    }
}

const WAIT: c_long = libc::FUTEX_WAIT as c_long;
const WAIT_BITSET: c_long = libc::FUTEX_WAIT_BITSET as c_long;

/// Whether an operation of futex(2) waits.
pub(crate) fn waits(operation: c_long) -> bool {
    matches!(operation & OPERATION, WAIT | WAIT_BITSET)
}

/// Whether its time limit is a time and not a length.
pub(crate) fn has_deadline(operation: c_long) -> bool {
    operation & OPERATION == WAIT_BITSET
}

/// The clock of its time limit.
pub(crate) fn clock_of(operation: c_long) -> clockid_t {
    match operation & c_long::from(libc::FUTEX_CLOCK_REALTIME) {
        0 => libc::CLOCK_MONOTONIC,
        _ => libc::CLOCK_REALTIME,
    }
}

/// FUTEX_WAIT of a program.
struct Wait {
    word: *const u32,
    operation: c_long,
    expected: u32,
    limit: *const timespec,
}

impl Wait {
    /// Looks at the word before it blocks. `block` gets the limit. The kernel refuses what cannot be read and what is invalid.
    fn poll_first(&self, look_ns: i64, block: impl FnOnce(c_long) -> c_long) -> c_long {
        let own = self.limit as c_long;
        let limit_ns = if self.limit.is_null() { None } else { memory::read(self.limit).as_ref().and_then(length_ns) };
        if limit_ns.is_none() && !self.limit.is_null() || !self.is_usable() || self.changed().is_some() {
            return block(own);
        }
        let (began_ns, clock) = (now_ns(), clock_of(self.operation));
        let is_over = || self.has_deadline() && limit_ns.is_some_and(|limit_ns| now_of(clock) >= limit_ns);
        let length_ns = limit_ns.filter(|_| !self.has_deadline()).unwrap_or(i64::MAX);
        let waiter = Waiter { is_cancelled: false, ..Waiter::CANCELLED };
        match poll_until(began_ns.saturating_add(look_ns.min(length_ns)), waiter, is_over, || self.changed()) {
            // As if it had blocked, and was woken.
            Polled::Found(()) => 0,
            Polled::Interrupted => next::failed(libc::EINTR),
            Polled::Over if length_ns == i64::MAX => block(own),
            Polled::Over => {
                let rest = timespec_of(length_ns - (now_ns() - began_ns));
                block(&raw const rest as c_long)
            }
        }
    }

    /// Whether the kernel waits for this word.
    fn is_usable(&self) -> bool {
        let errno = next::errno();
        let usable = memory::is_word(self.word as usize, self.operation & c_long::from(libc::FUTEX_PRIVATE_FLAG));
        next::set_errno(errno);
        usable
    }

    fn changed(&self) -> Option<()> {
        // SAFETY: the caller's word, which is readable and aligned, and lives as long as the call.
        let word = unsafe { AtomicU32::from_ptr(self.word.cast_mut()) };
        let changes = |_| {
            std::hint::spin_loop();
            word.load(Ordering::Relaxed) != self.expected
        };
        (0..TURNS).any(changes).then_some(())
    }

    fn has_deadline(&self) -> bool {
        has_deadline(self.operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_changes_ends_the_look() {
        let word = AtomicU32::new(1);
        let look = |expected, look_ns| {
            let operation = libc::FUTEX_WAIT.into();
            let call = Wait { word: word.as_ptr(), operation, expected, limit: std::ptr::null() };
            let done = call.poll_first(look_ns, |_| 7);
            if done == -1 { next::errno().into() } else { done }
        };
        assert_eq!(look(2, 1_000_000), 7, "the kernel says that it differs");
        assert_eq!(look(1, 1_000), 7, "it blocks");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                word.store(5, Ordering::Relaxed);
            });
            assert_eq!(look(1, 60_000_000_000), 0, "as if it was woken");
        });
    }

    #[test]
    fn an_operation_has_a_clock_and_may_have_a_deadline() {
        let (wait, bitset) = (c_long::from(libc::FUTEX_WAIT), c_long::from(libc::FUTEX_WAIT_BITSET));
        let (private, realtime) = (c_long::from(libc::FUTEX_PRIVATE_FLAG), c_long::from(libc::FUTEX_CLOCK_REALTIME));
        for (operation, has_limit_at, clock) in [
            (wait, false, libc::CLOCK_MONOTONIC),
            (bitset, true, libc::CLOCK_MONOTONIC),
            (bitset | private, true, libc::CLOCK_MONOTONIC),
            (bitset | realtime, true, libc::CLOCK_REALTIME),
            (bitset | realtime | private, true, libc::CLOCK_REALTIME),
        ] {
            assert_eq!((has_deadline(operation), clock_of(operation)), (has_limit_at, clock), "{operation}");
            assert!(waits(operation));
        }
        assert!(!waits(libc::FUTEX_WAKE.into()) && !waits(c_long::from(libc::FUTEX_WAKE) | private));
    }

    #[test]
    fn a_look_takes_from_the_limit() {
        let word = AtomicU32::new(1);
        let limit = timespec_of(1_000_000);
        let call =
            Wait { word: word.as_ptr(), operation: libc::FUTEX_WAIT.into(), expected: 1, limit: &raw const limit };
        // SAFETY: the limit of the call above.
        let left = |limit: c_long| length_ns(unsafe { &*(limit as *const timespec) }).unwrap();
        let began_ns = now_ns();
        assert_eq!(call.poll_first(60_000_000_000, left), 0);
        assert!(now_ns() - began_ns >= 1_000_000, "never early");
        assert!(call.poll_first(1_000, left) < 1_000_000);
        let bad = Wait { word: std::ptr::without_provenance(8), ..call };
        assert_eq!(bad.poll_first(1_000_000, |given| given), &raw const limit as c_long, "left to the kernel");
    }
}

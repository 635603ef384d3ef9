//! `syscall`: programs that make their waits by number, as Rust's standard library does.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_long, c_uint, timespec};

use crate::callers::Caller;
use crate::now::{length_ns, now_ns, now_of, timespec as timespec_of};
use crate::polling::{Polled, Waiter, poll_until};
use crate::{memory, next, settings};

/// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME say nothing of the operation.
const OPERATION: c_long = !(libc::FUTEX_PRIVATE_FLAG as c_long | libc::FUTEX_CLOCK_REALTIME as c_long);
/// Turns between two readings of the clock.
const TURNS: u32 = 32;

/// As syscall(2). With `poll-first`, `FUTEX_WAIT` looks at its word first. `nanosleep`, `clock_nanosleep`, `sched_yield` and the
/// `prctl` of a thread's name are those of this library.
///
/// # Safety
/// As syscall(2).
pub(crate) unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
    caller: Caller,
) -> c_long {
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
        let (began_ns, clock) = (now_ns(), self.clock());
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

    /// Whether the kernel waits for this word: it compares it with a number that a word seldom has, and waits for no time.
    fn is_usable(&self) -> bool {
        const SELDOM: c_long = 0x2d7a_91c3;
        let (errno, no_time) = (next::errno(), timespec { tv_sec: 0, tv_nsec: 0 });
        let operation = WAIT | self.operation & c_long::from(libc::FUTEX_PRIVATE_FLAG);
        // SAFETY: reads a word, or reports that it cannot.
        unsafe {
            next::syscall(libc::SYS_futex, self.word as c_long, operation, SELDOM, &raw const no_time as _, 0, 0);
        }
        let usable = matches!(next::errno(), libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR);
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

    fn clock(&self) -> libc::clockid_t {
        match self.operation & c_long::from(libc::FUTEX_CLOCK_REALTIME) {
            0 => libc::CLOCK_MONOTONIC,
            _ => libc::CLOCK_REALTIME,
        }
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
            let call = Wait { word: std::ptr::null(), operation, expected: 0, limit: std::ptr::null() };
            assert_eq!((call.has_deadline(), call.clock()), (has_limit_at, clock), "{operation}");
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

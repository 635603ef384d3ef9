//! `syscall`: programs that make their waits by number, as Rust's standard library does.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_long, timespec};

use crate::caller::Caller;
use crate::now::now_ns;
use crate::{next, settings};

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
    match number {
        libc::SYS_futex if waits(b) => {
            let look_ns = settings::of(caller).poll_first_ns;
            // SAFETY: a program that waits on a futex gives the address of its word.
            if look_ns > 0 && unsafe { changes(a as *const AtomicU32, c as u32, look_ns) } {
                next::set_errno(libc::EAGAIN);
                return -1;
            }
        }
        libc::SYS_prctl if a == libc::PR_SET_NAME as c_long => {
            // SAFETY: the arguments of the caller.
            return unsafe { super::naming::prctl(a as _, b as _, c as _, d as _, e as _, caller) }.into();
        }
        libc::SYS_sched_yield => return c_long::from(super::yielding::sched_yield(caller)),
        libc::SYS_nanosleep => {
            // SAFETY: the arguments of the caller.
            let done = unsafe { super::sleeping::nanosleep(a as *const timespec, b as *mut timespec, caller) };
            return done.into();
        }
        libc::SYS_clock_nanosleep => {
            // SAFETY: the arguments of the caller.
            let error = unsafe {
                super::sleeping::clock_nanosleep(a as _, b as _, c as *const timespec, d as *mut timespec, caller)
            };
            if error == 0 {
                return 0;
            }
            next::set_errno(error);
            return -1;
        }
        _ => {}
    }
    // SAFETY: the arguments of the caller.
    unsafe { next::syscall(number, a, b, c, d, e, f) }
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

/// Whether the word is, or becomes, another than `expected` within this time.
///
/// # Safety
/// `word` is null, or the address of a futex.
unsafe fn changes(word: *const AtomicU32, expected: u32, look_ns: i64) -> bool {
    // The kernel reports a bad address; this must not read it.
    if word.is_null() || !word.is_aligned() {
        return false;
    }
    // SAFETY: the caller's word, which lives as long as the call.
    let word = unsafe { &*word };
    let until = now_ns() + look_ns;
    loop {
        for _ in 0..TURNS {
            if word.load(Ordering::Relaxed) != expected {
                return true;
            }
            std::hint::spin_loop();
        }
        if now_ns() >= until {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_changes_ends_the_look() {
        let word = AtomicU32::new(1);
        // SAFETY: the word is this test's own.
        let look = |expected, ns| unsafe { changes(&raw const word, expected, ns) };
        assert!(look(2, 1));
        assert!(!look(1, 1_000));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                word.store(5, Ordering::Relaxed);
            });
            assert!(look(1, 60_000_000_000));
        });
        // SAFETY: null is allowed.
        assert!(!unsafe { changes(std::ptr::null(), 0, 1) });
    }
}

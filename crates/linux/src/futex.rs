//! Sleeps on a word of memory and wakes its sleepers: `futex(2)`.
//!
//! The word is an [`AtomicU32`]; between processes it lies in shared memory, with [`Scope::Shared`]. Deadlines are absolute, on
//! CLOCK_MONOTONIC. A wait makes exactly one system call. Spurious wake-ups are possible: the caller checks its condition again.

use std::ptr::null;
use std::sync::atomic::AtomicU32;

use crate::clock::KernelTimespec;
use crate::sleep::last_errno;
use crate::{Error, Result};

/// The users of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Threads of this process only (`FUTEX_PRIVATE_FLAG`), which spares the kernel a page lookup.
    Private,
    /// Other processes too, through shared memory.
    Shared,
}

/// The call with a 64-bit timespec: the only one on 64-bit CPUs, Linux 5.1 on 32-bit ones.
#[cfg(target_pointer_width = "64")]
const NUMBER: libc::c_long = libc::SYS_futex;
/// futex_time64 has one number on all 32-bit architectures (include/uapi/asm-generic/unistd.h); libc does not name it on each of them.
#[cfg(not(target_pointer_width = "64"))]
const NUMBER: libc::c_long = 422;

/// `futex(2)`, `FUTEX_WAIT_BITSET`: sleeps while `word` holds `expected`, until woken or until `deadline_ns` on
/// CLOCK_MONOTONIC, or until a signal handler ran. `None`: no deadline. Zero or below: in the past. Returns whether it was woken, or
/// woke spuriously.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, scope: Scope, deadline_ns: Option<i64>) -> Result<bool> {
    let deadline = deadline_ns.map(KernelTimespec::of);
    // Without FUTEX_CLOCK_REALTIME the absolute time is on CLOCK_MONOTONIC.
    let operation = libc::FUTEX_WAIT_BITSET | flag(scope);
    // SAFETY: `word` is a live, aligned 32-bit word and is only read atomically. The timespec is null or valid for the call.
    let returned = unsafe {
        libc::syscall(
            NUMBER,
            word.as_ptr(),
            operation,
            expected,
            deadline.as_ref().map_or(null(), std::ptr::from_ref),
            null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    match if returned == 0 { 0 } else { last_errno() } {
        0 => Ok(true),
        // The word did not hold the expected value, the deadline passed, or a signal handler ran.
        libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR => Ok(false),
        errno => Err(Error::from_errno("futex(FUTEX_WAIT_BITSET)", errno)),
    }
}

/// The bare call without a deadline, for measurements: its result is ignored. It waits if the word still has that value.
#[inline]
pub fn wait_whatever_comes(word: &AtomicU32, expected: u32, scope: Scope) {
    let operation = libc::FUTEX_WAIT_BITSET | flag(scope);
    let (never, unused) = (null::<KernelTimespec>(), null::<u32>());
    // SAFETY: `word` is a live, aligned 32-bit word and is only read atomically; there is no timespec.
    unsafe {
        libc::syscall(NUMBER, word.as_ptr(), operation, expected, never, unused, libc::FUTEX_BITSET_MATCH_ANY);
    }
}

/// `futex(2)`, `FUTEX_WAKE`: wakes at most `most` sleepers on `word`. Returns their number.
#[inline]
pub fn wake(word: &AtomicU32, most: u32, scope: Scope) -> Result<u32> {
    let most = libc::c_int::try_from(most).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel uses the address of `word` as a name; nothing is read or written.
    let returned = unsafe { libc::syscall(NUMBER, word.as_ptr(), libc::FUTEX_WAKE | flag(scope), most) };
    if returned < 0 { Err(Error::last("futex(FUTEX_WAKE)")) } else { Ok(returned as u32) }
}

const fn flag(scope: Scope) -> libc::c_int {
    match scope {
        Scope::Private => libc::FUTEX_PRIVATE_FLAG,
        Scope::Shared => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, now_ns};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_changed_word_is_not_waited_for() {
        let word = AtomicU32::new(7);
        for scope in [Scope::Private, Scope::Shared] {
            assert!(!wait(&word, 8, scope, None).unwrap());
        }
    }

    #[test]
    fn deadlines_are_kept_and_never_early() {
        let word = AtomicU32::new(7);
        for scope in [Scope::Private, Scope::Shared] {
            let deadline = now_ns(Clock::Monotonic) + 2_000_000;
            assert!(!wait(&word, 7, scope, Some(deadline)).unwrap());
            assert!(now_ns(Clock::Monotonic) >= deadline);
            assert!(!wait(&word, 7, scope, Some(-1)).unwrap());
        }
    }

    #[test]
    fn a_sleeper_is_woken() {
        for scope in [Scope::Private, Scope::Shared] {
            let word = Arc::new(AtomicU32::new(0));
            let sleeper = std::thread::spawn({
                let word = Arc::clone(&word);
                move || {
                    while word.load(Ordering::Acquire) == 0 {
                        wait(&word, 0, scope, None).unwrap();
                    }
                }
            });
            assert_eq!(wake(&AtomicU32::new(0), 1, scope).unwrap(), 0);
            // Before it sleeps, a wake reaches no thread; the word stays 0, so it will sleep.
            while wake(&word, u32::MAX, scope).unwrap() == 0 {
                std::thread::yield_now();
            }
            word.store(1, Ordering::Release);
            wake(&word, 1, scope).unwrap();
            sleeper.join().unwrap();
        }
    }
}

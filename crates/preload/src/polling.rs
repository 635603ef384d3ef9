//! Polls for a while before a call blocks. A signal ends it as it ends the call, and a cancelled thread ends.
//!
//! A handler that runs between two looks would go unnoticed, and the call would then block without end. So signals are held back, and
//! ppoll(2) lets them in every 20 µs: it fails with EINTR if a handler ran. Signals that a thread causes itself, such as SIGSEGV, are not
//! held back. Unwinding must not leave the others held back. So cancellation is off meanwhile, and a thread that was cancelled ends within
//! 10 ms. Other threads take signals of the process as before.

use libc::{c_int, c_long, timespec};

use crate::filter::Foreign;
use crate::next::{self, now_ns};

/// The longest time that a signal waits for its handler.
const SIGNALS_NS: i64 = 20_000;
/// The longest time that a cancelled thread goes on. Between two such times, a handler may go unnoticed, as before the call blocks.
const CANCEL_NS: i64 = 10_000_000;
/// Kernel's sets of signals have this many bytes.
const SET: c_long = size_of::<u64>() as c_long;
/// Signals that a thread causes, and the two that glibc keeps for itself (nptl(7)).
const NOT_HELD: [c_int; 8] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, 32, 33];

/// PTHREAD_CANCEL_DISABLE and PTHREAD_CANCEL_DEFERRED of pthread.h.
const CANCEL_DISABLE: c_int = 1;
const CANCEL_DEFERRED: c_int = 0;

/// How polling ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Polled<T> {
    Found(T),
    /// The handler of a signal ran.
    Interrupted,
    /// The time is over, or a filter of system calls is in the way.
    Over,
}

/// The call that polls.
#[derive(Clone, Copy)]
pub(crate) struct Waiter {
    /// Whether it is a cancellation point.
    pub(crate) is_cancelled: bool,
    /// The signals that it blocks instead of the thread's, as ppoll(2) does; null for the thread's.
    pub(crate) mask: *const libc::sigset_t,
}

impl Waiter {
    /// A cancellation point.
    pub(crate) const CANCELLED: Self = Self { is_cancelled: true, mask: std::ptr::null() };
}

/// Looks until this time of CLOCK_MONOTONIC, or until `is_over`.
pub(crate) fn poll_until<T>(
    until_ns: i64,
    waiter: Waiter,
    is_over: impl Fn() -> bool,
    mut look: impl FnMut() -> Option<T>,
) -> Polled<T> {
    let errno = next::errno();
    loop {
        let begun_ns = now_ns();
        if begun_ns >= until_ns || is_over() {
            break;
        }
        if waiter.is_cancelled {
            next::end_if_cancelled();
        }
        let Some(held) = Held::begin(waiter) else { break };
        let polled = held.poll(until_ns.min(begun_ns + CANCEL_NS), &is_over, &mut look);
        held.end();
        match polled {
            Some(Polled::Over) => {}
            Some(polled) => return polled,
            None => break,
        }
    }
    next::set_errno(errno);
    Polled::Over
}

static HOLDING: Foreign = Foreign::new();

/// Signals are held back, and cancellation is off.
struct Held {
    waiter: Waiter,
    /// The signals that were blocked before.
    signals: u64,
    /// State and type of cancellation before.
    state: c_int,
    kind: c_int,
}

impl Held {
    fn begin(waiter: Waiter) -> Option<Self> {
        if !HOLDING.is_allowed() {
            return None;
        }
        let all = NOT_HELD.iter().fold(u64::MAX, |set, signal| set & !(1 << (signal - 1)));
        let mut held = Self { waiter, signals: 0, state: 0, kind: 0 };
        // SAFETY: each writes one number.
        unsafe {
            next::pthread_setcancelstate(CANCEL_DISABLE, &raw mut held.state);
            next::pthread_setcanceltype(CANCEL_DEFERRED, &raw mut held.kind);
        }
        // SAFETY: reads one set and writes one.
        if unsafe { mask(libc::SIG_BLOCK, &raw const all, &raw mut held.signals) } != 0 {
            HOLDING.is_refused(next::errno());
            held.let_cancel();
            return None;
        }
        Some(held)
    }

    /// None where a filter refuses to say whether a signal came.
    fn poll<T>(
        &self,
        until_ns: i64,
        is_over: &impl Fn() -> bool,
        look: &mut impl FnMut() -> Option<T>,
    ) -> Option<Polled<T>> {
        let mut let_in_ns = now_ns() + SIGNALS_NS;
        loop {
            if let Some(found) = look() {
                return Some(Polled::Found(found));
            }
            let now = now_ns();
            let over = now >= until_ns || is_over();
            if over || now >= let_in_ns {
                let polled = self.let_in();
                if over || !matches!(polled, Some(Polled::Over)) {
                    return polled;
                }
                let_in_ns = now + SIGNALS_NS;
            }
        }
    }

    /// Runs the handlers of signals that came.
    fn let_in<T>(&self) -> Option<Polled<T>> {
        let none = timespec { tv_sec: 0, tv_nsec: 0 };
        let own = (&raw const self.signals).cast();
        let signals = if self.waiter.mask.is_null() { own } else { self.waiter.mask };
        // SAFETY: no descriptors, one timespec; the kernel reads the beginning of a set.
        if unsafe { next::ppoll(std::ptr::null_mut(), 0, &raw const none, signals) } == 0 {
            return Some(Polled::Over);
        }
        if next::errno() == libc::EINTR {
            return Some(Polled::Interrupted);
        }
        HOLDING.is_refused(next::errno());
        None
    }

    fn end(self) {
        // SAFETY: reads one set.
        unsafe { mask(libc::SIG_SETMASK, &raw const self.signals, std::ptr::null_mut()) };
        self.let_cancel();
    }

    fn let_cancel(&self) {
        // SAFETY: the previous values are not wanted. glibc 2.36 forgets the thread's result where the state alone lets it be cancelled.
        unsafe {
            next::pthread_setcancelstate(self.state, std::ptr::null_mut());
            if self.kind != CANCEL_DEFERRED {
                next::pthread_testcancel();
                next::pthread_setcanceltype(self.kind, std::ptr::null_mut());
            }
        }
    }
}

/// rt_sigprocmask(2): the C library's function would leave out signals.
unsafe fn mask(how: c_int, set: *const u64, before: *mut u64) -> c_long {
    // SAFETY: as the caller says.
    unsafe { next::syscall(libc::SYS_rt_sigprocmask, how.into(), set as _, before as _, SET, 0, 0) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn count(_: c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    fn blocked_signals() -> u64 {
        let mut now = 0;
        // SAFETY: writes one set.
        assert_eq!(unsafe { mask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now) }, 0);
        now
    }

    fn raise(signal: c_int) {
        // SAFETY: a signal to this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
    }

    #[test]
    fn a_handler_ends_it_and_an_ignored_signal_does_not() {
        // SAFETY: a handler that adds to an atomic.
        unsafe { libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t) };
        let before = blocked_signals();
        let far_ns = now_ns() + 60_000_000_000;
        let mut looks = 0;
        let polled = poll_until::<()>(
            far_ns,
            Waiter::CANCELLED,
            || false,
            || {
                looks += 1;
                if looks == 3 {
                    raise(libc::SIGUSR1);
                    assert_eq!(HANDLED.load(Ordering::Relaxed), 0, "held back");
                }
                None
            },
        );
        assert_eq!((polled, HANDLED.load(Ordering::Relaxed), blocked_signals()), (Polled::Interrupted, 1, before));
        next::set_errno(77);
        let polled = poll_until::<()>(
            now_ns() + 100_000,
            Waiter::CANCELLED,
            || false,
            || {
                raise(libc::SIGURG);
                None
            },
        );
        assert_eq!((polled, next::errno(), blocked_signals()), (Polled::Over, 77, before));
    }

    #[test]
    fn signals_are_let_in_soon_and_not_only_at_the_end() {
        // SAFETY: a handler that adds to an atomic.
        unsafe { libc::signal(libc::SIGUSR2, count as *const () as libc::sighandler_t) };
        let mut looks_after = 0;
        let look = || {
            match looks_after {
                0 => raise(libc::SIGUSR2),
                // Each takes longer than a signal may wait.
                _ => crate::next::spin_until(now_ns() + 2 * SIGNALS_NS),
            }
            looks_after += 1;
            None
        };
        let polled = poll_until::<()>(now_ns() + 60_000_000_000, Waiter::CANCELLED, || false, look);
        assert_eq!(polled, Polled::Interrupted);
        assert!(looks_after <= 2, "{looks_after}");
    }

    #[test]
    fn without_a_signal_it_looks_until_something_is_found() {
        let held = Held::begin(Waiter::CANCELLED).unwrap();
        let mut looks = 0;
        let mut look = || {
            looks += 1;
            (looks == 5).then_some(7)
        };
        assert_eq!(held.poll(now_ns() + 60_000_000_000, &|| false, &mut look), Some(Polled::Found(7)));
        assert_eq!(held.poll(now_ns() - 1, &|| false, &mut || None::<u8>), Some(Polled::Over));
        held.end();
    }

    #[test]
    fn what_is_found_ends_it_at_once() {
        let before = blocked_signals();
        assert_eq!(poll_until(now_ns() + 60_000_000_000, Waiter::CANCELLED, || false, || Some(5)), Polled::Found(5));
        assert_eq!(poll_until(now_ns() - 1, Waiter::CANCELLED, || false, || Some(5)), Polled::Over);
        assert_eq!(poll_until(now_ns() + 60_000_000_000, Waiter::CANCELLED, || true, || Some(5)), Polled::Over);
        assert_eq!(blocked_signals(), before);
    }
}

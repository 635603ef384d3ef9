//! The deadline on `CLOCK_MONOTONIC` by which all children of this process must end, in shared memory.
//!
//! The process sets it. Children that run a loop check it and end by themselves, even if the process died.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::{Clock, now_ns};
use crate::shared::Shared;

/// Zero: no deadline. Mapped before the first child is forked, so that every child has it; without memory, there is no deadline.
static AT_NS: OnceLock<Option<Shared<AtomicI64>>> = OnceLock::new();

fn word() -> Option<&'static AtomicI64> {
    AT_NS.get_or_init(|| Shared::<AtomicI64>::new().ok()).as_deref()
}

/// Sets the deadline for this process, for later children, and for children forked after the first call. `None`: no deadline.
pub fn set(at_ns: Option<i64>) {
    if let Some(word) = word() {
        word.store(at_ns.unwrap_or(0).max(0), Ordering::Relaxed);
    }
}

/// Whether the deadline has passed. Reads the clock only if there is a deadline.
#[must_use]
pub fn passed() -> bool {
    left_ns().is_some_and(|left| left <= 0)
}

/// Time until the deadline; negative after it. `None`: no deadline.
#[must_use]
pub fn left_ns() -> Option<i64> {
    let at_ns = word()?.load(Ordering::Relaxed);
    (at_ns != 0).then(|| at_ns - now_ns(Clock::Monotonic))
}

/// `setitimer(ITIMER_REAL)`: SIGALRM at the deadline ends a child that does not handle it. For children that wait in the measured call
/// and cannot check the deadline. Does nothing without a deadline; ignores later changes.
pub fn alarm() -> crate::Result<()> {
    let Some(left_ns) = left_ns() else { return Ok(()) };
    let left_us = (left_ns / 1000).max(1);
    let value = libc::timeval { tv_sec: (left_us / 1_000_000) as _, tv_usec: (left_us % 1_000_000) as _ };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: `once` is readable; the previous timer is not asked for.
    crate::check("setitimer", unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, Ended};

    /// One test, since the deadline is the process's.
    #[test]
    fn children_see_it_move_and_end_by_it() {
        assert!(!passed() && left_ns().is_none());
        set(Some(now_ns(Clock::Monotonic) + 3_600_000_000_000));
        let mut looking = Child::spawn("looks", || {
            while !passed() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
        .unwrap();
        assert!(!passed());
        assert_eq!(looking.ended().unwrap(), None);
        set(Some(now_ns(Clock::Monotonic)));
        assert!(passed());
        assert_eq!(looking.wait().unwrap(), Ended::Exited(0));
        let mut now = Child::spawn("now", || {
            alarm().unwrap();
            std::thread::sleep(std::time::Duration::from_secs(3600));
        })
        .unwrap();
        assert_eq!(now.wait().unwrap(), Ended::Killed(libc::SIGALRM));
        set(None);
        assert!(!passed());
    }
}

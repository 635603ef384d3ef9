//! How a timed call ended, and the calls that sleep or yield.
//!
//! The sleeping calls of the C library: `sleep(3)`, `usleep(3)`, `nanosleep(2)`, `clock_nanosleep(2)`, `sched_yield(2)`.
//!
//! Each makes exactly one call. A signal ends it with [`Ended::Sooner`]; the caller decides whether to continue. Those
//! named `_left` return what the call says is left.

use crate::clock::{Clock, timespec_of};
use crate::{Error, Result, check};

/// How a timed call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a call that ended sooner has not waited its full time"]
pub enum Ended {
    /// The time is up.
    TimeUp,
    /// Early: a signal (EINTR) or a spurious wake-up.
    Sooner,
}

/// A timer that is armed first and then waited for; it continues while signals interrupt the wait.
pub trait Armed {
    /// Arms the timer for `duration_ns` from now (at least 1 ns, since 0 would disarm it).
    fn arm(&mut self, duration_ns: i64) -> Result<()>;

    /// Waits: [`Ended::TimeUp`] if the timer expired, [`Ended::Sooner`] on anything else. Only after [`Armed::arm`].
    fn wait(&mut self) -> Result<Ended>;

    /// Disarms the timer and discards an expiry without a wait.
    fn disarm(&mut self) -> Result<()>;
}

impl Ended {
    /// For calls that return 0 if the time is up, and -1 with `errno` otherwise.
    #[inline]
    pub(crate) fn of_zero(call: &'static str, returned: i64) -> Result<Self> {
        match returned {
            0 => Ok(Self::TimeUp),
            -1 => Self::of_last_errno(call),
            _ => Ok(Self::Sooner),
        }
    }

    /// Not inlined, so that the usual path is straight.
    #[cold]
    #[inline(never)]
    fn of_last_errno(call: &'static str) -> Result<Self> {
        Self::of_errno(call, last_errno(), 0)
    }

    /// For calls that return -1 with `errno` `time_up` if the time is up; any result but -1 is a wake-up.
    #[inline]
    pub(crate) fn of_failure(call: &'static str, returned: i64, time_up: i32) -> Result<Self> {
        if returned == -1 { Self::of_errno(call, last_errno(), time_up) } else { Ok(Self::Sooner) }
    }

    /// For calls that return the error number itself.
    #[inline]
    pub(crate) fn of_errno(call: &'static str, errno: i32, time_up: i32) -> Result<Self> {
        if errno == time_up {
            Ok(Self::TimeUp)
        } else if errno == libc::EINTR || errno == 0 {
            Ok(Self::Sooner)
        } else {
            Err(Error::from_errno(call, errno))
        }
    }
}

/// The thread's `errno`; never allocates.
#[inline]
pub(crate) fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// `sleep(3)`: whole seconds.
#[inline]
pub fn sleep(seconds: u32) -> Result<Ended> {
    // SAFETY: takes a number, touches no memory of ours.
    let left = unsafe { libc::sleep(seconds) };
    Ok(if left == 0 { Ended::TimeUp } else { Ended::Sooner })
}

/// `sleep(3)`: the whole seconds that it says are left. Less than a second left is 0, as if the time were up.
#[inline]
#[must_use]
pub fn sleep_left(seconds: u32) -> u32 {
    // SAFETY: takes a number, touches no memory of ours.
    unsafe { libc::sleep(seconds) }
}

/// `usleep(3)`: microseconds; up to 4294 s with glibc and musl.
#[inline]
pub fn usleep(microseconds: u32) -> Result<Ended> {
    // SAFETY: takes a number, touches no memory of ours.
    Ended::of_zero("usleep", unsafe { libc::usleep(microseconds) }.into())
}

/// `nanosleep(2)`: a duration in nanoseconds (negative: 0).
#[inline]
pub fn nanosleep(duration_ns: i64) -> Result<Ended> {
    let asked = timespec_of(duration_ns);
    // SAFETY: `asked` is valid for the call; the remainder is not wanted.
    Ended::of_zero("nanosleep", unsafe { libc::nanosleep(&raw const asked, std::ptr::null_mut()) }.into())
}

/// `nanosleep(2)`: the nanoseconds that it says are left after a signal; `None`: the time is up.
#[inline]
pub fn nanosleep_left(duration_ns: i64) -> Result<Option<i64>> {
    let (asked, mut left) = (timespec_of(duration_ns), timespec_of(0));
    // SAFETY: both are valid for the call.
    let returned = unsafe { libc::nanosleep(&raw const asked, &raw mut left) };
    Ok(left_after(Ended::of_zero("nanosleep", returned.into())?, &left))
}

/// `clock_nanosleep(2)` with a duration: the nanoseconds that it says are left after a signal; `None`: the time is up.
#[inline]
pub fn clock_nanosleep_left(clock: Clock, duration_ns: i64) -> Result<Option<i64>> {
    let (asked, mut left) = (timespec_of(duration_ns), timespec_of(0));
    // SAFETY: both are valid for the call.
    let errno = unsafe { libc::clock_nanosleep(clock.id(), 0, &raw const asked, &raw mut left) };
    Ok(left_after(Ended::of_errno("clock_nanosleep", errno, 0)?, &left))
}

#[inline]
fn left_after(ended: Ended, left: &libc::timespec) -> Option<i64> {
    let ns = (left.tv_sec as i64).saturating_mul(1_000_000_000).saturating_add(left.tv_nsec as i64);
    (ended == Ended::Sooner).then_some(ns)
}

/// `clock_nanosleep(2)` with a duration in nanoseconds (negative: 0) on `clock`.
#[inline]
pub fn clock_nanosleep(clock: Clock, duration_ns: i64) -> Result<Ended> {
    clock_nanosleep_with(clock, 0, duration_ns)
}

/// `clock_nanosleep(2)` with `TIMER_ABSTIME`: until `clock` shows `deadline_ns`.
#[inline]
pub fn clock_nanosleep_until(clock: Clock, deadline_ns: i64) -> Result<Ended> {
    clock_nanosleep_with(clock, libc::TIMER_ABSTIME, deadline_ns)
}

#[inline]
fn clock_nanosleep_with(clock: Clock, flags: i32, ns: i64) -> Result<Ended> {
    let asked = timespec_of(ns);
    // SAFETY: `asked` is valid for the call; the remainder is not wanted.
    let errno = unsafe { libc::clock_nanosleep(clock.id(), flags, &raw const asked, std::ptr::null_mut()) };
    Ended::of_errno("clock_nanosleep", errno, 0)
}

/// `sched_yield(2)`.
#[inline]
pub fn sched_yield() -> Result<()> {
    // SAFETY: no arguments.
    check("sched_yield", unsafe { libc::sched_yield() }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_is_told_apart() {
        assert_eq!(Ended::of_zero("x", 0).unwrap(), Ended::TimeUp);
        assert_eq!(Ended::of_zero("x", 1).unwrap(), Ended::Sooner);
        assert_eq!(Ended::of_errno("x", libc::ETIMEDOUT, libc::ETIMEDOUT).unwrap(), Ended::TimeUp);
        assert_eq!(Ended::of_errno("x", 0, 0).unwrap(), Ended::TimeUp);
        assert_eq!(Ended::of_errno("x", 0, libc::ETIMEDOUT).unwrap(), Ended::Sooner);
        assert_eq!(Ended::of_errno("x", libc::EINTR, libc::ETIMEDOUT).unwrap(), Ended::Sooner);
        assert_eq!(Ended::of_errno("x", libc::EINVAL, libc::ETIMEDOUT).unwrap_err().errno(), libc::EINVAL);
    }
}

//! The result of a call with a timeout: the time is up, an early return, or an error.
//!
//! Code after a system call is inlined. With return mitigations in the kernel, the CPU mispredicts each call and return after it, for 5
//! to 10 ns.
//!
//! Every timed call of this crate returns [`Ended`]. After an early return the caller can wait for the rest.

use crate::{Error, Result};

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

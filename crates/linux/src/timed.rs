//! How a call with a timeout came back: in time, sooner, or with an error.
//!
//! What follows a system call is inlined: on CPUs whose kernel must guard its returns, each call and each return after one is
//! mispredicted, which costs 5 to 10 ns.
//!
//! Every timed call of this crate returns [`Ended`], so that a caller who must not be early can go on with what remains.

use crate::{Error, Result};

/// How a timed call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a call that ended sooner has not waited its time"]
pub enum Ended {
    /// The time is up.
    TimeUp,
    /// Sooner: a signal (EINTR), or a wake-up that nobody meant.
    Sooner,
}

/// A timer that is set first and then waited for; it runs on while signals interrupt the waiting.
pub trait Armed {
    /// Sets it to `duration_ns` from now (at least 1 ns, since 0 would unset it).
    fn arm(&mut self, duration_ns: i64) -> Result<()>;

    /// Waits for it: [`Ended::TimeUp`] when it expired, [`Ended::Sooner`] when something else came. Only after [`Armed::arm`].
    fn wait(&mut self) -> Result<Ended>;

    /// Unsets it, and forgets an expiry that nobody waited for.
    fn disarm(&mut self) -> Result<()>;
}

impl Ended {
    /// For calls that return 0 when the time is up, and -1 with `errno` otherwise.
    #[inline]
    pub(crate) fn of_zero(call: &'static str, returned: i64) -> Result<Self> {
        match returned {
            0 => Ok(Self::TimeUp),
            -1 => Self::of_last_errno(call),
            _ => Ok(Self::Sooner),
        }
    }

    /// Out of the way, so that the usual case runs straight on.
    #[cold]
    #[inline(never)]
    fn of_last_errno(call: &'static str) -> Result<Self> {
        Self::of_errno(call, last_errno(), 0)
    }

    /// For calls that return -1 with `errno` being `time_up` when the time is up; anything else than -1 is a wake-up.
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

/// The thread's `errno`, without allocating.
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

//! Timers as file descriptors: `timerfd_create(2)`, waited for with `read(2)` or with `epoll_wait(2)`.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use crate::clock::timespec_of;
use crate::poll::Epoll;
use crate::timed::{Armed, Ended};
use crate::{Result, check};

/// A timer on `CLOCK_MONOTONIC`, waited for with `read(2)`; closed on drop.
#[derive(Debug)]
pub struct Timerfd(OwnedFd);

impl Timerfd {
    /// `timerfd_create(2)`, close-on-exec, blocking.
    pub fn new() -> Result<Self> {
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        let fd = check("timerfd_create", fd)?;
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// `timerfd_settime(2)`: one expiry in `duration_ns`; 0 disarms it. Discards an unread expiry.
    #[inline]
    fn set(&self, duration_ns: i64) -> Result<()> {
        let value = libc::itimerspec { it_interval: timespec_of(0), it_value: timespec_of(duration_ns) };
        // SAFETY: the descriptor is open; `value` is valid for the call.
        let returned = unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const value, null_mut()) };
        check("timerfd_settime", returned).map(drop)
    }
}

impl Armed for Timerfd {
    #[inline]
    fn arm(&mut self, duration_ns: i64) -> Result<()> {
        self.set(duration_ns.max(1))
    }

    /// `read(2)`.
    #[inline]
    fn wait(&mut self) -> Result<Ended> {
        let mut expiries = 0_u64;
        // SAFETY: the kernel writes 8 bytes, for which there is room.
        let returned = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut expiries).cast(), size_of::<u64>()) };
        if returned > 0 { Ok(Ended::TimeUp) } else { Ended::of_failure("read", returned as i64, 0) }
    }

    fn disarm(&mut self) -> Result<()> {
        self.set(0)
    }
}

/// A [`Timerfd`] in an epoll set, as in event loops. It is never read: arming it again clears its readiness.
#[derive(Debug)]
pub struct PolledTimerfd {
    timer: Timerfd,
    set: Epoll,
}

impl PolledTimerfd {
    /// `timerfd_create(2)`, `epoll_create1(2)` and `epoll_ctl(2)`.
    pub fn new() -> Result<Self> {
        let timer = Timerfd::new()?;
        let set = Epoll::new()?;
        set.add_readable(&timer.0)?;
        Ok(Self { timer, set })
    }
}

impl Armed for PolledTimerfd {
    #[inline]
    fn arm(&mut self, duration_ns: i64) -> Result<()> {
        self.timer.arm(duration_ns)
    }

    /// `epoll_wait(2)` without timeout.
    #[inline]
    fn wait(&mut self) -> Result<Ended> {
        self.set.wait_readable()
    }

    fn disarm(&mut self) -> Result<()> {
        self.timer.disarm()
    }
}

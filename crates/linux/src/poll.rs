//! Timeouts of the calls that wait for descriptors: `select(2)`, `pselect(2)`, `poll(2)`, `ppoll(2)`, `epoll_wait(2)`,
//! `epoll_pwait2(2)`.
//!
//! They are called with no descriptors (epoll: on an empty set), so that only the timeout can end them. Each function makes exactly
//! one call; a signal ends it with [`Ended::Sooner`].

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};

use crate::clock::timespec_of;
use crate::sleep::Ended;
use crate::{Result, check};

/// `select(2)` on nothing: microseconds.
#[inline]
pub fn select(timeout_us: i64) -> Result<Ended> {
    let us = timeout_us.max(0);
    let mut timeout = libc::timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ };
    // SAFETY: no sets are given; `timeout` is valid and writable (Linux stores what remained).
    Ended::of_zero("select", unsafe { libc::select(0, null_mut(), null_mut(), null_mut(), &raw mut timeout) }.into())
}

/// `pselect(2)` on nothing: nanoseconds; the signal mask is unchanged.
#[inline]
pub fn pselect(timeout_ns: i64) -> Result<Ended> {
    let timeout = timespec_of(timeout_ns);
    // SAFETY: no sets and no mask are given; `timeout` is valid for the call.
    let returned = unsafe { libc::pselect(0, null_mut(), null_mut(), null_mut(), &raw const timeout, null()) };
    Ended::of_zero("pselect", returned.into())
}

/// `poll(2)` on nothing: milliseconds (negative: 0, not infinite).
#[inline]
pub fn poll(timeout_ms: i32) -> Result<Ended> {
    // SAFETY: no descriptors are given, so no memory is read.
    Ended::of_zero("poll", unsafe { libc::poll(null_mut(), 0, timeout_ms.max(0)) }.into())
}

/// `ppoll(2)` on nothing: nanoseconds; the signal mask is unchanged.
#[inline]
pub fn ppoll(timeout_ns: i64) -> Result<Ended> {
    let timeout = timespec_of(timeout_ns);
    // SAFETY: no descriptors and no mask are given; `timeout` is valid for the call.
    Ended::of_zero("ppoll", unsafe { libc::ppoll(null_mut(), 0, &raw const timeout, null()) }.into())
}

/// The kernel's 64-bit timespec, which `epoll_pwait2` takes on every architecture.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

/// An epoll set (`epoll_create1(2)`), closed on drop.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// `epoll_create1(2)` with close-on-exec: an empty set.
    pub fn new() -> Result<Self> {
        // SAFETY: takes a flag only.
        let fd = check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// `epoll_ctl(2)`: adds a descriptor, reported (level-triggered) while readable.
    pub fn add_readable(&self, fd: &impl AsRawFd) -> Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: both descriptors are open; `event` is valid for the call.
        let returned =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        check("epoll_ctl", returned).map(drop)
    }

    /// `epoll_wait(2)`: milliseconds (negative: 0, not infinite).
    #[inline]
    pub fn wait(&self, timeout_ms: i32) -> Result<Ended> {
        Ended::of_zero("epoll_wait", self.wait_raw(timeout_ms.max(0)))
    }

    /// `epoll_wait(2)` without timeout: [`Ended::TimeUp`] if a descriptor is readable, [`Ended::Sooner`] on a signal.
    #[inline]
    pub fn wait_readable(&self) -> Result<Ended> {
        let returned = self.wait_raw(-1);
        if returned > 0 { Ok(Ended::TimeUp) } else { Ended::of_failure("epoll_wait", returned, 0) }
    }

    #[inline]
    fn wait_raw(&self, timeout_ms: i32) -> i64 {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event is given and valid for the call.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, timeout_ms) }.into()
    }

    /// `epoll_pwait2(2)` (Linux 5.11), a raw system call since older C libraries lack it: nanoseconds; the signal mask is unchanged.
    #[inline]
    pub fn pwait2(&self, timeout_ns: i64) -> Result<Ended> {
        let ns = timeout_ns.max(0);
        let timeout = KernelTimespec { seconds: ns / 1_000_000_000, nanoseconds: ns % 1_000_000_000 };
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event and the timeout are valid for the call; no mask is given.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                &raw mut event,
                1,
                &raw const timeout,
                null::<libc::sigset_t>(),
                size_of::<u64>(),
            )
        };
        Ended::of_zero("epoll_pwait2", returned.into())
    }
}

//! Timed calls, and how they ended.
//!
//! The sleeping calls of the C library: `sleep(3)`, `usleep(3)`, `nanosleep(2)`, `clock_nanosleep(2)`, `sched_yield(2)`. Those named `_left`
//! return what the call says is left.
//!
//! Timeouts of the calls that wait for descriptors: `select(2)`, `pselect(2)`, `poll(2)`, `ppoll(2)`, `epoll_wait(2)`, `epoll_pwait2(2)`.
//! They are called with no descriptors (epoll: on an empty set), so that only the timeout can end them.
//!
//! Timeouts of calls that wait for another thread: `futex(2)`, `pthread_cond_timedwait(3)`, `sem_timedwait(3)`, and `recv(2)` with
//! SO_RCVTIMEO (`socket(7)`). No thread wakes them.
//!
//! Each function makes exactly one call. A signal ends it with [`Ended::Sooner`]; the caller decides whether to continue.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::clock::{Clock, KernelTimespec, timespec_of};
use crate::{Error, Result, check, check_errno_return, descriptor, failed};

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
    Ok(if sleep_left(seconds) == 0 { Ended::TimeUp } else { Ended::Sooner })
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

/// An epoll set (`epoll_create1(2)`), closed on drop.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// `epoll_create1(2)` with close-on-exec: an empty set.
    pub fn new() -> Result<Self> {
        // SAFETY: takes a flag only, and returns a descriptor of this call alone.
        unsafe { descriptor("epoll_create1", libc::epoll_create1(libc::EPOLL_CLOEXEC)).map(Self) }
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
        let timeout = KernelTimespec::of(timeout_ns);
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

/// The timespec of `SYS_futex`: two machine words.
#[repr(C)]
struct WordTimespec {
    seconds: libc::c_long,
    nanoseconds: libc::c_long,
}

/// A futex word that no thread wakes.
#[derive(Debug, Default)]
pub struct Futex(AtomicU32);

impl Futex {
    /// `futex(2)` with `FUTEX_WAIT`: a duration in nanoseconds, on `CLOCK_MONOTONIC`.
    #[inline]
    pub fn wait(&self, timeout_ns: i64) -> Result<Ended> {
        self.call(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, timeout_ns, 0)
    }

    /// `futex(2)` with `FUTEX_WAIT_BITSET`: until `CLOCK_MONOTONIC` shows `deadline_ns`.
    #[inline]
    pub fn wait_until(&self, deadline_ns: i64) -> Result<Ended> {
        self.call(libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG, deadline_ns, libc::FUTEX_BITSET_MATCH_ANY as u32)
    }

    #[inline]
    fn call(&self, operation: i32, ns: i64, bits: u32) -> Result<Ended> {
        let ns = ns.max(0);
        let time = WordTimespec {
            seconds: libc::c_long::try_from(ns / 1_000_000_000).unwrap_or(libc::c_long::MAX),
            nanoseconds: (ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: word and time are valid for the call; the second word is not used by these operations.
        let returned = unsafe {
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 0_u32, &raw const time, null::<u32>(), bits)
        };
        Ended::of_failure("futex", returned as i64, libc::ETIMEDOUT)
    }
}

/// A condition variable on `CLOCK_MONOTONIC` with its mutex, which its creator keeps locked. No thread signals it.
pub struct Condition {
    // Boxed: neither may move while in use.
    mutex: Box<UnsafeCell<libc::pthread_mutex_t>>,
    condition: Box<UnsafeCell<libc::pthread_cond_t>>,
    bound_to_thread: PhantomData<*const ()>,
}

impl Condition {
    /// `pthread_cond_init(3)` with `pthread_condattr_setclock(3)`, and `pthread_mutex_lock(3)`.
    pub fn new() -> Result<Self> {
        let mutex = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let condition = Box::new(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER));
        let mut attributes = MaybeUninit::<libc::pthread_condattr_t>::uninit();
        // SAFETY: the attributes are initialised before they are used and destroyed after. The condition variable is not in use yet
        // and never moves.
        unsafe {
            check_errno_return("pthread_condattr_init", libc::pthread_condattr_init(attributes.as_mut_ptr()))?;
            let set = libc::pthread_condattr_setclock(attributes.as_mut_ptr(), libc::CLOCK_MONOTONIC);
            let made = libc::pthread_cond_init(condition.get(), attributes.as_ptr());
            libc::pthread_condattr_destroy(attributes.as_mut_ptr());
            check_errno_return("pthread_condattr_setclock", set)?;
            check_errno_return("pthread_cond_init", made)?;
        }
        // SAFETY: the mutex is initialised, never moves, and nobody else knows it.
        check_errno_return("pthread_mutex_lock", unsafe { libc::pthread_mutex_lock(mutex.get()) })?;
        Ok(Self { mutex, condition, bound_to_thread: PhantomData })
    }

    /// `pthread_cond_timedwait(3)`: until `CLOCK_MONOTONIC` shows `deadline_ns`. It continues after signals.
    #[inline]
    pub fn wait_until(&self, deadline_ns: i64) -> Result<Ended> {
        let deadline = timespec_of(deadline_ns);
        // SAFETY: both are initialised, and the calling thread (the type is bound to it) holds the mutex.
        let errno =
            unsafe { libc::pthread_cond_timedwait(self.condition.get(), self.mutex.get(), &raw const deadline) };
        Ended::of_errno("pthread_cond_timedwait", errno, libc::ETIMEDOUT)
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        // SAFETY: the mutex is held by this thread; nobody waits.
        unsafe {
            libc::pthread_mutex_unlock(self.mutex.get());
            libc::pthread_cond_destroy(self.condition.get());
            libc::pthread_mutex_destroy(self.mutex.get());
        }
    }
}

/// A semaphore at zero that no thread posts.
pub struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

impl Semaphore {
    /// `sem_init(3)`, for the threads of this process.
    pub fn new() -> Result<Self> {
        // SAFETY: all-zero bytes are a valid sem_t to initialise.
        let semaphore = Box::new(UnsafeCell::new(unsafe { std::mem::zeroed::<libc::sem_t>() }));
        // SAFETY: the memory is valid and never moves.
        check("sem_init", unsafe { libc::sem_init(semaphore.get(), 0, 0) })?;
        Ok(Self(semaphore))
    }

    /// `sem_timedwait(3)`: until `CLOCK_REALTIME` shows `deadline_ns`.
    #[inline]
    pub fn wait_until(&self, deadline_ns: i64) -> Result<Ended> {
        let deadline = timespec_of(deadline_ns);
        // SAFETY: the semaphore is initialised; the deadline is valid for the call.
        let returned = unsafe { libc::sem_timedwait(self.0.get(), &raw const deadline) };
        Ended::of_failure("sem_timedwait", returned.into(), libc::ETIMEDOUT)
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody waits.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

/// A pair of datagram sockets whose other end sends nothing; closed on drop.
#[derive(Debug)]
pub struct SilentSocket {
    receiver: UnixDatagram,
    _sender: UnixDatagram,
}

impl SilentSocket {
    /// `socketpair(2)`: local datagram sockets, which need no network.
    pub fn new() -> Result<Self> {
        let (receiver, sender) = UnixDatagram::pair().map_err(failed("socketpair"))?;
        Ok(Self { receiver, _sender: sender })
    }

    /// `setsockopt(2)` with `SO_RCVTIMEO`: microseconds, at least 1 since 0 means no timeout. The kernel rounds up to jiffies.
    #[inline]
    pub fn set_timeout(&self, timeout_us: i64) -> Result<()> {
        let timeout = Duration::from_micros(timeout_us.max(1).unsigned_abs());
        self.receiver.set_read_timeout(Some(timeout)).map_err(|error| failed("setsockopt")(error).on("SO_RCVTIMEO"))
    }

    /// `recv(2)`: ends with [`Ended::TimeUp`] at the timeout, which may come up to a jiffy early.
    #[inline]
    pub fn receive(&self) -> Result<Ended> {
        let mut byte = 0_u8;
        // SAFETY: there is room for the one byte asked for.
        let returned = unsafe { libc::recv(self.receiver.as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
        Ended::of_failure("recv", returned as i64, libc::EAGAIN)
    }
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

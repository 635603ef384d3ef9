//! Timeouts of calls that wait for another thread: `futex(2)`, `pthread_cond_timedwait(3)`, `sem_timedwait(3)`, and `recv(2)` with
//! SO_RCVTIMEO (`socket(7)`). No thread wakes them.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::ptr::null;
use std::sync::atomic::AtomicU32;

use crate::clock::timespec_of;
use crate::sleep::Ended;
use crate::{Error, Result, check, check_errno_return};

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
        let (receiver, sender) =
            UnixDatagram::pair().map_err(|source| Error { call: "socketpair", object: None, source })?;
        Ok(Self { receiver, _sender: sender })
    }

    /// `setsockopt(2)` with `SO_RCVTIMEO`: microseconds, at least 1 since 0 means no timeout. The kernel rounds up to jiffies.
    #[inline]
    pub fn set_timeout(&self, timeout_us: i64) -> Result<()> {
        let us = timeout_us.max(1);
        let timeout = libc::timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ };
        // SAFETY: the socket is open; option and length are valid for the call.
        let returned = unsafe {
            libc::setsockopt(
                self.receiver.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const timeout).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        check("setsockopt", returned).map_err(|e| e.on("SO_RCVTIMEO")).map(drop)
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

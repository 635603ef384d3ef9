//! Kernel timers that send signals: `timer_create(2)`, `setitimer(2)`, and the timeout of `sigtimedwait(2)`.
//!
//! A timer of `timer_create` signals only the thread that created it (`SIGEV_THREAD_ID`). `ITIMER_REAL` exists once per process, and
//! its SIGALRM goes to any thread that does not block it. All values are on `CLOCK_MONOTONIC`.
//!
//! A [`PeriodicTimer`] is waited for with `sigwaitinfo(2)`. Expiries that nobody waited for are counted (`timer_getoverrun(2)`).

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::clock::{Clock, now_ns, timespec_of};
use crate::signal::{self, Action, AlarmTarget, Handler, Held, Slot, set_of};
use crate::sleep::{Armed, Ended, Epoll};
use crate::{Error, Result, check, descriptor};

/// A timer of `timer_create(2)`, deleted on drop.
#[derive(Debug)]
struct PosixTimer(libc::timer_t);

impl PosixTimer {
    /// A timer on `clock` that sends `signal` with `value` to the calling thread.
    fn new(clock: Clock, signal: i32, value: usize) -> Result<Self> {
        // SAFETY: all-zero bytes are a valid sigevent.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_value = libc::sigval { sival_ptr: without_provenance_mut(value) };
        // SAFETY: no arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: `event` is valid for the call; `timer` is filled when it succeeds.
        let returned = unsafe { libc::timer_create(clock.id(), &raw mut event, &raw mut timer) };
        check("timer_create", returned)?;
        Ok(Self(timer))
    }

    /// `timer_settime(2)`: one expiry in `duration_ns`; 0 disarms it.
    #[inline]
    fn set(&self, duration_ns: i64) -> Result<()> {
        self.set_repeated(0, duration_ns, 0)
    }

    /// `timer_settime(2)`: an expiry in `first_ns`, or at that time of the clock (`TIMER_ABSTIME`), then one every `period_ns` (0: none).
    #[inline]
    fn set_repeated(&self, flags: i32, first_ns: i64, period_ns: i64) -> Result<()> {
        let value = libc::itimerspec { it_interval: timespec_of(period_ns), it_value: timespec_of(first_ns) };
        // SAFETY: the timer exists until drop; `value` is valid for the call.
        check("timer_settime", unsafe { libc::timer_settime(self.0, flags, &raw const value, null_mut()) }).map(drop)
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: the timer exists and is used no more.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// A periodic signal to the thread that created it. Its handler does nothing: a sleep that it finds ends with EINTR.
#[derive(Debug)]
pub struct PeriodicSignal {
    // Drop order: no more signals, then restore the old handler. A signal on its way is delivered on return from timer_delete(2).
    timer: PosixTimer,
    _handler: Handler,
    period_ns: i64,
    bound_to_thread: PhantomData<*const ()>,
}

impl PeriodicSignal {
    /// `timer_create(2)`, for the calling thread. No signal comes before [`PeriodicSignal::start`].
    pub fn new(period_ns: i64) -> Result<Self> {
        let signal = signal::for_interrupting();
        let handler = Handler::install(signal, Action::Interrupt)?;
        let timer = PosixTimer::new(Clock::Monotonic, signal, 0)?;
        Ok(Self { timer, _handler: handler, period_ns: period_ns.max(1), bound_to_thread: PhantomData })
    }

    /// `timer_settime(2)`: the first signal comes after one period.
    pub fn start(&self) -> Result<()> {
        self.timer.set_repeated(0, self.period_ns, self.period_ns)
    }

    /// `timer_settime(2)`: no more signals.
    pub fn stop(&self) -> Result<()> {
        self.timer.set(0)
    }
}

/// A timer whose signal `sigwaitinfo(2)` takes.
#[derive(Debug)]
pub struct WaitedTimer {
    // Drop order: no more signals, then discard the pending ones.
    timer: PosixTimer,
    held: Held,
    signals: libc::sigset_t,
    value: usize,
}

impl WaitedTimer {
    /// `timer_create(2)`, for the calling thread.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let value = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
        let signal = signal::for_waiting();
        let held = Held::new(signal)?;
        Ok(Self { timer: PosixTimer::new(Clock::Monotonic, signal, value)?, held, signals: set_of(&[signal]), value })
    }
}

impl Armed for WaitedTimer {
    #[inline]
    fn arm(&mut self, duration_ns: i64) -> Result<()> {
        self.timer.set(duration_ns.max(1))
    }

    /// `sigwaitinfo(2)`.
    #[inline]
    fn wait(&mut self) -> Result<Ended> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set is valid for the call; `info` is filled when it succeeds.
        let signal = unsafe { libc::sigwaitinfo(&raw const self.signals, info.as_mut_ptr()) };
        if signal == -1 {
            return Ended::of_failure("sigwaitinfo", -1, 0);
        }
        // SAFETY: the kernel filled `info`.
        let mine = unsafe { signal::timer_value(info.as_ptr()) } == Some(self.value);
        Ok(if mine { Ended::TimeUp } else { Ended::Sooner })
    }

    fn disarm(&mut self) -> Result<()> {
        self.timer.set(0)?;
        self.held.discard_pending();
        Ok(())
    }
}

/// A timer with a signal handler; the thread sleeps in `sigsuspend(2)`.
#[derive(Debug)]
pub struct HandledTimer {
    // Drop order: no more signals, then discard the pending ones, then restore the old handler.
    timer: PosixTimer,
    held: Held,
    _handler: Handler,
    mask: libc::sigset_t,
    slot: Slot,
    seen: u32,
}

impl HandledTimer {
    /// `timer_create(2)`, for the calling thread with its present signal mask.
    ///
    /// EAGAIN also if this process has 64 such timers.
    pub fn new() -> Result<Self> {
        let slot = Slot::claim()
            .ok_or_else(|| Error::from_errno("timer_create", libc::EAGAIN).on("64 handled timers exist"))?;
        let signal = signal::for_handling();
        let handler = Handler::install(signal, Action::Count)?;
        let held = Held::new(signal)?;
        let mask = held.mask_without()?;
        let seen = slot.fired();
        Ok(Self {
            timer: PosixTimer::new(Clock::Monotonic, signal, slot.number())?,
            held,
            _handler: handler,
            mask,
            slot,
            seen,
        })
    }
}

impl Armed for HandledTimer {
    #[inline]
    fn arm(&mut self, duration_ns: i64) -> Result<()> {
        self.seen = self.slot.fired();
        self.timer.set(duration_ns.max(1))
    }

    /// `sigsuspend(2)`.
    #[inline]
    fn wait(&mut self) -> Result<Ended> {
        suspend(&self.mask);
        Ok(if self.slot.fired() == self.seen { Ended::Sooner } else { Ended::TimeUp })
    }

    fn disarm(&mut self) -> Result<()> {
        self.timer.set(0)?;
        self.held.discard_pending();
        Ok(())
    }
}

/// `sigsuspend(2)`: it always ends with EINTR.
#[inline]
fn suspend(mask: &libc::sigset_t) {
    // SAFETY: the mask is valid for the call.
    unsafe { libc::sigsuspend(mask) };
}

/// The interval timer of the process (`setitimer(2)`, `ITIMER_REAL`), waited for with `sigsuspend(2)`.
///
/// SIGALRM goes to any thread that does not block it. Another thread that takes it passes it on, which delays the wake-up. So a
/// measuring program blocks SIGALRM in its other threads. Meanwhile, SIGALRM never ends the process.
#[derive(Debug)]
pub struct IntervalTimer {
    // Drop order: no more signals (see `drop`), none passed on, discard the pending ones. Then restore the old handler, and free
    // the timer.
    _target: AlarmTarget,
    held: Held,
    _handler: Handler,
    _only: OnlyOne,
    mask: libc::sigset_t,
    deadline_ns: i64,
}

static IN_USE: AtomicBool = AtomicBool::new(false);

/// Ownership of the process's only interval timer.
#[derive(Debug)]
struct OnlyOne;

impl Drop for OnlyOne {
    fn drop(&mut self) {
        IN_USE.store(false, Ordering::Release);
    }
}

impl IntervalTimer {
    /// Takes the process's timer. EBUSY if it is in use.
    pub fn new() -> Result<Self> {
        let busy = || Error::from_errno("setitimer", libc::EBUSY).on("ITIMER_REAL: the process's only one is in use");
        if IN_USE.swap(true, Ordering::AcqRel) {
            return Err(busy());
        }
        let only = OnlyOne;
        let mut running = MaybeUninit::<libc::itimerval>::zeroed();
        // SAFETY: `running` is filled when the call succeeds, and valid (zero) when not.
        let running = unsafe {
            check("getitimer", libc::getitimer(libc::ITIMER_REAL, running.as_mut_ptr()))?;
            running.assume_init()
        };
        if running.it_value.tv_sec != 0 || running.it_value.tv_usec != 0 {
            return Err(busy());
        }
        let handler = Handler::install(libc::SIGALRM, Action::Forward)?;
        let held = Held::new(libc::SIGALRM)?;
        let mask = held.mask_without()?;
        Ok(Self { _target: AlarmTarget::this_thread(), held, _handler: handler, _only: only, mask, deadline_ns: 0 })
    }

    /// `setitimer(2)`, rounded up to microseconds; 0 disarms it.
    fn set(duration_ns: i64) -> Result<()> {
        let timeval = |ns: i64| {
            let us = (ns / 1_000) + i64::from(ns % 1_000 != 0);
            libc::timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ }
        };
        let value = libc::itimerval { it_interval: timeval(0), it_value: timeval(duration_ns) };
        // SAFETY: `value` is valid for the call. (The C library declares the first argument as an enumeration on some targets.)
        check("setitimer", unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const value, null_mut()) }).map(drop)
    }
}

impl Armed for IntervalTimer {
    #[inline]
    fn arm(&mut self, duration_ns: i64) -> Result<()> {
        let duration_ns = duration_ns.max(1);
        self.deadline_ns = now_ns(Clock::Monotonic).saturating_add(duration_ns);
        Self::set(duration_ns)
    }

    /// `sigsuspend(2)`. The clock decides whether the time is up, since any SIGALRM may wake the thread.
    #[inline]
    fn wait(&mut self) -> Result<Ended> {
        suspend(&self.mask);
        Ok(if now_ns(Clock::Monotonic) >= self.deadline_ns { Ended::TimeUp } else { Ended::Sooner })
    }

    fn disarm(&mut self) -> Result<()> {
        Self::set(0)?;
        self.held.discard_pending();
        Ok(())
    }
}

impl Drop for IntervalTimer {
    fn drop(&mut self) {
        // Disarming cannot fail: the arguments are valid.
        let _ = Self::set(0);
    }
}

/// The timeout of `sigtimedwait(2)` on a signal that is never sent.
#[derive(Debug)]
pub struct SignalTimeout {
    _held: Held,
    signals: libc::sigset_t,
}

impl SignalTimeout {
    /// Blocks the signal in the calling thread, as the call requires.
    pub fn new() -> Result<Self> {
        let signal = signal::for_nothing();
        Ok(Self { _held: Held::new(signal)?, signals: set_of(&[signal]) })
    }

    /// `sigtimedwait(2)`: nanoseconds.
    #[inline]
    pub fn wait(&self, timeout_ns: i64) -> Result<Ended> {
        let timeout = timespec_of(timeout_ns);
        // SAFETY: set and timeout are valid for the call; no information is asked for.
        let signal = unsafe { libc::sigtimedwait(&raw const self.signals, null_mut(), &raw const timeout) };
        Ended::of_failure("sigtimedwait", signal.into(), libc::EAGAIN)
    }
}

// Timers as file descriptors: `timerfd_create(2)`, waited for with `read(2)` or with `epoll_wait(2)`.

/// A timer on `CLOCK_MONOTONIC`, waited for with `read(2)`; closed on drop.
#[derive(Debug)]
pub struct Timerfd(OwnedFd);

impl Timerfd {
    /// `timerfd_create(2)`, close-on-exec, blocking.
    pub fn new() -> Result<Self> {
        // SAFETY: takes numbers only, and returns a descriptor of this call alone.
        unsafe {
            descriptor("timerfd_create", libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC)).map(Self)
        }
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

/// A periodic timer of the calling thread, deleted on drop.
#[derive(Debug)]
pub struct PeriodicTimer {
    timer: PosixTimer,
    signals: libc::sigset_t,
    held: Held,
}

impl PeriodicTimer {
    /// `timer_create(2)` on `clock`, for the calling thread.
    pub fn new(clock: Clock) -> Result<Self> {
        let signal = signal::for_waiting();
        let held = Held::new(signal)?;
        Ok(Self { timer: PosixTimer::new(clock, signal, 0)?, signals: set_of(&[signal]), held })
    }

    /// `timer_settime(2)` with `TIMER_ABSTIME`: the first expiry at `first_ns` of the clock, then one each `period_ns`.
    pub fn start_at(&self, first_ns: i64, period_ns: i64) -> Result<()> {
        self.timer.set_repeated(libc::TIMER_ABSTIME, first_ns.max(1), period_ns)
    }

    /// `timer_settime(2)`: the first expiry after a period, then one each `period_ns`.
    pub fn start(&self, period_ns: i64) -> Result<()> {
        self.timer.set_repeated(0, period_ns.max(1), period_ns)
    }

    /// `sigwaitinfo(2)`: until the next expiry.
    #[inline]
    pub fn wait(&self) -> Result<Ended> {
        // SAFETY: the set is valid for the call; no information is wanted.
        let signal = unsafe { libc::sigwaitinfo(&raw const self.signals, null_mut()) };
        if signal == -1 { Ended::of_failure("sigwaitinfo", -1, 0) } else { Ok(Ended::TimeUp) }
    }

    /// `timer_getoverrun(2)`: expiries beside the last one that was waited for.
    #[inline]
    #[must_use]
    pub fn overrun(&self) -> u64 {
        // SAFETY: the timer exists until drop.
        let count = unsafe { libc::timer_getoverrun(self.timer.0) };
        u64::try_from(count).unwrap_or(0)
    }
}

impl Drop for PeriodicTimer {
    fn drop(&mut self) {
        // Disarming cannot fail: the timer exists until its own drop.
        let _ = self.timer.set(0);
        self.held.discard_pending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::sleep;

    #[test]
    fn a_periodic_signal_ends_sleeps_early_until_it_is_stopped() {
        let signal = PeriodicSignal::new(1_000_000).unwrap();
        assert_eq!(sleep::nanosleep_left(2_000_000).unwrap(), None);
        signal.start().unwrap();
        // An hour: only a signal ends it.
        let hour = 3_600_000_000_000;
        let left = sleep::nanosleep_left(hour).unwrap().expect("a signal ended it");
        assert!((1..=hour).contains(&left), "{left}");
        assert!(sleep::clock_nanosleep_left(Clock::Monotonic, hour).unwrap().is_some());
        assert!((1..3_600).contains(&sleep::sleep_left(3_600)));
        assert_eq!(sleep::usleep(3_600_000_000).unwrap(), Ended::Sooner);
        assert_eq!(sleep::clock_nanosleep_until(Clock::Monotonic, i64::MAX).unwrap(), Ended::Sooner);
        signal.stop().unwrap();
        assert_eq!(sleep::nanosleep_left(2_000_000).unwrap(), None);
    }

    #[test]
    fn it_expires_each_period_and_never_early() {
        let timer = PeriodicTimer::new(Clock::Monotonic).unwrap();
        let begin = now_ns(Clock::Monotonic);
        timer.start_at(begin + 2_000_000, 1_000_000).unwrap();
        let mut expiries = 0;
        for _ in 0..5 {
            assert_eq!(timer.wait().unwrap(), Ended::TimeUp);
            expiries += 1 + timer.overrun() as i64;
            assert!(now_ns(Clock::Monotonic) >= begin + 1_000_000 + expiries * 1_000_000);
        }
    }

    #[test]
    fn what_nobody_waited_for_is_counted() {
        let timer = PeriodicTimer::new(Clock::Monotonic).unwrap();
        timer.start(1_000_000).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(timer.wait().unwrap(), Ended::TimeUp);
        assert!(timer.overrun() >= 15);
    }
}

//! A periodic kernel timer whose signal a thread waits for: `timer_create(2)`, `sigwaitinfo(2)`, `timer_getoverrun(2)`.
//!
//! The timer signals only the thread that created it (`SIGEV_THREAD_ID`). Expiries that nobody waited for are counted.

use std::ptr::{null_mut, without_provenance_mut};

use crate::clock::{Clock, timespec_of};
use crate::own_signal::{self, Held};
use crate::signal::set_of;
use crate::sleep::Ended;
use crate::{Result, check};

/// A periodic timer of the calling thread, deleted on drop.
#[derive(Debug)]
pub struct PeriodicTimer {
    timer: libc::timer_t,
    signals: libc::sigset_t,
    held: Held,
}

impl PeriodicTimer {
    /// `timer_create(2)` on `clock`, for the calling thread.
    pub fn new(clock: Clock) -> Result<Self> {
        let signal = own_signal::for_waiting();
        let held = Held::new(signal)?;
        // SAFETY: all-zero bytes are a valid sigevent.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_value = libc::sigval { sival_ptr: without_provenance_mut(0) };
        // SAFETY: no arguments.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: `event` is valid for the call; `timer` is filled when it succeeds.
        check("timer_create", unsafe { libc::timer_create(clock.id(), &raw mut event, &raw mut timer) })?;
        Ok(Self { timer, signals: set_of(&[signal]), held })
    }

    /// `timer_settime(2)` with `TIMER_ABSTIME`: the first expiry at `first_ns` of the clock, then one each `period_ns`.
    pub fn start_at(&self, first_ns: i64, period_ns: i64) -> Result<()> {
        self.set(libc::TIMER_ABSTIME, first_ns, period_ns)
    }

    /// `timer_settime(2)`: the first expiry after a period, then one each `period_ns`.
    pub fn start(&self, period_ns: i64) -> Result<()> {
        self.set(0, period_ns, period_ns)
    }

    fn set(&self, flags: i32, first_ns: i64, period_ns: i64) -> Result<()> {
        let value = libc::itimerspec { it_interval: timespec_of(period_ns), it_value: timespec_of(first_ns.max(1)) };
        // SAFETY: the timer exists until drop; `value` is valid for the call.
        check("timer_settime", unsafe { libc::timer_settime(self.timer, flags, &raw const value, null_mut()) })
            .map(drop)
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
        let count = unsafe { libc::timer_getoverrun(self.timer) };
        u64::try_from(count).unwrap_or(0)
    }
}

impl Drop for PeriodicTimer {
    fn drop(&mut self) {
        // SAFETY: the timer exists and is used no more.
        unsafe { libc::timer_delete(self.timer) };
        self.held.discard_pending();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;

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

//! Clocks to be on time by: the kernel's ([`SystemClock`]) and one that tests move by hand ([`ManualClock`]).
//!
//! A [`Clock`] says what time it is, sleeps and spins; what to make of that (margins, learning, schedules) is the business of
//! [`Sleeper`](crate::Sleeper), [`Ticker`](crate::Ticker) and [`Pacer`](crate::Pacer), which therefore behave on a manual clock as they
//! do on a real one. Points in time are [`Moment`]s: nanoseconds on one clock.

mod manual;
mod moment;
mod system;

pub use manual::ManualClock;
pub use moment::Moment;
pub(crate) use moment::nanos;
pub use system::SystemClock;

/// A clock that can be waited on.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Moment;

    /// Gives up the CPU until `target`, or until something (a signal) ends the sleep sooner. May return late, never knows how late.
    fn sleep_until(&self, target: Moment);

    /// Keeps the CPU until `deadline` and returns the reading that ended it. A reading before `deadline` means that the clock
    /// was set back meanwhile: the caller decides again.
    fn spin_until(&self, deadline: Moment) -> Moment {
        loop {
            let now = self.now();
            if now >= deadline {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    /// CPU time that the calling thread has used, in ns, where the clock can tell. Needed by CPU budgets only.
    fn cpu_time_ns(&self) -> Option<i64> {
        None
    }

    /// Whether waits on this clock end by timers of the kernel, so that the thread's timer slack matters.
    fn uses_kernel_timers(&self) -> bool {
        false
    }
}

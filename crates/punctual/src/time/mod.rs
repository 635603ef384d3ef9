//! Clocks: the kernel's ([`SystemClock`]) and one that tests move by hand ([`ManualClock`]).
//!
//! A [`Clock`] tells the time, sleeps and spins. [`Sleeper`](crate::Sleeper), [`Ticker`](crate::Ticker) and
//! [`Pacer`](crate::Pacer) do the rest: margins, learning, schedules. So they behave the same on a manual clock and a real one. A
//! [`Moment`] is a point in time in nanoseconds of one clock.

mod manual;
mod moment;
mod system;

pub use manual::ManualClock;
pub use moment::Moment;
pub(crate) use moment::nanos;
pub use system::SystemClock;

/// A clock to wait on.
pub trait Clock {
    /// The current time.
    fn now(&self) -> Moment;

    /// Sleeps until `target`, or until a signal ends the sleep. May return late; does not report how late.
    fn sleep_until(&self, target: Moment);

    /// Spins until `deadline` and returns the reading that ended the spin. A reading before `deadline` means that the clock was set
    /// back; the caller then decides again.
    fn spin_until(&self, deadline: Moment) -> Moment {
        loop {
            let now = self.now();
            if now >= deadline {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    /// CPU time of the calling thread in ns; `None` if unknown. Only CPU budgets use it.
    fn cpu_time_ns(&self) -> Option<i64> {
        None
    }

    /// Time for which the calling thread was ready to run while others ran, ns; `None` if unknown. A sleeper asks only after a wait that
    /// ended far too late, and now and then.
    fn run_delay_ns(&self) -> Option<u64> {
        None
    }

    /// Whether waits on this clock use kernel timers, so that the thread's timer slack matters.
    fn uses_kernel_timers(&self) -> bool {
        false
    }
}

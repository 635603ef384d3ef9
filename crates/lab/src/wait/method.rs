//! What a way of waiting is: a [`Method`], one small value, and the [`Waiter`] it opens.

use punctual_linux as linux;

/// One way to wait: a name, one line, what it needs, the call it makes, and how to open it.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name on the command line and in the record, for instance `clock_nanosleep_abs`.
    pub name: &'static str,
    /// One line for `--list`: what it is and when one would use it.
    pub about: &'static str,
    /// The call as a C programmer writes it, for instance `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)`.
    pub call: &'static str,
    /// The system calls one of which it must make for each wait; empty: it makes none.
    pub system_calls: &'static [&'static str],
    /// Kind of way.
    pub kind: Kind,
    /// The unit the call counts in: a wait is rounded up to it.
    pub unit: Unit,
    /// Takes a deadline rather than a duration.
    pub absolute: bool,
    /// What it needs, in a few words (`Linux 5.11`, `CPU with WAITPKG`), or empty.
    pub needs: &'static str,
    /// Opens it on the thread that will wait. Everything that may allocate or fail for good happens here.
    pub open: fn() -> Result<Box<dyn Waiter>, Unavailable>,
}

/// An opened way of waiting, bound to the thread that opened it. Dropping it gives everything back.
pub trait Waiter {
    /// Waits until at least `asked_ns` nanoseconds after `from_ns` (CLOCK_MONOTONIC, read just before the call).
    ///
    /// Never returns early, whatever signals arrive. An absolute method on CLOCK_MONOTONIC waits until `from_ns + asked_ns`; a
    /// relative one for `asked_ns`; on another clock, until that clock has advanced by as much. Allocates nothing.
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()>;
}

/// Kind of way to wait, for `--list` and for choosing by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The sleeping calls.
    Sleep,
    /// Timeouts of calls that wait for descriptors.
    Poll,
    /// Timers of the kernel that notify.
    Timer,
    /// Timeouts of synchronisation and message calls.
    Sync,
    /// Busy waiting.
    Spin,
    /// Instructions that wait in user mode.
    UserWait,
}

/// The unit a call counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds: nothing is rounded.
    Nanosecond,
    /// Microseconds.
    Microsecond,
    /// Milliseconds.
    Millisecond,
    /// Whole seconds.
    Second,
    /// Ticks of the kernel (1/HZ).
    Jiffy,
}

/// Why a method cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    /// The reason, with what the kernel or the CPU said.
    pub why: String,
    /// What would make it available, where something would.
    pub remedy: Option<String>,
}

//! What a way of waiting is: a [`Method`], one small value, and the [`Waiter`] it opens.

use punctual_linux as linux;
use punctual_linux::clock::Clock;

/// One way to wait: a name, one line, what it needs, the call it makes, and how to open it.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name on the command line and in the record, for instance `clock_nanosleep_abs`.
    pub name: &'static str,
    /// One line for `--list`: what it is and when one would use it.
    pub about: &'static str,
    /// The call as a C programmer writes it, for instance `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)`.
    pub call: &'static str,
    /// The system calls one of which it makes for each wait, which one depending on architecture and C library; empty: it
    /// makes none.
    pub system_calls: &'static [&'static str],
    /// The system calls it may make besides, to arm a timer or to return from a handler.
    pub besides: &'static [&'static str],
    /// Kind of way.
    pub kind: Kind,
    /// The unit the call counts in: a wait is rounded up to it.
    pub unit: Unit,
    /// The clock it goes by: it is never early on this one. (A relative wait on `CLOCK_REALTIME` goes by `CLOCK_MONOTONIC`: setting the
    /// wall clock does not change it, `clock_nanosleep(2)`.)
    pub clock: Clock,
    /// Takes a deadline rather than a duration.
    pub absolute: bool,
    /// What it needs, in a few words (`Linux 5.11`, `CPU with WAITPKG`), or empty.
    pub needs: &'static str,
    /// Opens it on the thread that will wait. Everything that may allocate or fail for good happens here.
    pub open: fn() -> Result<Box<dyn Waiter>, Unavailable>,
}

impl Method {
    /// What the call makes of a wait of `asked_ns` nanoseconds: rounded up to its unit. `hz` is the kernel's tick rate; where it is not
    /// known, a wait in jiffies comes back as asked.
    #[must_use]
    pub fn effective_ns(&self, asked_ns: i64, hz: Option<u32>) -> i64 {
        self.unit.effective_ns(asked_ns, hz)
    }

    /// A wait that makes no system call at all.
    #[must_use]
    pub fn is_in_user_mode(&self) -> bool {
        self.system_calls.is_empty()
    }
}

impl Unit {
    /// Its length in nanoseconds; `None` for a jiffy of unknown length.
    #[must_use]
    pub fn length_ns(self, hz: Option<u32>) -> Option<i64> {
        match self {
            Self::Nanosecond => Some(1),
            Self::Microsecond => Some(1_000),
            Self::Millisecond => Some(1_000_000),
            Self::Second => Some(1_000_000_000),
            Self::Jiffy => hz.filter(|&hz| hz > 0).map(|hz| 1_000_000_000_i64.div_euclid(hz.into()).max(1)),
        }
    }

    /// `asked_ns` rounded up to this unit (as asked where its length is unknown; negative: 0), `i64::MAX` where that does not fit.
    #[must_use]
    pub fn effective_ns(self, asked_ns: i64, hz: Option<u32>) -> i64 {
        let asked = asked_ns.max(0);
        let Some(length) = self.length_ns(hz) else { return asked };
        units_up(asked, length).checked_mul(length).unwrap_or(i64::MAX)
    }
}

/// How many units of `length` cover `ns`; 0 for negative ones.
pub(crate) fn units_up(ns: i64, length: i64) -> i64 {
    let ns = ns.max(0);
    ns / length + i64::from(ns % length != 0)
}

/// An opened way of waiting, bound to the thread that opened it. Dropping it gives everything back.
pub trait Waiter {
    /// Waits until at least `asked_ns` nanoseconds after `from_ns` (CLOCK_MONOTONIC, read just before the call).
    ///
    /// Never returns early, whatever signals arrive. An absolute method on CLOCK_MONOTONIC waits until `from_ns + asked_ns`; a
    /// relative one for `asked_ns`; on another clock, until that clock has advanced by as much. Allocates nothing.
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()>;

    /// Told before a batch of waits of `asked_ns`; `conditions` tells those under different conditions apart. For ways that learn.
    fn begin(&mut self, _conditions: usize, _asked_ns: i64) -> linux::Result<()> {
        Ok(())
    }

    /// Told after a batch: what it changed about the thread is to be put back until the next.
    fn end(&mut self) {}
}

/// Kind of way to wait, for `--list` and for choosing by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The library's own.
    Library,
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

impl Kind {
    /// Its name in the record and in lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Sleep => "sleep",
            Self::Poll => "poll",
            Self::Timer => "timer",
            Self::Sync => "sync",
            Self::Spin => "spin",
            Self::UserWait => "user wait",
        }
    }

    /// Whether the CPU is busy while it waits.
    #[must_use]
    pub const fn burns(self) -> bool {
        matches!(self, Self::Spin | Self::UserWait)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNITS: [Unit; 5] = [Unit::Nanosecond, Unit::Microsecond, Unit::Millisecond, Unit::Second, Unit::Jiffy];

    proptest! {
        #[test]
        fn rounding_goes_up_and_by_less_than_a_unit(
            asked in 0_i64..i64::MAX / 2, unit in prop::sample::select(&UNITS[..]), hz in 1_u32..=10_000,
        ) {
            let effective = unit.effective_ns(asked, Some(hz));
            let length = unit.length_ns(Some(hz)).unwrap();
            prop_assert!(effective >= asked && effective - asked < length);
            prop_assert_eq!(effective % length, 0);
        }

        #[test]
        fn rounding_twice_changes_nothing(asked in any::<i64>(), unit in prop::sample::select(&UNITS[..])) {
            let once = unit.effective_ns(asked, Some(250));
            prop_assert!(once >= 0);
            if once < i64::MAX {
                prop_assert_eq!(unit.effective_ns(once, Some(250)), once);
            }
        }

        #[test]
        fn an_unknown_jiffy_is_as_asked(asked in 0_i64..) {
            prop_assert_eq!(Unit::Jiffy.effective_ns(asked, None), asked);
            prop_assert_eq!(Unit::Jiffy.effective_ns(asked, Some(0)), asked);
        }
    }

    #[test]
    fn known_roundings() {
        assert_eq!(Unit::Second.effective_ns(100_000, None), 1_000_000_000);
        assert_eq!(Unit::Millisecond.effective_ns(1_000_001, None), 2_000_000);
        assert_eq!(Unit::Jiffy.effective_ns(1, Some(250)), 4_000_000);
        assert_eq!(Unit::Second.effective_ns(i64::MAX, None), i64::MAX);
    }
}

//! A way of waiting: a [`Method`], one small value, and the [`Waiter`] that it opens.
//!
//! Most methods have one of two shapes: a call with a duration (`relative`), or a call with a deadline (`absolute`). A
//! shape turns one timed call, which a signal may interrupt, into a wait that is never early. It continues with the time
//! left on `CLOCK_MONOTONIC`. It allocates nothing, and reads no clock after a call that reports a timeout.
//!
//! Others are waits of a program itself: on the library's own sleeper, by spinning on a clock or on the CPU's counter, and by the
//! instructions that let the core rest in user mode without a system call.

use punctual::counter::Counter;
use punctual::{Moment, Sleeper, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::counter::{Instruction, UserWait, Watched};
use punctual_linux::sleep::{Armed, Ended};
use punctual_record::{About, Hint};

use crate::frame::{Unavailable, go_on};

/// One way to wait: name, summary, requirements, call, and constructor.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name on the command line and in the record, for instance `clock_nanosleep_abs`.
    pub name: &'static str,
    /// One line for `--list`: description and use.
    pub about: &'static str,
    /// The call in C, for instance `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)`.
    pub call: &'static str,
    /// The line of code for this wait, where it is not just the call. It is in C, or in Rust for Rust's own.
    pub code: &'static str,
    /// The system calls of which each wait makes one, depending on architecture and C library. Empty: it makes none.
    pub system_calls: &'static [&'static str],
    /// Further system calls it may make, to arm a timer or to return from a handler.
    pub also: &'static [&'static str],
    /// Kind of method.
    pub kind: Kind,
    /// The unit of the call: a wait is rounded up to it.
    pub unit: Unit,
    /// The clock of the call: the wait is never early on this one. (Setting the wall clock does not change a
    /// relative wait on `CLOCK_REALTIME`, `clock_nanosleep(2)`.)
    pub clock: Clock,
    /// Takes a deadline, not a duration.
    pub absolute: bool,
    /// The same call for a duration, by name, or empty.
    pub relative: &'static str,
    /// Its requirements, in a few words (`Linux 5.11`, `CPU with WAITPKG`), or empty.
    pub needs: &'static str,
    /// Opens it on the thread that will wait. Any allocation or permanent failure happens here.
    pub open: fn() -> Result<Box<dyn Waiter>, Unavailable>,
}

impl Method {
    /// A way of this kind without a name yet: for a duration in nanoseconds, on the monotonic clock.
    pub(crate) const fn unnamed(kind: Kind) -> Self {
        Self {
            name: "",
            about: "",
            call: "",
            code: "",
            system_calls: &[],
            also: &[],
            kind,
            unit: Unit::Nanosecond,
            clock: Clock::Monotonic,
            absolute: false,
            relative: "",
            needs: "",
            open: || Err(Unavailable::because("it has no call")),
        }
    }

    /// The details for the record.
    pub(crate) fn for_record(&self) -> About {
        let code = if self.code.is_empty() { format!("{};", self.call) } else { self.code.to_owned() };
        let relative = Some(self.relative).filter(|name| !name.is_empty()).map(str::to_owned);
        About { kind: Some(self.kind.name().to_owned()), call: Some(self.call.to_owned()), code: Some(code), relative }
    }
}

impl Unit {
    /// Its length in nanoseconds. `None`: a jiffy of unknown length.
    pub(crate) fn length_ns(self, hz: Option<u32>) -> Option<i64> {
        match self {
            Self::Nanosecond => Some(1),
            Self::Microsecond => Some(1_000),
            Self::Millisecond => Some(1_000_000),
            Self::Second => Some(1_000_000_000),
            Self::Jiffy => hz.filter(|&hz| hz > 0).map(|hz| 1_000_000_000_i64.div_euclid(hz.into()).max(1)),
        }
    }

    /// A wait of `asked_ns` nanoseconds rounded up to this unit. `hz` is the kernel's tick rate. If it is unknown, a
    /// wait in jiffies is returned as asked. 0 if negative, `i64::MAX` if the result does not fit.
    #[must_use]
    pub fn effective_ns(self, asked_ns: i64, hz: Option<u32>) -> i64 {
        let asked = asked_ns.max(0);
        let Some(length) = self.length_ns(hz) else { return asked };
        units_up(asked, length).checked_mul(length).unwrap_or(i64::MAX)
    }
}

/// The number of units of `length` that cover `ns`; 0 for negative `ns`.
pub(crate) fn units_up(ns: i64, length: i64) -> i64 {
    let ns = ns.max(0);
    ns / length + i64::from(ns % length != 0)
}

/// An opened way of waiting, bound to the thread that opened it. Dropping it releases everything.
pub trait Waiter {
    /// Waits until at least `asked_ns` nanoseconds after `from_ns` (CLOCK_MONOTONIC, read just before the call).
    ///
    /// Never returns early, whatever signals arrive. An absolute method on CLOCK_MONOTONIC waits until `from_ns +
    /// asked_ns`, a relative one for `asked_ns`. On another clock it waits until that clock has advanced by as much.
    /// Allocates nothing.
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()>;

    /// Called before a batch of waits of `asked_ns`, for methods that learn. `conditions` identifies the condition
    /// set.
    fn begin(&mut self, _conditions: usize, _asked_ns: i64) -> linux::Result<()> {
        Ok(())
    }

    /// Called after a batch: restores what the method changed of the thread, until the next batch.
    fn end(&mut self) {}
}

/// Kind of method, for `--list` and for selection by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The library's own methods.
    Library,
    /// Sleeping calls.
    Sleep,
    /// Timeouts of calls that wait for file descriptors.
    Poll,
    /// Kernel timers that notify.
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

    /// Whether the CPU is busy during the wait.
    pub(crate) const fn burns(self) -> bool {
        matches!(self, Self::Spin | Self::UserWait)
    }
}

/// The unit of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds, without rounding.
    Nanosecond,
    /// Microseconds.
    Microsecond,
    /// Milliseconds.
    Millisecond,
    /// Whole seconds.
    Second,
    /// Jiffies: ticks of the kernel (1/HZ).
    Jiffy,
}

/// The longest single call of those that hide signals from their caller, so that a stop request is noticed. A shorter
/// wait is one call.
pub(crate) const UNCUTTABLE_NS: i64 = 1_000_000_000;

/// The result of a method's `open`.
pub(crate) type Opened = crate::frame::error::Opened<dyn Waiter>;

/// A call that takes a duration in nanoseconds.
struct Relative<F> {
    call: F,
    longest_ns: i64,
}

impl<F: FnMut(i64) -> linux::Result<Ended>> Waiter for Relative<F> {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let mut remaining = asked_ns;
        loop {
            let slice = remaining.min(self.longest_ns);
            if (self.call)(slice)? == Ended::TimeUp && slice == remaining {
                return Ok(());
            }
            go_on("wait")?;
            remaining = asked_ns.saturating_sub(now_ns(Clock::Monotonic) - from_ns);
            if remaining <= 0 {
                return Ok(());
            }
        }
    }
}

/// A waiter on a call that takes a duration. A first call with a duration of zero detects a kernel without it, or a
/// filter that forbids it.
pub(crate) fn relative(call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    relative_up_to(i64::MAX, call)
}

/// The same for a call that takes at most `longest_ns` at a time.
pub(crate) fn relative_up_to(longest_ns: i64, mut call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    let _ = usable(call(0))?;
    Ok(Box::new(Relative { call, longest_ns }))
}

/// A call that takes a deadline on `clock`.
struct Absolute<F> {
    clock: Clock,
    longest_ns: i64,
    call: F,
}

impl<F: FnMut(i64) -> linux::Result<Ended>> Waiter for Absolute<F> {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        // The offset of other clocks to CLOCK_MONOTONIC may change at any time (set, suspend), so they are read
        // again.
        let start = if self.clock == Clock::Monotonic { from_ns } else { now_ns(self.clock) };
        let deadline = start.saturating_add(asked_ns);
        if asked_ns <= self.longest_ns {
            while (self.call)(deadline)? != Ended::TimeUp {
                go_on("wait")?;
            }
            return Ok(());
        }
        loop {
            let next = deadline.min(now_ns(self.clock).saturating_add(self.longest_ns));
            if (self.call)(next)? == Ended::TimeUp && next == deadline {
                return Ok(());
            }
            go_on("wait")?;
        }
    }
}

/// A waiter on a call that takes a deadline on `clock`. A first call has a deadline in the past.
pub(crate) fn absolute(clock: Clock, call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    absolute_up_to(i64::MAX, clock, call)
}

/// The same for a call that takes at most `longest_ns` at a time.
pub(crate) fn absolute_up_to(
    longest_ns: i64,
    clock: Clock,
    mut call: impl FnMut(i64) -> linux::Result<Ended> + 'static,
) -> Opened {
    let _ = usable(call(0))?;
    Ok(Box::new(Absolute { clock, longest_ns, call }))
}

/// What a method needs, or the result of its first call, however that ended. An error makes the method unavailable.
pub(crate) fn usable<T>(first: linux::Result<T>) -> Result<T, Unavailable> {
    first.map_err(|e| unavailable(&e, &[]))
}

/// A timer that is set and then waited for. Signals interrupt the wait, not the timer.
struct Timed<T>(T);

impl<T: Armed> Waiter for Timed<T> {
    #[inline]
    fn wait(&mut self, _from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        self.0.arm(asked_ns)?;
        loop {
            if self.0.wait()? == Ended::TimeUp {
                return Ok(());
            }
            if let Err(stopped) = go_on("wait") {
                self.0.disarm()?;
                return Err(stopped);
            }
        }
    }
}

/// A waiter on a timer that was opened and passed a first wait of 1 ns. Otherwise it is the reason for a failure.
pub(crate) fn timed<T: Armed + 'static>(opened: linux::Result<T>, remedies: Remedies) -> Opened {
    let mut timer = opened.map_err(|e| unavailable(&e, remedies))?;
    let mut first_wait = || {
        timer.arm(1)?;
        while timer.wait()? != Ended::TimeUp {}
        Ok(())
    };
    first_wait().map_err(|e| unavailable(&e, remedies))?;
    Ok(Box::new(Timed(timer)))
}

/// The remedies by error number.
pub(crate) type Remedies = &'static [(i32, &'static str)];

/// Turns a failure to open into a reason, with the remedy for its error number.
pub(crate) fn unavailable(error: &linux::Error, remedies: Remedies) -> Unavailable {
    let why = match error.errno() {
        linux::ENOSYS => format!("this kernel has no {} ({error})", error.call),
        linux::EPERM => format!("{error}: forbidden, perhaps by a filter of system calls (seccomp)"),
        _ => error.to_string(),
    };
    let known = remedies.iter().find(|(errno, _)| *errno == error.errno()).map(|(_, remedy)| *remedy);
    let remedy = known.or((error.errno() == linux::EMFILE).then_some("raise the limit of open files (ulimit -n)"));
    Unavailable { why, remedy: remedy.map(Hint::from) }
}

/// Waits that train a sleeper before the first recorded one: a block of the learner, and some more.
const LEARNING: u32 = 40;
/// A longer wait is not rehearsed: forty of them would take too long.
const LONGEST_LEARNED_NS: i64 = 5_000_000;

/// Iterations between two checks of the stop request: well below a millisecond even if an iteration makes a system
/// call.
const TURNS: u32 = 256;

/// A sleeper for each condition set: training under one does not apply to another.
struct Library {
    strategy: Strategy,
    sleepers: Vec<Option<Sleeper>>,
    now: usize,
}

pub(crate) fn open_sleeper(strategy: Strategy) -> Opened {
    let mut library = Library { strategy, sleepers: Vec::new(), now: 0 };
    library.ensure(0);
    Ok(Box::new(library))
}

impl Library {
    /// Opens the sleeper of this condition set, if it is not open, and goes on with it.
    fn ensure(&mut self, conditions: usize) {
        if self.sleepers.len() <= conditions {
            self.sleepers.resize_with(conditions + 1, || None);
        }
        self.sleepers[conditions].get_or_insert_with(|| SleeperOptions::new().strategy(self.strategy).build());
        self.now = conditions;
    }
}

impl Waiter for Library {
    fn begin(&mut self, conditions: usize, asked_ns: i64) -> linux::Result<()> {
        self.ensure(conditions);
        let sleeper = self.sleepers[conditions].as_ref();
        let knows = sleeper.is_some_and(|s| s.learner().typical_latency_ns(asked_ns).is_some());
        if self.strategy != Strategy::Native && !knows && asked_ns <= LONGEST_LEARNED_NS {
            for _ in 0..LEARNING {
                let from_ns = linux::clock::now_ns(Clock::Monotonic);
                self.wait(from_ns, asked_ns)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = Moment::from_nanos(from_ns.saturating_add(asked_ns));
        let Some(sleeper) = self.sleepers[self.now].as_mut() else { return Ok(()) };
        match sleeper.sleep_until_unless(deadline, linux::stop::requested) {
            Some(_) => Ok(()),
            None => Err(linux::Error::from_errno("clock_nanosleep", linux::EINTR)),
        }
    }

    fn end(&mut self) {
        for sleeper in self.sleepers.iter_mut().flatten() {
            sleeper.restore_timer_slack();
        }
    }
}

/// Spins on the clock, with an action in each iteration.
struct OnClock<F> {
    turn: F,
}

pub(crate) fn on_clock(turn: impl FnMut() -> linux::Result<()> + 'static) -> Opened {
    Ok(Box::new(OnClock { turn }))
}

impl<F: FnMut() -> linux::Result<()>> Waiter for OnClock<F> {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            for _ in 0..TURNS {
                if now_ns(Clock::Monotonic) >= deadline {
                    return Ok(());
                }
                (self.turn)()?;
            }
            go_on("spin")?;
        }
    }
}

/// Spins on the CPU's counter.
struct OnCounter {
    counter: Counter,
}

pub(crate) fn open_counter() -> Opened {
    let counter = Counter::calibrate().map_err(|why| Unavailable::because(why.to_string()))?;
    Ok(Box::new(OnCounter { counter }))
}

impl Waiter for OnCounter {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            // The clock decides: calibration is never exact, and the counter may run slow after a migration.
            let start = self.counter.ticks();
            let remaining = deadline - now_ns(Clock::Monotonic);
            if remaining <= 0 {
                return Ok(());
            }
            let span = self.counter.ticks_of(remaining);
            let mut turns = 0_u32;
            while self.counter.ticks().wrapping_sub(start) < span {
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(4096) {
                    go_on("spin")?;
                }
            }
        }
    }
}

struct InUserMode {
    instruction: UserWait,
    counter: Counter,
    watched: Watched,
}

pub(crate) fn open_instruction(instruction: Instruction) -> Opened {
    let instruction = UserWait::open(instruction).map_err(|why| Unavailable::because(why.to_string()))?;
    let counter = Counter::calibrate().map_err(|why| Unavailable::because(why.to_string()))?;
    Ok(Box::new(InUserMode { instruction, counter, watched: Watched::default() }))
}

impl Waiter for InUserMode {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            let ticks = self.counter.ticks();
            let remaining = deadline - now_ns(Clock::Monotonic);
            if remaining <= 0 {
                return Ok(());
            }
            // May end earlier: at an interrupt, or at the kernel's limit for one instruction.
            self.instruction.until(ticks.saturating_add(self.counter.ticks_of(remaining)), &self.watched);
            go_on("user wait")?;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    #[test]
    fn a_call_that_the_kernel_lacks_is_refused_at_once() {
        let refused = relative(|_| Err(linux::Error::from_errno("snooze", linux::ENOSYS))).err().unwrap();
        assert!(refused.why.contains("this kernel has no snooze"), "{refused}");
        let refused = absolute(Clock::Tai, |_| Err(linux::Error::from_errno("snooze", linux::EPERM))).err().unwrap();
        assert!(refused.why.contains("forbidden"), "{refused}");
    }

    #[test]
    fn remedies_belong_to_error_numbers() {
        let remedies: Remedies = &[(linux::ENOSPC, "make room")];
        let remedy = |errno| unavailable(&linux::Error::from_errno("snooze", errno), remedies).remedy;
        assert_eq!(remedy(linux::ENOSPC), Some("make room".into()));
        assert!(remedy(linux::EMFILE).unwrap().to_string().contains("ulimit -n"));
        assert_eq!(remedy(linux::ENOMEM), None);
    }

    #[test]
    fn long_waits_on_calls_that_hide_signals_are_cut_into_slices() {
        let asked = 1_500_000_000;
        let longest = std::rc::Rc::new(std::cell::Cell::new(0));
        let seen = longest.clone();
        let mut waiter = relative_up_to(UNCUTTABLE_NS, move |ns| {
            seen.set(seen.get().max(ns));
            std::thread::sleep(std::time::Duration::from_nanos(ns.unsigned_abs()));
            Ok(Ended::TimeUp)
        })
        .unwrap();
        let from = now_ns(Clock::Monotonic);
        waiter.wait(from, asked).unwrap();
        assert!(now_ns(Clock::Monotonic) - from >= asked);
        assert_eq!(longest.get(), UNCUTTABLE_NS);
    }
}

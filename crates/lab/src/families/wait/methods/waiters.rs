//! The two shapes that most methods share: a call with a duration, and a call with a deadline.
//!
//! A shape turns one timed call, which a signal may interrupt, into a wait that is never early. It continues with the
//! time left on `CLOCK_MONOTONIC`. It allocates nothing, and reads no clock after a call that reports a timeout.

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::timed::{Armed, Ended};

use crate::frame::Unavailable;
use crate::frame::progress::go_on;
use crate::ways::wait::Waiter;

/// The longest single call of those that hide signals from their caller, so that a stop request is noticed. A shorter
/// wait is one call.
pub(super) const UNCUTTABLE_NS: i64 = 1_000_000_000;

/// The result of a method's `open`.
pub(super) type Opened = crate::frame::error::Opened<dyn Waiter>;

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
pub(super) fn relative(call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    relative_up_to(i64::MAX, call)
}

/// The same for a call that takes at most `longest_ns` at a time.
pub(super) fn relative_up_to(longest_ns: i64, mut call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    tried(call(0))?;
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
pub(super) fn absolute(clock: Clock, call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    absolute_up_to(i64::MAX, clock, call)
}

/// The same for a call that hides signals: each call lasts at most [`UNCUTTABLE_NS`].
pub(super) fn absolute_uncuttable(clock: Clock, call: impl FnMut(i64) -> linux::Result<Ended> + 'static) -> Opened {
    absolute_up_to(UNCUTTABLE_NS, clock, call)
}

fn absolute_up_to(
    longest_ns: i64,
    clock: Clock,
    mut call: impl FnMut(i64) -> linux::Result<Ended> + 'static,
) -> Opened {
    tried(call(0))?;
    Ok(Box::new(Absolute { clock, longest_ns, call }))
}

/// Judges a first call: only an error makes the method unavailable, not how the wait ended.
fn tried(first: linux::Result<Ended>) -> Result<(), Unavailable> {
    first.map(drop).map_err(|e| unavailable(&e, &[]))
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
pub(super) fn timed<T: Armed + 'static>(opened: linux::Result<T>, remedies: Remedies) -> Opened {
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
pub(super) type Remedies = &'static [(i32, &'static str)];

/// Turns a failure to open into a reason, with the remedy for its error number.
pub(super) fn unavailable(error: &linux::Error, remedies: Remedies) -> Unavailable {
    let why = match error.errno() {
        linux::ENOSYS => format!("this kernel has no {} ({error})", error.call),
        linux::EPERM => format!("{error}: forbidden, perhaps by a filter of system calls (seccomp)"),
        _ => error.to_string(),
    };
    let known = remedies.iter().find(|(errno, _)| *errno == error.errno()).map(|(_, remedy)| *remedy);
    let remedy = known.or((error.errno() == linux::EMFILE).then_some("raise the limit of open files (ulimit -n)"));
    Unavailable { why, remedy: remedy.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(remedy(linux::ENOSPC).as_deref(), Some("make room"));
        assert!(remedy(linux::EMFILE).unwrap().contains("ulimit -n"));
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

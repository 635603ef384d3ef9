//! Waits of nearly no time: what programs put into loops that look for work.

use std::cell::Cell;

use punctual_rules::Zero;

use crate::filter::Foreign;
use crate::next::{self, now_ns};

/// Calls closer to each other than this belong to one loop without work.
const SAME_LOOP_NS: i64 = 50_000;
/// Calls of such a loop that pause, before it yields.
const PAUSES: u32 = 64;
/// Calls that pause or yield, before the C library's own call.
const YIELDS: u32 = 256;
/// Turns of a pause: 64 pauses together take a few microseconds.
const TURNS: u32 = 4;
/// A sleep instead of a yield. A timer of a few microseconds is over before the thread gives up the CPU, where no slack makes it longer:
/// 8 us were too short on a virtual machine.
const SLEEP_NS: i64 = 20_000;

/// The present loop of a thread.
struct Streak {
    calls: Cell<u32>,
    last_ns: Cell<i64>,
}

thread_local! {
    static STREAK: Streak = const { Streak { calls: Cell::new(0), last_ns: Cell::new(0) } };
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Pause,
    Yield,
    Own,
}

/// Performs what is set instead of the call. False where the call itself is to be made.
pub(crate) fn replaced(zero: Zero) -> bool {
    match zero {
        Zero::Keep => false,
        Zero::Yield => yield_now(),
        Zero::Pause => pause(),
        Zero::Sleep => sleep(),
        Zero::Backoff => match next_step() {
            Step::Pause => pause(),
            Step::Yield => yield_now(),
            Step::Own => false,
        },
    }
}

/// The call itself was made: what comes soon after its end is the same loop.
pub(crate) fn called(zero: Zero) {
    if zero == Zero::Backoff {
        STREAK.with(|streak| streak.last_ns.set(now_ns()));
    }
}

fn pause() -> bool {
    (0..TURNS).for_each(|_| std::hint::spin_loop());
    true
}

static YIELD: Foreign = Foreign::new();
static SLEEP: Foreign = Foreign::new();

fn yield_now() -> bool {
    // SAFETY: takes nothing.
    instead(&YIELD, || unsafe { next::sched_yield() })
}

fn sleep() -> bool {
    let time = next::timespec(SLEEP_NS);
    // SAFETY: reads one timespec; the rest is not wanted. An interrupted one is as good: sched_yield(2) knows no EINTR. Nor is it a
    // cancellation point, as nanosleep(3) is.
    let call = || unsafe { next::syscall(libc::SYS_nanosleep, &raw const time as _, 0, 0, 0, 0, 0) as libc::c_int };
    instead(&SLEEP, call)
}

/// Makes this call, and keeps errno; false where a filter refuses it.
fn instead(foreign: &Foreign, call: impl FnOnce() -> libc::c_int) -> bool {
    if !foreign.is_allowed() {
        return false;
    }
    let errno = next::errno();
    let done = call() == 0 || !foreign.is_refused(next::errno());
    next::set_errno(errno);
    done
}

fn next_step() -> Step {
    STREAK.with(|streak| {
        let now = now_ns();
        let again = now - streak.last_ns.replace(now) < SAME_LOOP_NS;
        let calls = if again { streak.calls.get().saturating_add(1) } else { 0 };
        streak.calls.set(calls);
        step(calls)
    })
}

fn step(calls: u32) -> Step {
    match calls {
        0..PAUSES => Step::Pause,
        PAUSES..YIELDS => Step::Yield,
        _ => Step::Own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_without_work_goes_from_pauses_to_its_own_call() {
        assert_eq!((step(0), step(PAUSES - 1)), (Step::Pause, Step::Pause));
        assert_eq!((step(PAUSES), step(YIELDS - 1)), (Step::Yield, Step::Yield));
        assert_eq!((step(YIELDS), step(u32::MAX)), (Step::Own, Step::Own));
    }

    #[test]
    fn a_loop_that_worked_begins_with_a_pause() {
        STREAK.with(|streak| {
            streak.calls.set(YIELDS);
            streak.last_ns.set(now_ns() - SAME_LOOP_NS);
        });
        assert_eq!(next_step(), Step::Pause);
    }

    #[test]
    fn a_loop_that_sleeps_goes_on_sleeping() {
        STREAK.with(|streak| streak.calls.set(YIELDS));
        let before = now_ns();
        called(Zero::Backoff);
        // The machine may stop this thread here for longer than a loop without work may pause.
        let ended = STREAK.with(|streak| streak.last_ns.replace(i64::MAX / 2));
        assert!((before..=now_ns()).contains(&ended), "it counts from the end of the call");
        assert_eq!(next_step(), Step::Own);
    }

    #[test]
    fn a_call_that_a_filter_refuses_is_not_made_again() {
        static REFUSED: Foreign = Foreign::new();
        next::set_errno(77);
        assert!(instead(&REFUSED, || 0));
        let refuse = || {
            next::set_errno(libc::EPERM);
            -1
        };
        assert!(!instead(&REFUSED, refuse) && !instead(&REFUSED, || panic!("again")));
        assert_eq!(next::errno(), 77);
    }

    #[test]
    fn what_is_kept_is_not_replaced() {
        assert!(!replaced(Zero::Keep));
        assert!(replaced(Zero::Yield) && replaced(Zero::Pause) && replaced(Zero::Sleep));
    }
}

//! `nanosleep`, `clock_nanosleep`, `usleep`, `sleep`, `thrd_sleep`; and `sched_yield`, `pthread_yield`, `thrd_yield`, which are the same.

use libc::{c_int, c_long, c_uint, clockid_t, timespec, useconds_t};
use punctual::margin::Aim;
use punctual_rules::Zero;

use crate::callers::Caller;
use crate::next::{length_ns, now_ns, spin_until, timespec as timespec_of};
use crate::settings::Settings;
use crate::{memory, next, scheduling, settings, zero};

/// Up to this length a sleep asks for nearly no time.
const NEARLY_NONE_NS: i64 = 1_000;

/// The way of a sleep.
enum Sleep {
    /// By the C library's function.
    Kept,
    /// It is over: something else was done instead.
    Replaced,
    /// Until this time, with a margin.
    Precise(Aim, i64),
}

fn sleep_of(settings: &Settings, asked_ns: i64) -> Sleep {
    if asked_ns <= NEARLY_NONE_NS {
        return if zero::replaced(settings.usleep0) { Sleep::Replaced } else { Sleep::Kept };
    }
    settings.precise.map_or(Sleep::Kept, |aim| Sleep::Precise(aim, now_ns().saturating_add(asked_ns)))
}

/// Whether nothing concerns these sleeps: no setting, and no slack that other sleeps need.
fn unchanged(settings: &Settings) -> bool {
    settings.usleep0 == Zero::Keep && settings.precise.is_none() && !scheduling::slack_is_lower()
}

/// Sleeps until `deadline_ns` of CLOCK_MONOTONIC. `sleep` is the program's own call, which gets the end and the length of its part. It
/// returns 0, or what the program is to get.
fn precisely(aim: Aim, deadline_ns: i64, call: &impl Call, sleep: impl FnOnce(i64, i64) -> c_int) -> c_int {
    let now = now_ns();
    let wait_ns = deadline_ns - now;
    match settings::margin_ns(aim, wait_ns).filter(|margin_ns| wait_ns > *margin_ns) {
        Some(margin_ns) => {
            let target_ns = deadline_ns - margin_ns;
            let done = sleep(target_ns, target_ns - now);
            if done != 0 {
                return done;
            }
            settings::saw(aim, wait_ns, now_ns() - target_ns);
        }
        None => call.end_if_cancelled(),
    }
    spin_until(deadline_ns);
    0
}

/// A call of the C library that sleeps.
trait Call {
    /// Makes it: 0, or what the program is to get.
    fn make(&self, asked: *const timespec, rest: *mut timespec) -> c_int;
    /// Ends the thread if it was cancelled, where the call does.
    fn end_if_cancelled(&self) {
        next::end_if_cancelled();
    }
    /// Whether it failed because a signal came.
    fn is_interrupted(&self, done: c_int) -> bool {
        done != 0 && next::errno() == libc::EINTR
    }
}

/// A sleep of this length by nanosleep(2)'s rules. The program's own call makes it.
fn sleep_for(caller: Caller, asked: *const timespec, rest: *mut timespec, call: &impl Call) -> c_int {
    let settings = settings::for_caller(caller);
    let kept = || call.make(asked, rest);
    if unchanged(&settings) {
        return kept();
    }
    let Some(asked_ns) = memory::read(asked).as_ref().and_then(length_ns) else { return kept() };
    match sleep_of(&settings, asked_ns) {
        Sleep::Kept => {
            let done = if asked_ns <= NEARLY_NONE_NS { scheduling::with_slack_as_before(kept) } else { kept() };
            zero::called(settings.usleep0);
            done
        }
        Sleep::Replaced => {
            call.end_if_cancelled();
            0
        }
        Sleep::Precise(aim, deadline_ns) => {
            let done = precisely(aim, deadline_ns, call, |_, length_ns| call.make(&timespec_of(length_ns), rest));
            // The kernel has written what is left of the shorter sleep.
            if call.is_interrupted(done) && !rest.is_null() {
                // SAFETY: the kernel could write there.
                unsafe { rest.write_unaligned(timespec_of(deadline_ns - now_ns())) };
            }
            done
        }
    }
}

struct Nanosleep;

impl Call for Nanosleep {
    fn make(&self, asked: *const timespec, rest: *mut timespec) -> c_int {
        // SAFETY: the arguments of the caller, or a time of this library.
        unsafe { next::nanosleep(asked, rest) }
    }
}

/// As nanosleep(2).
///
/// # Safety
/// As nanosleep(2).
pub(crate) unsafe extern "C-unwind" fn nanosleep(asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
    sleep_for(caller, asked, rest, &Nanosleep)
}

/// nanosleep(2) by its number, which is no cancellation point.
///
/// # Safety
/// As nanosleep(2).
pub(super) unsafe fn nanosleep_by_number(asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
    struct ByNumber;
    impl Call for ByNumber {
        fn make(&self, asked: *const timespec, rest: *mut timespec) -> c_int {
            // SAFETY: the arguments of the caller, or a time of this library.
            unsafe { next::syscall(libc::SYS_nanosleep, asked as _, rest as _, 0, 0, 0, 0) as _ }
        }

        fn end_if_cancelled(&self) {}
    }
    sleep_for(caller, asked, rest, &ByNumber)
}

/// clock_nanosleep(2): the C library's function, which returns the error number, or the system call.
struct ClockNanosleep {
    clock: clockid_t,
    flags: c_int,
    by_number: bool,
}

impl Call for ClockNanosleep {
    fn make(&self, asked: *const timespec, rest: *mut timespec) -> c_int {
        let Self { clock, flags, by_number } = *self;
        if !by_number {
            // SAFETY: the arguments of the caller, or a time of this library.
            return unsafe { next::clock_nanosleep(clock, flags, asked, rest) };
        }
        let (asked, rest) = (asked as c_long, rest as c_long);
        // SAFETY: the same.
        unsafe { next::syscall(libc::SYS_clock_nanosleep, clock.into(), flags.into(), asked, rest, 0, 0) as _ }
    }

    fn end_if_cancelled(&self) {
        if !self.by_number {
            next::end_if_cancelled();
        }
    }

    fn is_interrupted(&self, done: c_int) -> bool {
        if self.by_number { done != 0 && next::errno() == libc::EINTR } else { done == libc::EINTR }
    }
}

impl ClockNanosleep {
    /// Absolute times of other clocks than CLOCK_MONOTONIC are kept.
    fn sleep(&self, asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
        let steady = matches!(self.clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME);
        match self.flags {
            0 if steady => sleep_for(caller, asked, rest, self),
            libc::TIMER_ABSTIME if self.clock == libc::CLOCK_MONOTONIC => self.sleep_until(asked, rest, caller),
            _ => self.make(asked, rest),
        }
    }

    fn sleep_until(&self, asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
        let Some(aim) = settings::for_caller(caller).precise else { return self.make(asked, rest) };
        match memory::read(asked).as_ref().and_then(length_ns) {
            Some(deadline_ns) if deadline_ns > now_ns() + NEARLY_NONE_NS => {
                precisely(aim, deadline_ns, self, |target_ns, _| self.make(&timespec_of(target_ns), rest))
            }
            _ => self.make(asked, rest),
        }
    }
}

/// As clock_nanosleep(2): returns the error number.
///
/// # Safety
/// As clock_nanosleep(2).
pub(crate) unsafe extern "C-unwind" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    asked: *const timespec,
    rest: *mut timespec,
    caller: Caller,
) -> c_int {
    ClockNanosleep { clock, flags, by_number: false }.sleep(asked, rest, caller)
}

/// The system call by its number, which is no cancellation point and returns -1.
///
/// # Safety
/// As clock_nanosleep(2).
pub(super) unsafe fn clock_nanosleep_by_number(
    clock: clockid_t,
    flags: c_int,
    asked: *const timespec,
    rest: *mut timespec,
    caller: Caller,
) -> c_int {
    ClockNanosleep { clock, flags, by_number: true }.sleep(asked, rest, caller)
}

/// As usleep(3).
///
/// # Safety
/// It has no requirements.
pub(crate) unsafe extern "C-unwind" fn usleep(microseconds: useconds_t, caller: Caller) -> c_int {
    struct Usleep;
    impl Call for Usleep {
        fn make(&self, asked: *const timespec, _: *mut timespec) -> c_int {
            // SAFETY: a time of this library.
            let length_ns = length_ns(unsafe { &*asked }).unwrap_or(0);
            // SAFETY: takes a number.
            unsafe { next::usleep((length_ns as u64).div_ceil(1_000) as useconds_t) }
        }
    }
    sleep_for(caller, &timespec_of(i64::from(microseconds) * 1_000), std::ptr::null_mut(), &Usleep)
}

/// As sleep(3): returns the seconds that are left.
///
/// # Safety
/// It has no requirements.
pub(crate) unsafe extern "C-unwind" fn sleep(seconds: c_uint, caller: Caller) -> c_uint {
    let asked = timespec_of(i64::from(seconds) * 1_000_000_000);
    let mut rest = asked;
    // glibc's is nanosleep(2) with the rest, rounded down.
    let done = sleep_for(caller, &raw const asked, &raw mut rest, &Nanosleep);
    if done == 0 { 0 } else { rest.tv_sec as c_uint }
}

/// As thrd_sleep(3): 0, -1 if a signal ended it, or another negative number.
///
/// # Safety
/// As thrd_sleep(3).
pub(crate) unsafe extern "C-unwind" fn thrd_sleep(
    asked: *const timespec,
    rest: *mut timespec,
    caller: Caller,
) -> c_int {
    struct ThrdSleep;
    impl Call for ThrdSleep {
        fn make(&self, asked: *const timespec, rest: *mut timespec) -> c_int {
            // SAFETY: the arguments of the caller, or a time of this library.
            unsafe { next::thrd_sleep(asked, rest) }
        }

        fn is_interrupted(&self, done: c_int) -> bool {
            done == -1
        }
    }
    sleep_for(caller, asked, rest, &ThrdSleep)
}

/// As sched_yield(2), or what the setting `sched_yield` says. It never fails.
pub(crate) extern "C-unwind" fn sched_yield(caller: Caller) -> c_int {
    let what = settings::for_caller(caller).sched_yield;
    if what != Zero::Keep && zero::replaced(what) {
        return 0;
    }
    // SAFETY: takes nothing.
    let done = unsafe { next::sched_yield() };
    zero::called(what);
    done
}

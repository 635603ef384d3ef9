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

/// Whether nothing concerns these sleeps: no setting, and no slack that other sleeps need.
fn unchanged(settings: &Settings) -> bool {
    settings.usleep0 == Zero::Keep && settings.precise.is_none() && !scheduling::slack_is_lower()
}

/// A call of the C library that sleeps.
struct Call<Make> {
    /// Makes it: 0, or what the program is to get.
    make: Make,
    /// Whether it ends a thread that was cancelled.
    is_cancelled: bool,
    /// The result where a signal came; none where errno says so.
    interrupted: Option<c_int>,
}

impl<Make: Fn(*const timespec, *mut timespec) -> c_int> Call<Make> {
    fn end_if_cancelled(&self) {
        if self.is_cancelled {
            next::end_if_cancelled();
        }
    }

    fn is_interrupted(&self, done: c_int) -> bool {
        self.interrupted.map_or_else(|| done != 0 && next::errno() == libc::EINTR, |interrupted| done == interrupted)
    }

    /// A sleep of this length by nanosleep(2)'s rules. The program's own call makes it.
    fn sleep_for(&self, caller: Caller, asked: *const timespec, rest: *mut timespec) -> c_int {
        let settings = settings::for_caller(caller);
        let kept = || (self.make)(asked, rest);
        if unchanged(&settings) {
            return kept();
        }
        let Some(asked_ns) = memory::read(asked).as_ref().and_then(length_ns) else { return kept() };
        let is_short = asked_ns <= NEARLY_NONE_NS;
        match settings.precise {
            _ if is_short && zero::replaced(settings.usleep0) => {
                self.end_if_cancelled();
                0
            }
            Some(aim) if !is_short => {
                let deadline_ns = now_ns().saturating_add(asked_ns);
                let make = |_, length_ns| (self.make)(&timespec_of(length_ns), rest);
                let done = self.precisely(aim, deadline_ns, make);
                // The kernel has written what is left of the shorter sleep.
                if self.is_interrupted(done) && !rest.is_null() {
                    // SAFETY: the kernel could write there.
                    unsafe { rest.write_unaligned(timespec_of(deadline_ns - now_ns())) };
                }
                done
            }
            _ => {
                let done = if is_short { scheduling::with_slack_as_before(kept) } else { kept() };
                zero::called(settings.usleep0);
                done
            }
        }
    }

    /// The same until a time of CLOCK_MONOTONIC.
    fn sleep_until(&self, caller: Caller, asked: *const timespec, rest: *mut timespec) -> c_int {
        let kept = || (self.make)(asked, rest);
        let Some(aim) = settings::for_caller(caller).precise else { return kept() };
        match memory::read(asked).as_ref().and_then(length_ns) {
            Some(deadline_ns) if deadline_ns > now_ns() + NEARLY_NONE_NS => {
                self.precisely(aim, deadline_ns, |target_ns, _| (self.make)(&timespec_of(target_ns), rest))
            }
            _ => kept(),
        }
    }

    /// Sleeps until `deadline_ns` of CLOCK_MONOTONIC. `sleep` is the program's own call, which gets the end and the length of its part. It
    /// returns 0, or what the program is to get.
    fn precisely(&self, aim: Aim, deadline_ns: i64, sleep: impl FnOnce(i64, i64) -> c_int) -> c_int {
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
            None => self.end_if_cancelled(),
        }
        spin_until(deadline_ns);
        0
    }

    /// clock_nanosleep(2). Absolute times of other clocks than CLOCK_MONOTONIC are kept.
    fn sleep_by(
        &self,
        clock: clockid_t,
        flags: c_int,
        asked: *const timespec,
        rest: *mut timespec,
        caller: Caller,
    ) -> c_int {
        let steady = matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME);
        match flags {
            0 if steady => self.sleep_for(caller, asked, rest),
            libc::TIMER_ABSTIME if clock == libc::CLOCK_MONOTONIC => self.sleep_until(caller, asked, rest),
            _ => (self.make)(asked, rest),
        }
    }
}

/// As nanosleep(2).
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn nanosleep(asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
    // SAFETY: the arguments of the caller, or a time of this library.
    let make = |asked, rest| unsafe { next::nanosleep(asked, rest) };
    Call { make, is_cancelled: true, interrupted: None }.sleep_for(caller, asked, rest)
}

/// nanosleep(2) by its number, which is no cancellation point.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn nanosleep_by_number(asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
    // SAFETY: the arguments of the caller, or a time of this library.
    let make = |asked, rest| unsafe { next::syscall(libc::SYS_nanosleep, asked as _, rest as _, 0, 0, 0, 0) as _ };
    Call { make, is_cancelled: false, interrupted: None }.sleep_for(caller, asked, rest)
}

/// As clock_nanosleep(2): returns the error number.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    asked: *const timespec,
    rest: *mut timespec,
    caller: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller, or a time of this library.
    let make = |asked, rest| unsafe { next::clock_nanosleep(clock, flags, asked, rest) };
    let call = Call { make, is_cancelled: true, interrupted: Some(libc::EINTR) };
    call.sleep_by(clock, flags, asked, rest, caller)
}

/// The system call by its number, which is no cancellation point and returns -1.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn clock_nanosleep_by_number(
    clock: clockid_t,
    flags: c_int,
    asked: *const timespec,
    rest: *mut timespec,
    caller: Caller,
) -> c_int {
    let [on, how] = [c_long::from(clock), c_long::from(flags)];
    // SAFETY: the arguments of the caller, or a time of this library.
    let make =
        |asked, rest| unsafe { next::syscall(libc::SYS_clock_nanosleep, on, how, asked as _, rest as _, 0, 0) as _ };
    Call { make, is_cancelled: false, interrupted: None }.sleep_by(clock, flags, asked, rest, caller)
}

/// As usleep(3).
pub(super) fn usleep(microseconds: useconds_t, caller: Caller) -> c_int {
    let make = |asked: *const timespec, _| {
        // SAFETY: a time of this library.
        let length_ns = length_ns(unsafe { &*asked }).unwrap_or(0);
        // SAFETY: takes a number.
        unsafe { next::usleep((length_ns as u64).div_ceil(1_000) as useconds_t) }
    };
    let asked = timespec_of(i64::from(microseconds) * 1_000);
    Call { make, is_cancelled: true, interrupted: None }.sleep_for(caller, &asked, std::ptr::null_mut())
}

/// As sleep(3): returns the seconds that are left.
pub(super) fn sleep(seconds: c_uint, caller: Caller) -> c_uint {
    let asked = timespec_of(i64::from(seconds) * 1_000_000_000);
    let mut rest = asked;
    // glibc's is nanosleep(2) with the rest, rounded down.
    // SAFETY: times of this function.
    let done = unsafe { nanosleep(&raw const asked, &raw mut rest, caller) };
    if done == 0 { 0 } else { rest.tv_sec as c_uint }
}

/// As thrd_sleep(3): 0, -1 if a signal ended it, or another negative number.
///
/// # Safety
/// Its pointers are as the C function takes them.
pub(super) unsafe fn thrd_sleep(asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
    // SAFETY: the arguments of the caller, or a time of this library.
    let make = |asked, rest| unsafe { next::thrd_sleep(asked, rest) };
    Call { make, is_cancelled: true, interrupted: Some(-1) }.sleep_for(caller, asked, rest)
}

/// As sched_yield(2), or what the setting `sched_yield` says. It never fails.
pub(super) fn sched_yield(caller: Caller) -> c_int {
    let what = settings::for_caller(caller).sched_yield;
    if what != Zero::Keep && zero::replaced(what) {
        return 0;
    }
    // SAFETY: takes nothing.
    let done = unsafe { next::sched_yield() };
    zero::called(what);
    done
}

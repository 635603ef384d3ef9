//! `nanosleep`, `clock_nanosleep`, `usleep`, `sleep`, `thrd_sleep`.

use libc::{c_int, c_uint, clockid_t, timespec, useconds_t};
use punctual::margin::Aim;
use punctual_rules::Zero;

use crate::caller::Caller;
use crate::now::{length_ns, now_ns, spin_until, timespec as timespec_of};
use crate::settings::Settings;
use crate::{learn, next, settings, slack, zero};

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
    settings.usleep0 == Zero::Keep && settings.precise.is_none() && !slack::is_lower()
}

/// Sleeps until `deadline_ns` of CLOCK_MONOTONIC. The time that is left if a signal ended it, or an error of the kernel.
fn precisely(aim: Aim, deadline_ns: i64) -> Result<(), Interrupted> {
    let wait_ns = deadline_ns - now_ns();
    if let Some(margin_ns) = learn::margin_ns(aim, wait_ns).filter(|_| wait_ns > 0) {
        let target_ns = deadline_ns - margin_ns;
        let target = timespec_of(target_ns);
        // SAFETY: reads one timespec; an absolute sleep has no rest.
        let failed = unsafe {
            next::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const target, std::ptr::null_mut())
        };
        let woke_ns = now_ns();
        if failed != 0 {
            return Err(Interrupted { errno: failed, rest_ns: (deadline_ns - woke_ns).max(0) });
        }
        learn::saw(aim, wait_ns, woke_ns - target_ns);
    }
    spin_until(deadline_ns);
    Ok(())
}

/// A sleep that a signal ended.
struct Interrupted {
    errno: c_int,
    rest_ns: i64,
}

impl Interrupted {
    /// Writes what is left where the program wants it, and gives the error.
    fn told(&self, rest: *mut timespec) -> c_int {
        if !rest.is_null() && self.errno == libc::EINTR {
            // SAFETY: the caller gave a pointer to a timespec, as for the C library's function.
            unsafe { rest.write(timespec_of(self.rest_ns)) };
        }
        self.errno
    }
}

/// A sleep of this length by nanosleep(2)'s rules: 0, or an error number. `kept` is the C library's.
fn sleep_for(caller: Caller, asked: *const timespec, rest: *mut timespec, kept: impl Fn() -> c_int) -> c_int {
    let settings = settings::of(caller);
    if unchanged(&settings) || asked.is_null() {
        return kept();
    }
    // SAFETY: the caller gave a pointer to a timespec, as for the C library's function.
    let Some(asked_ns) = length_ns(unsafe { &*asked }) else { return kept() };
    match sleep_of(&settings, asked_ns) {
        Sleep::Kept => {
            let done = if asked_ns <= NEARLY_NONE_NS { slack::as_before(kept) } else { kept() };
            zero::called(settings.usleep0);
            done
        }
        Sleep::Replaced => 0,
        Sleep::Precise(aim, deadline_ns) => match precisely(aim, deadline_ns) {
            Ok(()) => 0,
            Err(interrupted) => interrupted.told(rest),
        },
    }
}

/// Reports an error number as most functions do: -1, and errno.
fn as_errno(error: c_int) -> c_int {
    if error > 0 {
        next::set_errno(error);
        return -1;
    }
    error
}

/// As nanosleep(2).
///
/// # Safety
/// As nanosleep(2).
pub(crate) unsafe extern "C-unwind" fn nanosleep(asked: *const timespec, rest: *mut timespec, caller: Caller) -> c_int {
    // SAFETY: the arguments of the caller.
    as_errno(sleep_for(caller, asked, rest, || unsafe { next::nanosleep(asked, rest) }))
}

/// As clock_nanosleep(2): returns the error number. Absolute times of other clocks than CLOCK_MONOTONIC are kept.
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
    // SAFETY: the arguments of the caller.
    let kept = || unsafe { next::clock_nanosleep(clock, flags, asked, rest) };
    let steady = matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME);
    match flags {
        0 if steady => sleep_for(caller, asked, rest, kept),
        libc::TIMER_ABSTIME if clock == libc::CLOCK_MONOTONIC && !asked.is_null() => {
            // SAFETY: the caller gave a pointer to a timespec.
            match (settings::of(caller).precise, length_ns(unsafe { &*asked })) {
                (Some(aim), Some(deadline_ns)) if deadline_ns > now_ns() + NEARLY_NONE_NS => {
                    precisely(aim, deadline_ns).map_or_else(|interrupted| interrupted.errno, |()| 0)
                }
                _ => kept(),
            }
        }
        _ => kept(),
    }
}

/// As usleep(3).
///
/// # Safety
/// It has no requirements.
pub(crate) unsafe extern "C-unwind" fn usleep(microseconds: useconds_t, caller: Caller) -> c_int {
    let asked = timespec_of(i64::from(microseconds) * 1_000);
    // SAFETY: takes a number.
    as_errno(sleep_for(caller, &raw const asked, std::ptr::null_mut(), || unsafe { next::usleep(microseconds) }))
}

/// As sleep(3): returns the seconds that are left.
///
/// # Safety
/// It has no requirements.
pub(crate) unsafe extern "C-unwind" fn sleep(seconds: c_uint, caller: Caller) -> c_uint {
    let mut rest = timespec_of(i64::from(seconds) * 1_000_000_000);
    let asked = rest;
    // SAFETY: both are this function's own. glibc's sleep(3) is nanosleep(2) with the rest, rounded down.
    let done = unsafe { nanosleep(&raw const asked, &raw mut rest, caller) };
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
    // SAFETY: the arguments of the caller.
    match sleep_for(caller, asked, rest, || unsafe { next::thrd_sleep(asked, rest) }) {
        libc::EINTR => -1,
        error if error > 0 => -2,
        done => done,
    }
}

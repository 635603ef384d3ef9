//! The timer slack: 1 ns where sleeps are precise, but not for the shortest sleeps.
//!
//! With 1 ns, the timer of a short sleep is over before the thread gives up the CPU. A sleep of at most 1 µs is short. A loop that
//! lets others run by `usleep(0)` would starve them. So a sleep of nearly no time has the slack that the thread had before.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::scheduling::{set_slack_ns, slack_ns};
use crate::{filter, holding};

/// The slack of precise sleeps.
const LEAST_NS: u64 = 1;

/// The slack of the process before; 0 if it was left.
static BEFORE_NS: AtomicU64 = AtomicU64::new(0);

/// The slack that `punctual run` found. A program that another one with this library executes has 1 ns from
/// it already.
fn handed_down() -> Option<u64> {
    // SAFETY: the name ends with a zero byte; no other thread exists yet that could change the environment.
    let value = unsafe { libc::getenv(c"PUNCTUAL_SLACK_NS".as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv(3) returns a string that ends with a zero byte.
    unsafe { CStr::from_ptr(value) }.to_str().ok()?.parse().ok()
}

/// Sets the slack of this thread to 1 ns. The threads that it starts inherit it. Runs once, when the program is loaded.
pub(crate) fn lower() {
    let found_ns = slack_ns().unwrap_or(0);
    let before_ns = if found_ns == LEAST_NS { handed_down().unwrap_or(found_ns) } else { found_ns };
    BEFORE_NS.store(before_ns, Ordering::Relaxed);
    set_slack_ns(LEAST_NS);
}

/// Whether all threads have less slack than before.
#[inline]
pub(crate) fn is_lower() -> bool {
    BEFORE_NS.load(Ordering::Relaxed) != 0
}

/// The slack that the thread had before precise sleeps lowered it. It is not asked for under a filter of the program's own.
fn lowered_from() -> Option<u64> {
    if !filter::may_try() {
        return None;
    }
    let before_ns = match BEFORE_NS.load(Ordering::Relaxed) {
        0 => holding::changed().slack_for_precision_ns()?,
        before_ns => before_ns,
    };
    (before_ns > LEAST_NS && slack_ns() == Some(LEAST_NS)).then_some(before_ns)
}

/// Makes a call with the slack of before. A slack that the program set itself stays.
pub(crate) fn as_before<T>(call: impl FnOnce() -> T) -> T {
    let Some(before_ns) = lowered_from() else { return call() };
    set_slack_ns(before_ns);
    let done = call();
    set_slack_ns(LEAST_NS);
    done
}

/// Gives the calling thread its slack back before a filter of system calls is on: sleeps of nearly no time cannot ask for it then.
pub(crate) fn put_back() {
    if let Some(before_ns) = lowered_from() {
        set_slack_ns(before_ns);
    }
}

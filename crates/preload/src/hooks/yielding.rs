//! `sched_yield`, `pthread_yield`, `thrd_yield`.

use libc::c_int;

use crate::settings::Zero;
use crate::{next, settings, zero};

fn yielded() -> c_int {
    let what = settings::get().sched_yield;
    if what != Zero::Keep && zero::replaced(what) {
        return 0;
    }
    // SAFETY: takes nothing.
    let done = unsafe { next::sched_yield() };
    zero::called(what);
    done
}

/// As sched_yield(2), or what the setting `sched_yield` says. It never fails.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn sched_yield() -> c_int {
    yielded()
}

/// As [`sched_yield`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pthread_yield() -> c_int {
    yielded()
}

/// As [`sched_yield`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn thrd_yield() {
    yielded();
}

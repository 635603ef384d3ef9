//! `sched_yield`, `pthread_yield` and `thrd_yield`, which are the same.

use libc::c_int;
use punctual_rules::Zero;

use crate::caller::Caller;
use crate::{next, settings, zero};

/// As sched_yield(2), or what the setting `sched_yield` says. It never fails.
pub(crate) extern "C-unwind" fn sched_yield(caller: Caller) -> c_int {
    let what = settings::of(caller).sched_yield;
    if what != Zero::Keep && zero::replaced(what) {
        return 0;
    }
    // SAFETY: takes nothing.
    let done = unsafe { next::sched_yield() };
    zero::called(what);
    done
}

//! `pthread_setname_np` and `prctl(PR_SET_NAME)`: rules may hold for the new name. `prctl(PR_SET_SECCOMP)`: a filter is on.

use libc::{c_char, c_int, c_ulong, pthread_t};

use crate::caller::Caller;
use crate::{filter, next, settings, slack, threads};

/// A name was set. Another thread notices at its next wait.
fn renamed() {
    if let Some(rules) = settings::rules() {
        threads::renamed();
        threads::rules_of(rules);
    }
}

/// The program turns on a filter of system calls.
pub(super) fn install_filter<T: PartialEq + From<i8>>(install: impl FnOnce() -> T) -> T {
    slack::put_back();
    filter::install(install)
}

/// As pthread_setname_np(3).
///
/// # Safety
/// As pthread_setname_np(3).
pub(crate) unsafe extern "C-unwind" fn pthread_setname_np(thread: pthread_t, name: *const c_char, _: Caller) -> c_int {
    // SAFETY: the arguments of the caller.
    let failed = unsafe { next::pthread_setname_np(thread, name) };
    if failed == 0 {
        renamed();
    }
    failed
}

/// As prctl(2).
///
/// # Safety
/// As prctl(2).
pub(crate) unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
    _: Caller,
) -> c_int {
    // SAFETY: the arguments of the caller.
    let kept = || unsafe { next::prctl(option, a, b, c, d) };
    let done = if option == libc::PR_SET_SECCOMP { install_filter(kept) } else { kept() };
    if option == libc::PR_SET_NAME && done == 0 {
        renamed();
    }
    done
}

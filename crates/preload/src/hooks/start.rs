//! What happens when the program is loaded.

use crate::{next, settings, threads};

/// Runs before the program's `main`, when its libraries are ready.
extern "C" fn start() {
    next::look_up_all();
    settings::read();
    if settings::precise_everywhere() {
        // SAFETY: sets the timer slack of this thread to 1 ns; the threads that it starts inherit it (prctl(2)). Refused, sleeps end up
        // to 50 us later, and the margin learns that.
        unsafe { next::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    }
    if let Some(rules) = settings::rules() {
        threads::rules_of(rules);
    }
}

// SAFETY: `.init_array` holds pointers to functions that the loader calls once each.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg(test)]
const _: extern "C" fn() = start;

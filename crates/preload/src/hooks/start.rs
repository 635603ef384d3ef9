//! What happens when the program is loaded.

/// Runs before the program's `main`, when its libraries are ready.
extern "C" fn start() {
    crate::next::look_up_all();
    crate::settings::read();
    if crate::settings::get().precise.is_some() {
        // SAFETY: sets the timer slack of this thread to 1 ns; the threads that it starts inherit it (prctl(2)). Refused, sleeps end up
        // to 50 us later, and the margin learns that.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
    }
}

// SAFETY: `.init_array` holds pointers to functions that the loader calls once each.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[cfg(test)]
const _: extern "C" fn() = start;

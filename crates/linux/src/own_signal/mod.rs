//! Timer signals of this process: blocked in the thread that waits for them, and handled harmlessly in all others.
//!
//! The real-time signals used here lie above those that the C library reserves (`SIGRTMIN` excludes these).

use std::mem::MaybeUninit;

mod alarm;
mod expiry;
mod handler;
mod held;

pub(crate) use alarm::AlarmTarget;
pub(crate) use expiry::{Slot, timer_value};
pub(crate) use handler::{Action, Handler};
pub(crate) use held::Held;

/// The signal of timers that `sigwaitinfo` waits for.
pub(crate) fn for_waiting() -> i32 {
    libc::SIGRTMIN() + 2
}

/// The signal of timers with a handler.
pub(crate) fn for_handling() -> i32 {
    libc::SIGRTMIN() + 3
}

/// The signal that `sigtimedwait` waits for; it is never sent.
pub(crate) fn for_nothing() -> i32 {
    libc::SIGRTMIN() + 4
}

/// The signal that interrupts a wait.
pub(crate) fn for_interrupting() -> i32 {
    libc::SIGRTMIN() + 5
}

/// An empty set with `signal` in it.
pub(crate) fn set_of(signal: i32) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        set.assume_init()
    }
}

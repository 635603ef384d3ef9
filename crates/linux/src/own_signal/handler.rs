//! Signal handlers, installed while in use.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Mutex;

use super::{alarm::forward, expiry::count};
use crate::{Result, check};

/// Does nothing: the signal's purpose is to interrupt a call.
extern "C" fn ignore(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// The action of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Count a timer's expiry in its [`Slot`].
    Count,
    /// Pass it on to the [`AlarmTarget`].
    Forward,
    /// Only interrupt calls (no `SA_RESTART`).
    Interrupt,
}

impl Action {
    fn address(self) -> libc::sighandler_t {
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = match self {
            Self::Count => count,
            Self::Forward => forward,
            Self::Interrupt => ignore,
        };
        handler as libc::sighandler_t
    }

    fn flags(self) -> i32 {
        if self == Self::Interrupt { libc::SA_SIGINFO } else { libc::SA_SIGINFO | libc::SA_RESTART }
    }
}

struct Installed {
    signal: i32,
    action: Action,
    users: usize,
    before: libc::sigaction,
}

static INSTALLED: Mutex<Vec<Installed>> = Mutex::new(Vec::new());

/// A handler, installed for a signal while in use; the last user restores the previous action.
#[derive(Debug)]
pub(crate) struct Handler(i32);

impl Handler {
    pub(crate) fn install(signal: i32, what: Action) -> Result<Self> {
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(entry) = installed.iter_mut().find(|entry| entry.signal == signal) {
            entry.users += 1;
            return Ok(Self(signal));
        }
        // SAFETY: all-zero bytes are a valid sigaction (default action, empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = what.address();
        action.sa_flags = what.flags();
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: `action` is valid, its handler is async-signal-safe; `before` is filled when the call succeeds.
        check("sigaction", unsafe { libc::sigaction(signal, &raw const action, before.as_mut_ptr()) })?;
        // SAFETY: filled by the call above.
        installed.push(Installed { signal, action: what, users: 1, before: unsafe { before.assume_init() } });
        Ok(Self(signal))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(place) = installed.iter().position(|entry| entry.signal == self.0) else { return };
        installed[place].users -= 1;
        if installed[place].users > 0 {
            return;
        }
        let entry = installed.swap_remove(place);
        let mut now = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: reads the action in force; then restores the action that the kernel returned. A handler that other code
        // installed in the meantime is left alone.
        unsafe {
            if libc::sigaction(self.0, std::ptr::null(), now.as_mut_ptr()) == 0
                && now.assume_init_ref().sa_sigaction == entry.action.address()
            {
                libc::sigaction(self.0, &raw const entry.before, null_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handled_before_is_handled_so_again() {
        let signal = libc::SIGRTMIN() + 10;
        let action = || {
            let mut now = MaybeUninit::<libc::sigaction>::uninit();
            // SAFETY: asks for the action only.
            unsafe {
                libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr());
                now.assume_init().sa_sigaction
            }
        };
        assert_eq!(action(), libc::SIG_DFL);
        let first = Handler::install(signal, Action::Count).unwrap();
        let second = Handler::install(signal, Action::Count).unwrap();
        drop(first);
        assert_eq!(action(), Action::Count.address());
        drop(second);
        assert_eq!(action(), libc::SIG_DFL);
    }
}

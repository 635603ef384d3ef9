//! What the process inherited: descriptors, which of SIGPIPE and SIGCHLD were ignored and which standard descriptors closed, read
//! before `main`: `sigaction(2)`, `fcntl(2)`. Whether its file gave it privileges.
//!
//! The Rust runtime ignores SIGPIPE and opens `/dev/null` on closed standard descriptors before `main`. A program that waits for its
//! children must not ignore SIGCHLD. With this state, a program can pass both signals on to its children as it found them.

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::{Error, Result, check};

static PIPE: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicBool = AtomicBool::new(false);
/// A bit for each of the descriptors 0, 1 and 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for (signal, ignored) in [(libc::SIGPIPE, &PIPE), (libc::SIGCHLD, &CHILD)] {
        ignored.store(crate::signal::is_ignored(signal).unwrap_or(false), Ordering::Relaxed);
    }
    for number in 0..3 {
        // SAFETY: asks for the flags of a number, and changes nothing.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
        }
    }
}

/// The C library calls the functions of this section before `main`.
// SAFETY: the section holds pointers to functions that take what the C library gives and return nothing. `look` ignores its arguments. It makes a few system
// calls and writes a few atomics. This needs neither the runtime nor an allocator.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard descriptor `number` (0, 1 or 2) was closed at the start.
#[must_use]
pub fn was_closed(number: i32) -> bool {
    (0..3).contains(&number) && CLOSED.load(Ordering::Relaxed) & (1 << number) != 0
}

/// Whether this signal was ignored at the start: SIGPIPE or SIGCHLD. `false` for all others.
#[must_use]
pub fn ignored_at_start(signal: i32) -> bool {
    match signal {
        libc::SIGPIPE => PIPE.load(Ordering::Relaxed),
        libc::SIGCHLD => CHILD.load(Ordering::Relaxed),
        _ => false,
    }
}

/// Whether the file of the program gave it privileges beside its caller's: set-user-ID, set-group-ID or file capabilities (`AT_SECURE` of
/// getauxval(3)).
#[must_use]
pub fn gained_privileges() -> bool {
    // SAFETY: reads a number that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Resets SIGCHLD to its default action if it was ignored at the start. The kernel would otherwise reap children when they end: their
/// status would be lost and their IDs reused.
pub fn heed_children() -> Result<()> {
    if !ignored_at_start(libc::SIGCHLD) {
        return Ok(());
    }
    set(libc::SIGCHLD, libc::SIG_DFL)
}

/// Ignores both signals again if they were ignored at the start. Async-signal-safe: for a new process between fork and exec.
pub(crate) fn ignore_as_at_start() -> Result<()> {
    for signal in [libc::SIGPIPE, libc::SIGCHLD] {
        if ignored_at_start(signal) {
            set(signal, libc::SIG_IGN)?;
        }
    }
    Ok(())
}

fn set(signal: i32, action: libc::sighandler_t) -> Result<()> {
    // SAFETY: neither the default action nor ignoring runs code of ours.
    let before = unsafe { libc::signal(signal, action) };
    if before == libc::SIG_ERR { Err(Error::last("signal")) } else { Ok(()) }
}

/// `fcntl(F_DUPFD_CLOEXEC)`: duplicates the inherited descriptor `number`; offset and flags are shared.
///
/// # Errors
/// EBADF if `number` is not open, or was opened by this process (all its own descriptors are close-on-exec); EMFILE.
pub fn duplicate_inherited(number: RawFd) -> Result<OwnedFd> {
    // SAFETY: asks for the flags of a number, and changes nothing.
    let flags = check("fcntl", unsafe { libc::fcntl(number, libc::F_GETFD) });
    let flags = flags.map_err(|e| e.on(format!("descriptor {number}")))?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(Error::from_errno("fcntl", libc::EBADF).on(format!("descriptor {number}")));
    }
    // SAFETY: takes numbers.
    let copy = check("fcntl", unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) });
    let copy = copy.map_err(|e| e.on(format!("descriptor {number}")))?;
    // SAFETY: the kernel just gave this number to this call, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn what_was_inherited_is_duplicated_and_nothing_else() {
        let copy = duplicate_inherited(2).unwrap();
        assert!(copy.as_raw_fd() > 2);
        let own = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(duplicate_inherited(own.as_raw_fd()).unwrap_err().errno(), libc::EBADF);
        assert_eq!(duplicate_inherited(1 << 20).unwrap_err().errno(), libc::EBADF);
        assert_eq!(duplicate_inherited(-1).unwrap_err().errno(), libc::EBADF);
    }
}

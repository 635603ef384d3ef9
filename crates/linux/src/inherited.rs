//! What the process was started to ignore: `sigaction(2)` for SIGPIPE and SIGCHLD, asked before `main`.
//!
//! The Rust runtime ignores SIGPIPE before the program can ask, and a program that waits for its children must not ignore SIGCHLD. A
//! program that starts another one can pass on both as they were.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::Result;

static PIPE: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn look() {
    for (signal, ignored) in [(libc::SIGPIPE, &PIPE), (libc::SIGCHLD, &CHILD)] {
        ignored.store(crate::signal::is_ignored(signal).unwrap_or(false), Ordering::Relaxed);
    }
}

/// The C library calls the functions of this section before `main`.
// SAFETY: the section holds pointers to functions that take what the C library gives and return nothing. `look` ignores its arguments; it makes two system
// calls and writes two atomics, for which neither the runtime nor an allocator is needed.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether the process was started with this signal ignored: SIGPIPE or SIGCHLD. `false` for every other.
#[must_use]
pub fn ignored_at_start(signal: i32) -> bool {
    match signal {
        libc::SIGPIPE => PIPE.load(Ordering::Relaxed),
        libc::SIGCHLD => CHILD.load(Ordering::Relaxed),
        _ => false,
    }
}

/// Gives SIGCHLD its default action again where the process was started with it ignored. The kernel would forget its children as soon as they
/// end: nobody could learn how, and their numbers would go to other processes.
pub fn heed_children() -> Result<()> {
    if !ignored_at_start(libc::SIGCHLD) {
        return Ok(());
    }
    set(libc::SIGCHLD, libc::SIG_DFL)
}

/// Ignores both again as they were ignored at the start. Async-signal-safe: for a new process between fork and exec.
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
    if before == libc::SIG_ERR { Err(crate::Error::last("signal")) } else { Ok(()) }
}

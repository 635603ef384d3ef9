//! Runs a few system calls that no signal to this process interrupts, not even SIGKILL: `fork(2)`, `setsid(2)`, `waitid(2)`.
//!
//! A child process in its own session runs the closure with all signals blocked. The death of this process, of its process group or of its
//! terminal does not affect the child. Only SIGKILL to the child itself, or the end of its container or machine, does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, setsid, waitid};

use crate::shared::Shared;
use crate::signal::block_all_signals_for_this_thread;
use crate::{Error, Result, check};

/// Exit status of a child whose closure panicked.
pub const PANICKED: u8 = 255;
/// Flag beside an exit status: the status is set.
const KNOWN: u32 = 1 << 8;

/// `fork(2)`: runs `work` in a child process, waits for its end and returns its status. `None`: it was killed.
///
/// The child is a copy of the process with only the calling thread. `work` must not wait for another thread or take a lock that one may
/// hold. It may allocate. The child ends with the result of `work`, without running `atexit(3)` handlers.
///
/// # Errors
/// EAGAIN at a limit of processes; ENOMEM.
pub fn uninterrupted(work: impl FnOnce() -> u8) -> Result<Option<u8>> {
    let status = Shared::<AtomicU32>::new()?;
    let signals = block_all_signals_for_this_thread()?;
    // SAFETY: the child goes on with a copy of the memory, and ends below by `_exit`. Nothing of the parent's stack is unwound
    // twice.
    let pid = match check("fork", unsafe { libc::fork() })? {
        0 => {
            // Fails only for a process group leader, which a new process is not.
            let _ = setsid();
            let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
            status.store(KNOWN | u32::from(outcome), Ordering::Release);
            // SAFETY: ends the process at once; runs nothing of ours.
            unsafe { libc::_exit(0) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| Error::from_errno("fork", libc::EINVAL))?,
    };
    drop(signals);
    // If SIGCHLD is ignored, the kernel reaps the child: shared memory carries the status.
    while let Ok(None) | Err(Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED) {}
    let status = status.load(Ordering::Acquire);
    Ok((status & KNOWN != 0).then_some(status as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_returns_is_known() {
        assert_eq!(uninterrupted(|| 7).unwrap(), Some(7));
        assert_eq!(uninterrupted(|| panic!("as told")).unwrap(), Some(PANICKED));
    }
}

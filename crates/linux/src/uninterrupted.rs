//! A few system calls that no signal to this process comes between, SIGKILL included: `fork(2)`, `setsid(2)`, `waitid(2)`.
//!
//! In goes a closure; a child process of a session of its own performs it with all signals blocked. The death of this process, of its process
//! group or of its terminal does not reach the child. What does: SIGKILL to the child itself, the end of its container or of the machine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, setsid, waitid};

use crate::shared::Shared;
use crate::signal::block_all_signals_for_this_thread;
use crate::{Error, Result, check};

/// Exit status of a child whose closure panicked.
pub const PANICKED: u8 = 255;
/// Beside an exit status: it was told.
const KNOWN: u32 = 1 << 8;

/// `fork(2)`: performs `work` in a child process and waits for its end. `None`: it was killed.
///
/// The child is a copy of the process in which only the calling thread goes on. `work` must wait for no other thread, and take no lock that one
/// may hold. Allocating is fine. The child ends with what `work` returns, and runs nothing that is registered for the end of the process.
///
/// # Errors
/// EAGAIN at a limit of processes, ENOMEM.
pub fn uninterrupted(work: impl FnOnce() -> u8) -> Result<Option<u8>> {
    let status = Shared::<AtomicU32>::new()?;
    let signals = block_all_signals_for_this_thread()?;
    // SAFETY: the child goes on with a copy of the memory, and ends below by `_exit`; nothing of the parent's stack is unwound twice.
    let pid = match check("fork", unsafe { libc::fork() })? {
        0 => {
            // It fails only for the leader of a group, which a new process is not.
            let _ = setsid();
            let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
            status.store(KNOWN | u32::from(outcome), Ordering::Release);
            // SAFETY: ends the process at once; runs nothing of ours.
            unsafe { libc::_exit(0) }
        }
        pid => Pid::from_raw(pid).ok_or_else(|| Error::from_errno("fork", libc::EINVAL))?,
    };
    drop(signals);
    // Where SIGCHLD is ignored the kernel forgets a child as it ends: shared memory carries the status.
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

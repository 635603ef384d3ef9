//! Waits in a child for the end of the thread that forked it: `prctl(PR_SET_PDEATHSIG)`, `sigtimedwait(2)`.
//!
//! A pidfd reports the end of the whole *process*, which does not end while one of its threads cannot run. The death signal reports the
//! end of the forking *thread*.

use std::time::Duration;

use crate::signal::{change_mask, every_signal, set_of};
use crate::{Result, check};

/// The signal; children get it from no other source.
const SIGNAL: i32 = libc::SIGUSR1;

/// Reports the parent's end to a child.
#[derive(Debug)]
pub struct ParentDeath(());

impl ParentDeath {
    /// `prctl(PR_SET_PDEATHSIG)`: from now on the end of the forking thread ends [`ParentDeath::wait`] instead of this process. Blocks every
    /// signal that can be blocked, on the calling thread, permanently. Call it in a child of [`crate::child::Child`], on its only
    /// thread.
    pub fn instead_of_own() -> Result<Self> {
        change_mask(libc::SIG_BLOCK, &every_signal())?;
        // SAFETY: takes numbers.
        check("prctl(PR_SET_PDEATHSIG)", unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, SIGNAL as libc::c_ulong) })?;
        Ok(Self(()))
    }

    /// Sleeps until the parent's thread has ended, at most this long. Returns whether it has.
    #[must_use]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        let set = set_of(&[SIGNAL]);
        let timeout = libc::timespec {
            // What a 32-bit time holds: 68 years.
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        // SAFETY: set and time are readable; no information on the signal is asked for.
        unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const timeout) == SIGNAL }
    }

    /// Sleeps until the parent's thread has ended.
    pub fn wait(&self) {
        let set = set_of(&[SIGNAL]);
        // SAFETY: `set` is filled; no information on the signal is asked for. It fails with EINTR when the process was stopped and
        // continued.
        while unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) } != SIGNAL {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;
    use crate::shared::Shared;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_end_of_the_forking_thread_ends_the_wait() {
        let state = Shared::<AtomicU32>::new().unwrap();
        let theirs = state.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let child = Child::spawn("waits", move || {
                let death = ParentDeath::instead_of_own().unwrap();
                assert!(!death.wait_for(Duration::from_millis(1)));
                theirs.store(3, Ordering::Release);
                while !death.wait_for(Duration::from_secs(1)) {}
                theirs.store(2, Ordering::Release);
            });
            tell.send(child.unwrap()).unwrap();
            let _ = ended.recv();
        });
        let mut child = told.recv().unwrap();
        while state.load(Ordering::Acquire) != 3 {
            std::thread::yield_now();
        }
        assert_eq!(child.ended().unwrap(), None);
        drop(end);
        thread.join().unwrap();
        assert_eq!(child.wait().unwrap(), crate::child::Ended::Exited(0));
        assert_eq!(state.load(Ordering::Acquire), 2);
    }
}

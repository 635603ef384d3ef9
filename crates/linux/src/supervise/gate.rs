//! Holds a new process back before it executes its program, until another thread has seen its number: `pipe2(2)`, `read(2)`.
//!
//! `Command::spawn` returns only after exec, so the thread that opens the gate is not the one that starts the process. If this process
//! ends first, the pipe closes and the new process goes on.

use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use crate::{Result, check};

/// The side of the new process.
#[derive(Debug)]
pub struct Gate {
    tell: OwnedFd,
    wait: OwnedFd,
    /// The other ends, which the new process inherits as copies and must close.
    theirs: [RawFd; 2],
}

/// The side of this process. Dropping it lets the new process go on.
#[derive(Debug)]
pub struct GateKeeper {
    told: OwnedFd,
    _open: OwnedFd,
}

/// `pipe2(2)`: a gate and its keeper.
pub fn gate() -> Result<(Gate, GateKeeper)> {
    let ((told, tell), (wait, open)) = (pipe()?, pipe()?);
    let theirs = [told.as_raw_fd(), open.as_raw_fd()];
    Ok((Gate { tell, wait, theirs }, GateKeeper { told, _open: open }))
}

impl Gate {
    /// In the new process: says its number, and waits. Async-signal-safe.
    pub(super) fn pass(&self) {
        let mut none = [0_u8; 1];
        // SAFETY: the descriptors are this process's copies, which nothing else here uses; `number` is readable, `none` writable.
        unsafe {
            let number = libc::getpid().to_ne_bytes();
            for end in self.theirs {
                libc::close(end);
            }
            libc::write(self.tell.as_raw_fd(), number.as_ptr().cast(), number.len());
            while libc::read(self.wait.as_raw_fd(), none.as_mut_ptr().cast(), 1) == -1
                && *libc::__errno_location() == libc::EINTR
            {}
        }
    }
}

impl GateKeeper {
    /// Waits for the new process and returns its number. `None`: it was not created.
    #[must_use]
    pub fn process(&self) -> Option<i32> {
        let mut number = [0; 4];
        let told = self.told.try_clone().ok()?;
        std::fs::File::from(told).read_exact(&mut number).ok()?;
        Some(i32::from_ne_bytes(number))
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for two descriptors.
    check("pipe2", unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the kernel just gave us these descriptors; nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

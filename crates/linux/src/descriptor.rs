//! Descriptors inherited at the start of the process: `fcntl(2)`.

use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use crate::{Error, Result, check};

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

//! Open file description locks on single bytes of a file (`fcntl(2)`, F_OFD_SETLK).
//!
//! The kernel releases such a lock when the last descriptor of the open file is closed, even after SIGKILL. So it shows who is alive,
//! which a process ID in shared memory cannot.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::{Error, Result, check};

/// `open(2)` of `/proc/self/fd/N`: opens the same file again, for independent locks.
pub fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
    // SAFETY: the path ends in a zero byte.
    let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC) };
    let fd = check("open", fd).map_err(|e| e.on(path.trim_end_matches('\0')))?;
    // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `fcntl(F_OFD_SETLK)`: locks the byte for this open file. `false`: another open file holds it.
pub fn try_lock(file: BorrowedFd<'_>, byte: u64) -> Result<bool> {
    let mut lock = exclusive(byte)?;
    // SAFETY: a valid lock description; the kernel reads it.
    let returned = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) };
    match returned {
        -1 => match Error::last("fcntl(F_OFD_SETLK)") {
            e if e.errno() == libc::EAGAIN || e.errno() == libc::EACCES => Ok(false),
            e => Err(e),
        },
        _ => Ok(true),
    }
}

/// `fcntl(F_OFD_GETLK)`: whether another open file holds the byte.
pub fn is_locked_elsewhere(file: BorrowedFd<'_>, byte: u64) -> Result<bool> {
    let mut lock = exclusive(byte)?;
    // SAFETY: a valid lock description; the kernel overwrites it.
    check("fcntl(F_OFD_GETLK)", unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) })?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK as i32)
}

fn exclusive(byte: u64) -> Result<libc::flock> {
    let start = libc::off_t::try_from(byte).map_err(|_| Error::from_errno("fcntl", libc::EOVERFLOW))?;
    // SAFETY: a plain structure of integers, for which all zeroes is a value; l_pid must be zero for these commands.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start;
    lock.l_len = 1;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipc::memory;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_byte_has_one_holder_until_its_file_is_closed() {
        let first = memory::sealed_memfd(c"punctual-test", 4096).unwrap();
        let second = reopen(first.as_fd()).unwrap();
        assert!(try_lock(first.as_fd(), 0).unwrap());
        assert!(!try_lock(second.as_fd(), 0).unwrap());
        assert!(try_lock(second.as_fd(), 1).unwrap());
        assert!(is_locked_elsewhere(second.as_fd(), 0).unwrap());
        assert!(!is_locked_elsewhere(first.as_fd(), 0).unwrap());
        drop(first);
        // A child that another test forked has a copy of the descriptor until it ends.
        punctual_testing::until("the release", || !is_locked_elsewhere(second.as_fd(), 0).unwrap());
    }
}

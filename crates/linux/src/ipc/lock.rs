//! Locks on single bytes of a file, by open file description (`fcntl(2)`, F_OFD_SETLK); and one that forked children do not inherit:
//! [`Hold`].
//!
//! The kernel releases such a lock when the last reference to the open file is gone, even after SIGKILL. So it shows who is alive, which a
//! process ID in shared memory cannot: IDs differ between PID namespaces and are reused. Fork copies
//! descriptors, which are references: a child would keep the lock of a dead parent. A mapping is a reference too, but fork skips it
//! with MADV_DONTFORK (madvise(2)). So the file is opened again, mapped and locked, and its descriptor is closed. The kernel releases
//! the lock with the mapping: on drop, when the process ends, and on exec.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::inherited::no_fork_meanwhile;
use crate::memory::Mapping;
use crate::{Error, Result, check, failed};

/// A locked byte. A copy in a forked child holds nothing and releases nothing.
#[derive(Debug)]
pub struct Hold {
    /// Keeps the open file; not copied by fork.
    keeps: Option<Mapping>,
    /// 1 in the process that locked the byte; the kernel zeroes it in a forked child.
    is_here: Mapping,
}

impl Hold {
    /// Locks a byte of the file. `None`: another open file holds it, in this process or elsewhere.
    ///
    /// # Errors
    /// Those of `open(2)` of /proc/self/fd/N, `mmap(2)`, `madvise(2)` and `fcntl(2)`; EINVAL before Linux 4.14.
    pub fn take(file: BorrowedFd<'_>, byte: u64) -> Result<Option<Self>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let is_here = page(protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, libc::MADV_WIPEONFORK)?;
        word(&is_here).store(1, Ordering::Relaxed);
        let keeps = no_fork_meanwhile(|| {
            let file = reopen(file)?;
            // Neither read nor written: the mapping only refers to the open file.
            let keeps = page(libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), libc::MADV_DONTFORK)?;
            Ok(try_lock(file.as_fd(), byte)?.then_some(keeps))
        })??;
        Ok(keeps.map(|keeps| Self { keeps: Some(keeps), is_here }))
    }

    /// Whether this process took the lock; false in a forked child. It reads a byte and makes no system call.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        word(&self.is_here).load(Ordering::Relaxed) != 0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_here() {
            // In a forked child nothing is mapped there.
            std::mem::forget(self.keeps.take());
        }
    }
}

/// A page, with advice for forked children. The kernel rounds its length up.
fn page(protection: i32, flags: i32, file: i32, advice: i32) -> Result<Mapping> {
    let page = Mapping::new(1, protection, flags, file).map_err(|e| e.on("a page"))?;
    // SAFETY: a page of ours; the two kinds of advice given here concern forked children only.
    check("madvise", unsafe { libc::madvise(page.start().as_ptr().cast(), 1, advice) })?;
    Ok(page)
}

/// The first byte of a page that is readable and writable.
#[inline]
fn word(is_here: &Mapping) -> &AtomicU8 {
    // SAFETY: called for `is_here` only. It is mapped for reading and writing as long as it lives, and reached only through this atomic.
    unsafe { AtomicU8::from_ptr(is_here.start().as_ptr()) }
}

/// `open(2)` of `/proc/self/fd/N`: opens the same file again, for independent locks.
pub fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = File::options().read(true).write(true).open(&path);
    opened.map(OwnedFd::from).map_err(|error| failed("open")(error).on(path))
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
    use crate::child::{Child, Ended};
    use crate::ipc::memory;
    use std::time::Duration;

    fn is_locked(file: BorrowedFd<'_>) -> bool {
        is_locked_elsewhere(file, 0).unwrap()
    }

    /// Not at once: a program that another test starts has a copy of the descriptor until its exec.
    fn is_released(file: BorrowedFd<'_>) {
        punctual_testing::until("the release", || !is_locked(file));
    }

    #[test]
    fn a_byte_has_one_holder_even_within_a_process() {
        let file = memory::sealed_memfd(c"punctual-test", 4096).unwrap();
        let hold = Hold::take(file.as_fd(), 0).unwrap().unwrap();
        assert!(hold.is_here() && is_locked(file.as_fd()));
        assert!(Hold::take(file.as_fd(), 0).unwrap().is_none());
        assert!(Hold::take(file.as_fd(), 1).unwrap().is_some(), "another byte");
        drop(hold);
        is_released(file.as_fd());
    }

    #[test]
    fn a_forked_child_holds_nothing_and_gives_nothing_back() {
        let file = memory::sealed_memfd(c"punctual-test", 4096).unwrap();
        let hold = std::sync::Arc::new(Hold::take(file.as_fd(), 0).unwrap().unwrap());
        let copy = std::sync::Arc::clone(&hold);
        let mut child = Child::spawn("drops", move || {
            assert!(!copy.is_here());
            // In the child this is the only other reference: its memory is a copy.
            let Some(there) = &copy.keeps else { return };
            // SAFETY: tells about the page and touches nothing.
            let mapped = unsafe { libc::msync(there.start().as_ptr().cast(), 1, libc::MS_ASYNC) };
            assert_eq!(mapped, -1, "the mapping was not copied");
        })
        .unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
        assert!(is_locked(file.as_fd()));
        let _lives_on = Child::spawn("lives on", || std::thread::sleep(Duration::from_secs(1000))).unwrap();
        drop(hold);
        // Although the child lives.
        is_released(file.as_fd());
    }

    #[test]
    fn an_open_file_holds_a_byte_until_it_is_closed() {
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

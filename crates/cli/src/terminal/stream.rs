//! Writes to a descriptor that may block: a pipe, a terminal, a device.
//!
//! A closed pipe is no error: its reader has all it wanted. A signal ends the wait for a reader that does not read, once
//! [`heed_signals`] was called.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Bytes that a writable pipe takes without blocking: PIPE_BUF of pipe(7).
const PIECE: usize = 4096;
/// Interval of the checks for a signal: short enough after Ctrl-C.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Signals do not end writes.
const NOT_HEEDED: u8 = 0;
/// A signal ends a waiting write.
const HEEDED: u8 = 1;
/// A signal arrived.
const GIVEN_UP: u8 = 2;

static SIGNALS: AtomicU8 = AtomicU8::new(NOT_HEEDED);

/// From now on [`give_up`] ends every write that waits for a reader.
pub(crate) fn heed_signals() {
    SIGNALS.store(HEEDED, Ordering::Release);
}

/// Ends every write that waits for a reader, after [`heed_signals`]. Returns whether this is the first such call.
pub(crate) fn give_up() -> bool {
    SIGNALS.compare_exchange(HEEDED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Writes everything. A closed pipe ends the write without an error.
pub(crate) fn pour(into: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let into = into.as_fd();
    let kind = rustix::fs::fstat(into).map(|facts| FileType::from_raw_mode(facts.st_mode))?;
    let may_block = !matches!(kind, FileType::RegularFile | FileType::BlockDevice);
    let piece = if may_block { PIECE } else { usize::MAX };
    let mut rest = bytes;
    while !rest.is_empty() {
        if may_block {
            wait_until_writable(into)?;
        }
        match rustix::io::write(into, &rest[..rest.len().min(piece)]) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::PIPE) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn wait_until_writable(into: impl AsFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(&into, PollFlags::OUT)], Some(&LOOK_AGAIN)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if SIGNALS.load(Ordering::Acquire) == GIVEN_UP {
            return Err(io::Error::other("the reader did not read, and a signal ended the wait"));
        }
    }
}

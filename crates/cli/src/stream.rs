//! Bytes into a descriptor that may block: a pipe, a terminal, a device.
//!
//! A reader that went away has what it wanted, so a closed pipe is no error. One that does not read holds nothing up for good: a signal ends the
//! wait for it, once [`heed_signals`] was called.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Most that a pipe takes at once without blocking, when it says that it can be written: PIPE_BUF of pipe(7).
const PIECE: usize = 4096;
/// Between two looks at whether to give up: short for whoever pressed Ctrl-C.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Signals are not for this module.
const NOT_HEEDED: u8 = 0;
/// A signal ends what waits.
const HEEDED: u8 = 1;
/// A signal came.
const GIVEN_UP: u8 = 2;

static SIGNALS: AtomicU8 = AtomicU8::new(NOT_HEEDED);

/// From now on [`give_up`] ends every write that waits for a reader.
pub(crate) fn heed_signals() {
    SIGNALS.store(HEEDED, Ordering::Release);
}

/// Ends every write that waits for a reader, if that is wanted. Says whether this is the first wish of that kind.
pub(crate) fn give_up() -> bool {
    SIGNALS.compare_exchange(HEEDED, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Writes everything. A closed pipe is the end of it, and no error.
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
            return Err(io::Error::other("nothing read it, and a signal ended the wait"));
        }
    }
}

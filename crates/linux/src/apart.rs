//! Descriptors that no fork inherits: `close_range(2)` with CLOSE_RANGE_UNSHARE (Linux 5.9).
//!
//! A forked child has a copy of every descriptor until it executes another program or ends. Close-on-exec changes nothing before. A
//! socket whose closing should signal this process's death signals nothing while such a child lives. So a thread with its own descriptor
//! table holds it: a fork copies only the table of the forking thread. The thread sleeps until it is dropped.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use crate::signal::block_all_signals_for_this_thread;
use crate::{Error, Result, check};

/// The thread needs a few hundred bytes; the rest is room for the program's thread-local data.
const STACK: usize = 64 << 10;

/// Descriptors that only this process holds, not its forked children. Closed on drop, and by the kernel when the process ends or executes
/// another program.
#[derive(Debug)]
pub struct Apart {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Apart {
    /// Moves the descriptors apart. A simultaneous fork by another thread may still inherit them.
    ///
    /// # Errors
    /// ENOSYS before Linux 5.9; EPERM or ENOSYS under a seccomp filter without close_range; EAGAIN if no thread can be started. The error
    /// returns the descriptors, still open.
    pub fn hold(descriptors: Vec<OwnedFd>) -> std::result::Result<Self, (Error, Vec<OwnedFd>)> {
        let mut numbers: Vec<RawFd> = descriptors.iter().map(|fd| fd.as_raw_fd()).collect();
        numbers.sort_unstable();
        match start(numbers) {
            // From here on these are copies.
            Ok(apart) => Ok(apart),
            Err(error) => Err((error, descriptors)),
        }
    }
}

fn start(numbers: Vec<RawFd>) -> Result<Apart> {
    let over = Arc::new(AtomicBool::new(false));
    let (ready, told) = sync_channel(1);
    // The thread inherits the mask. No handler of the program may run in it: its descriptors are closed there.
    let blocked = block_all_signals_for_this_thread()?;
    let thread = std::thread::Builder::new().name("keeper".into()).stack_size(STACK).spawn({
        let over = Arc::clone(&over);
        move || {
            let done = close_all_but(&numbers);
            let apart = done.is_ok();
            // The creator waits for this.
            let _ = ready.send(done);
            while apart && !over.load(Ordering::Acquire) {
                std::thread::park();
            }
            if apart {
                // Close here: a joined thread may not have freed its table yet.
                for number in numbers {
                    // SAFETY: this thread's table is its own, and nothing else in it uses the number.
                    drop(unsafe { OwnedFd::from_raw_fd(number) });
                }
            }
        }
    });
    drop(blocked);
    let thread = thread.map_err(|source| Error { call: "pthread_create", object: None, source })?;
    let done = told.recv().unwrap_or_else(|_| Err(Error::from_errno("close_range", libc::ECHILD)));
    let apart = Apart { over, thread: Some(thread) };
    done.map(|()| apart)
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot panic; if it had ended, its descriptors would be closed too.
            drop(thread.join());
        }
    }
}

/// Gives the calling thread its own descriptor table, with only `numbers` (sorted) open.
fn close_all_but(numbers: &[RawFd]) -> Result<()> {
    let above = numbers.last().map_or(0, |last| *last as u32 + 1);
    close_range(above, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    let mut from = 0;
    for &number in numbers {
        let number = number as u32;
        if number > from {
            close_range(from, number - 1, 0)?;
        }
        from = number + 1;
    }
    Ok(())
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> Result<()> {
    // SAFETY: takes numbers. The first call gives the calling thread its own table. Descriptors closed here stay open for all other
    // threads; this one uses none of them.
    let returned = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    check("close_range", returned as i32).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn closed_when_it_is_dropped_and_not_before_whatever_was_forked() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let other = std::fs::File::open("/proc/self/stat").unwrap();
        let apart = match Apart::hold(vec![theirs.into()]) {
            Ok(apart) => apart,
            Err((error, _)) => {
                assert_eq!(error.call, "close_range", "{error}");
                punctual_testing::lacks(punctual_testing::Lack::Call("close_range", error.errno()));
                return;
            }
        };
        let mut child = Child::spawn("lives on", || std::thread::sleep(Duration::from_secs(1000))).unwrap();
        ours.set_nonblocking(true).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        drop(apart);
        // The child was forked while it was held, and lives. A child that another test forked before it was held may have a copy for a moment.
        punctual_testing::until("the end of the stream", || matches!(ours.read(&mut [0]), Ok(0)));
        assert_eq!(child.ended().unwrap(), None);
        // Other descriptors stay open.
        assert!((&other).read(&mut [0]).unwrap() == 1);
    }
}

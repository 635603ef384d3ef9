//! Descriptors that no fork inherits: `close_range(2)` with CLOSE_RANGE_UNSHARE (Linux 5.9).
//!
//! A process that is forked gets a copy of every descriptor of its parent, close-on-exec or not, and keeps it until it executes another program or ends. A socket
//! whose closing is to tell of this process's death would then tell nothing as long as such a child lives. So a thread holds it that shares
//! its descriptors with no other thread: a fork copies those of the thread that forks. The thread sleeps until it is told to let go.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use crate::signal::block_all_signals_for_this_thread;
use crate::{Error, Result, check};

/// Its thread needs a few hundred bytes; this is a whole number of pages above what thread-local data of the program may take.
const STACK: usize = 64 << 10;

/// Descriptors that only this process holds, whatever it forks. They are closed when this is dropped, and by the kernel when the process ends or
/// executes another program.
#[derive(Debug)]
pub struct Apart {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Apart {
    /// Moves the descriptors apart. A fork by another thread at this very moment may still inherit them.
    ///
    /// # Errors
    /// ENOSYS before Linux 5.9, EPERM or ENOSYS under a seccomp filter that knows no close_range, EAGAIN where no thread can be started. The descriptors come
    /// back with the error, open as they were.
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
    // The thread inherits the mask: no handler of the program may run in it, since descriptors that it writes to are closed there.
    let blocked = block_all_signals_for_this_thread()?;
    let thread = std::thread::Builder::new().name("keeper".into()).stack_size(STACK).spawn({
        let over = Arc::clone(&over);
        move || {
            let done = close_all_but(&numbers);
            let apart = done.is_ok();
            // Whoever made it waits for this.
            let _ = ready.send(done);
            while apart && !over.load(Ordering::Acquire) {
                std::thread::park();
            }
            if apart {
                // Here and now: a thread that is joined may not have given back its table yet.
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
            // It cannot panic; were it gone all the same, its descriptors would be too.
            drop(thread.join());
        }
    }
}

/// Gives the calling thread a table of its own in which only `numbers` (sorted) are open.
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
    // SAFETY: takes numbers. The first call takes the calling thread out of the process's table, so that what is closed here stays open for all
    // other threads; this thread uses none of it.
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
                punctual_testing::lacks(&error.to_string());
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
        // What else was open still is.
        assert!((&other).read(&mut [0]).unwrap() == 1);
    }
}

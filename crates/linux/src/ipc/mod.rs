//! Interprocess communication: safe wrappers of shared memory and of the kernel's queues, semaphores and signals. In this file the calls
//! on any descriptor: `read(2)`, `write(2)`, `send(2)` and `recv(2)` as a C program calls them, and `vmsplice(2)`, which passes pages to a
//! pipe without copying.
//!
//! Measured calls go through the C library where possible. Every call that can wait ends with EINTR after a signal handler; the
//! caller decides whether to continue.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::Arc;

use crate::{Error, Result, check};

pub mod lock;
pub mod memory;
pub mod queue;
pub mod semaphore;
pub mod signals;
pub mod sysv;

pub use memory::Region;

fn counted(call: &'static str, returned: isize) -> Result<usize> {
    usize::try_from(returned).map_err(|_| Error::last(call))
}

/// `read(2)`.
#[inline]
pub fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is writable for its length.
    counted("read", unsafe { libc::read(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) })
}

/// `write(2)`.
#[inline]
pub fn write(fd: BorrowedFd<'_>, from: &[u8]) -> Result<usize> {
    // SAFETY: the buffer is readable for its length.
    counted("write", unsafe { libc::write(fd.as_raw_fd(), from.as_ptr().cast(), from.len()) })
}

/// `recv(2)`; without `wait` with MSG_DONTWAIT: an empty socket is EAGAIN.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8], wait: bool) -> Result<usize> {
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the buffer is writable for its length.
    counted("recv", unsafe { libc::recv(socket.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) })
}

/// `send(2)` with MSG_NOSIGNAL: a closed peer is EPIPE, without SIGPIPE.
#[inline]
pub fn send(socket: BorrowedFd<'_>, from: &[u8]) -> Result<usize> {
    let flags = libc::MSG_NOSIGNAL;
    // SAFETY: the buffer is readable for its length.
    counted("send", unsafe { libc::send(socket.as_raw_fd(), from.as_ptr().cast(), from.len(), flags) })
}

/// `poll(2)`: waits until the descriptor is readable or its peer has closed.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout_ms: i32) -> Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    let returned = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
    if returned < 0 { Err(Error::last("poll")) } else { Ok(returned > 0) }
}

/// Buffers whose pages a pipe may refer to, used round-robin. The reader must have read a buffer before it is written again. One more
/// buffer than messages that fill the pipe ensures that, since all messages have one length.
#[derive(Debug)]
pub struct Buffers {
    memory: Arc<Region>,
    stride: usize,
    count: usize,
    next: usize,
    filled: usize,
}

/// `fcntl(F_GETPIPE_SZ)`: bytes of a pipe, one page per slot.
fn pipe_bytes(pipe: BorrowedFd<'_>) -> Result<usize> {
    // SAFETY: the command takes no argument.
    let bytes = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) };
    Ok(check("fcntl(F_GETPIPE_SZ)", bytes)? as usize)
}

impl Buffers {
    /// Enough buffers for messages of `bytes` bytes through this pipe.
    pub fn new(pipe: BorrowedFd<'_>, bytes: usize) -> Result<Self> {
        // A message occupies at least one page of the pipe.
        let page = rustix::param::page_size();
        let stride = bytes.next_multiple_of(page).max(page);
        let slots = pipe_bytes(pipe)? / page;
        // A slot refers to a page until its last byte is read (pipe_read in fs/pipe.c). So the unread messages are those that fill the slots;
        // one more is written meanwhile.
        let count = slots.div_ceil(stride / page) + 1;
        let memory = Arc::new(Region::anonymous(stride * count)?);
        Ok(Self { memory, stride, count, next: 0, filled: 0 })
    }

    /// Copies the message into the next buffer and begins to pass it to the pipe.
    ///
    /// # Panics
    /// If the message is longer than a buffer.
    #[inline]
    pub fn fill(&mut self, message: &[u8]) {
        assert!(message.len() <= self.stride, "{} bytes into a buffer of {}", message.len(), self.stride);
        self.next = (self.next + 1) % self.count;
        self.memory.copy_in(self.next * self.stride, message);
        self.filled = 0;
    }

    /// `vmsplice(2)`: passes the rest of a message of `len` bytes to the pipe; waits for room. True once all is passed.
    #[inline]
    pub fn splice(&mut self, pipe: BorrowedFd<'_>, len: usize) -> Result<bool> {
        let base = self.memory.at(self.next * self.stride + self.filled, len - self.filled, 1);
        let part = libc::iovec { iov_base: base.cast(), iov_len: len - self.filled };
        // SAFETY: the kernel keeps references to the pages, not to the mapping. The reader may see mixed data of a buffer written
        // too early. It never sees another owner's memory.
        let n = unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const part, 1, 0) };
        self.filled += usize::try_from(n).map_err(|_| Error::last("vmsplice"))?;
        Ok(self.filled == len)
    }
}

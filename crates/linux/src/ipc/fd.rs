//! `read(2)`, `write(2)`, `send(2)` and `recv(2)` as a C program calls them.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::{Error, Result};

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

//! UDP for measurements: many datagrams per call, transmit times, and kernel time stamps.
//!
//! Sockets are std's [`UdpSocket`]. This adds `SO_TIMESTAMPING` with the error queue that returns the stamps ([`stamp`]), and
//! `sendmmsg(2)` ([`send`]). It also adds `SO_TXTIME` and `SO_MAX_PACING_RATE` ([`pacing`]), and the queueing discipline of an interface
//! ([`qdisc`]).

pub mod pacing;
pub mod qdisc;
pub mod send;
pub mod stamp;

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use crate::{Error, Result, check};

/// `setsockopt(2)` with a plain value.
pub(crate) fn set_option<T: Copy>(socket: &UdpSocket, level: i32, name: i32, value: T, what: &str) -> Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for its size, and the kernel only reads it.
    let returned = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    check("setsockopt", returned).map(drop).map_err(|e| e.on(what))
}

/// `setsockopt(2)` with `SO_RCVBUFFORCE`; without the privilege `SO_RCVBUF`, which the kernel limits to `net.core.rmem_max`.
pub fn set_receive_buffer(socket: &UdpSocket, bytes: i32) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes, "SO_RCVBUFFORCE")
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes, "SO_RCVBUF"))
}

/// `setsockopt(2)` with `SO_SNDBUF`: most bytes in flight; the kernel doubles it for its bookkeeping.
pub fn set_send_buffer(socket: &UdpSocket, bytes: i32) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes, "SO_SNDBUF")
}

/// `poll(2)` for room to send. False: none within `timeout_ms`, or a signal came first.
pub fn wait_for_room(socket: &UdpSocket, timeout_ms: i32) -> Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one pollfd, valid for the call.
    match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
        -1 => {
            let error = Error::last("poll");
            if error.errno() == libc::EINTR { Ok(false) } else { Err(error) }
        }
        ready => Ok(ready > 0 && poll.revents & libc::POLLOUT != 0),
    }
}

//! The receive timeout (`SO_RCVTIMEO`, `socket(7)`) of a silent socket.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use crate::timed::Ended;
use crate::{Error, Result, check};

/// A pair of datagram sockets whose other end sends nothing; closed on drop.
#[derive(Debug)]
pub struct SilentSocket {
    receiver: UnixDatagram,
    _sender: UnixDatagram,
}

impl SilentSocket {
    /// `socketpair(2)`: local datagram sockets, which need no network.
    pub fn new() -> Result<Self> {
        let (receiver, sender) =
            UnixDatagram::pair().map_err(|source| Error { call: "socketpair", object: None, source })?;
        Ok(Self { receiver, _sender: sender })
    }

    /// `setsockopt(2)` with `SO_RCVTIMEO`: microseconds, at least 1 since 0 means no timeout. The kernel rounds up to jiffies.
    #[inline]
    pub fn set_timeout(&self, timeout_us: i64) -> Result<()> {
        let us = timeout_us.max(1);
        let timeout =
            libc::timeval { tv_sec: (us / 1_000_000) as libc::time_t, tv_usec: (us % 1_000_000) as libc::suseconds_t };
        // SAFETY: the socket is open; option and length are valid for the call.
        let returned = unsafe {
            libc::setsockopt(
                self.receiver.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                (&raw const timeout).cast(),
                size_of::<libc::timeval>() as libc::socklen_t,
            )
        };
        check("setsockopt", returned).map_err(|e| e.on("SO_RCVTIMEO")).map(drop)
    }

    /// `recv(2)`: ends with [`Ended::TimeUp`] at the timeout, which may come up to a jiffy early.
    #[inline]
    pub fn receive(&self) -> Result<Ended> {
        let mut byte = 0_u8;
        // SAFETY: there is room for the one byte asked for.
        let returned = unsafe { libc::recv(self.receiver.as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
        Ended::of_failure("recv", returned as i64, libc::EAGAIN)
    }
}

//! Pacing by the kernel: `SO_MAX_PACING_RATE` (needs the queueing discipline fq) and `SO_TXTIME` (needs fq or etf).

use std::net::UdpSocket;

use super::send::{Sent, Value, Wish, send_with};
use super::set_option;
use super::stamp::STAMP;
use crate::Result;
use crate::clock::Clock;

/// `setsockopt(2)` with `SO_MAX_PACING_RATE`: the rate that fq keeps, in bytes per second, headers included.
pub fn set_max_pacing_rate(socket: &UdpSocket, bytes_per_second: u64) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second, "SO_MAX_PACING_RATE")
}

/// The kernel's `struct sock_txtime`.
#[repr(C)]
#[derive(Clone, Copy)]
struct SockTxtime {
    clock: libc::clockid_t,
    flags: u32,
}

/// `setsockopt(2)` with `SO_TXTIME`: datagrams can have a transmit time on `clock` (fq: monotonic; etf: as configured, usually TAI).
pub fn enable_txtime(socket: &UdpSocket, clock: Clock) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TXTIME, SockTxtime { clock: clock.id(), flags: 0 }, "SO_TXTIME")
}

/// `sendmsg(2)` with `SCM_TXTIME`: transmits at `time_ns` of the socket's clock. `stamped`: requests a transmit time stamp.
#[inline]
pub fn send_at(socket: &UdpSocket, datagram: &[u8], time_ns: u64, stamped: bool) -> Result<Sent> {
    let time = Wish { kind: libc::SCM_TXTIME, value: Value::Long(time_ns) };
    if stamped { send_with(socket, datagram, &[time, STAMP]) } else { send_with(socket, datagram, &[time]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a discipline that supports it, the datagram leaves at once.
    #[test]
    fn the_kernel_knows_the_options() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        set_max_pacing_rate(&sender, 1_000_000).unwrap();
        enable_txtime(&sender, Clock::Monotonic).unwrap();
        let soon = crate::clock::now_ns(Clock::Monotonic) as u64 + 1_000_000;
        assert_eq!(send_at(&sender, b"later", soon, false).unwrap(), Sent::Yes);
    }

    #[test]
    fn a_time_and_a_stamp_go_together() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        enable_txtime(&sender, Clock::Monotonic).unwrap();
        super::super::stamp::enable_send_stamps(&sender).unwrap();
        let now = crate::clock::now_ns(Clock::Monotonic) as u64;
        assert_eq!(send_at(&sender, b"now", now, true).unwrap(), Sent::Yes);
        let stamp = punctual_testing::eventually("a stamp", || super::super::stamp::next_send_stamp(&sender).unwrap());
        assert_eq!(stamp.number, 0);
    }
}

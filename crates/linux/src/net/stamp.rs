//! Kernel time stamps of datagrams (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst).
//!
//! A *sent* datagram requests a stamp, taken when it is passed to the network device. The stamp returns on the socket's error queue with the
//! datagram's number. A *received* datagram comes with the time at which it entered the socket. Both are on `CLOCK_REALTIME`.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use super::send::{Batch, Sent, Value, Wish, send_with};
use super::set_option;
use crate::{Error, Result};

/// The stamp of a sent datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendStamp {
    /// The number of earlier stamp requests on the socket, modulo 2³².
    pub number: u32,
    /// When it was passed to the device: `CLOCK_REALTIME` in ns.
    pub realtime_ns: i64,
}

/// `SO_TIMESTAMPING`: lets datagrams request a stamp, returned without the datagram itself.
pub fn enable_send_stamps(socket: &UdpSocket) -> Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags, "SO_TIMESTAMPING")
}

/// `SO_TIMESTAMPNS`: stamps every received datagram when it enters the socket.
pub fn enable_receive_stamps(socket: &UdpSocket) -> Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1_i32, "SO_TIMESTAMPNS")
}

/// `sendmsg(2)` with a stamp request.
#[inline]
pub fn send_stamped(socket: &UdpSocket, datagram: &[u8]) -> Result<Sent> {
    send_with(socket, datagram, &[STAMP])
}

/// Whether a datagram of a batch asks for a stamp, at each sending until it is changed.
#[inline]
pub fn ask_in_batch(batch: &mut Batch, n: usize, asks: bool) {
    batch.wish(n, if asks { &[STAMP] } else { &[] });
}

/// Requests a stamp when the datagram is passed to the device.
pub(super) const STAMP: Wish =
    Wish { kind: libc::SO_TIMESTAMPING, value: Value::Word(libc::SOF_TIMESTAMPING_TX_SOFTWARE) };

/// Room for the control messages of one datagram.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// `recvmsg(2)`: returns the datagram's length (0 on the error queue) and passes each control message to `see`. `None`: nothing there.
fn receive_with(
    socket: &UdpSocket,
    buffer: &mut [u8],
    flags: i32,
    mut see: impl FnMut(i32, i32, &[u8]),
) -> Result<Option<usize>> {
    let mut control = Control([0; 256]);
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: buffer and control room are valid and writable for their lengths.
    let returned = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if returned == -1 {
        let error = Error::last("recvmsg");
        return match error.errno() {
            libc::EAGAIN | libc::EINTR => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the kernel filled the control room. The macros walk it within `msg_controllen`. Each message's data lie between its
    // header and its `cmsg_len`.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(one) = header.as_ref() {
            let data = libc::CMSG_DATA(header);
            let length = (one.cmsg_len as usize).saturating_sub(data.addr() - header.addr());
            see(one.cmsg_level, one.cmsg_type, std::slice::from_raw_parts(data, length));
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(Some(returned as usize))
}

/// Nanoseconds of a `timespec` in a control message.
fn time_in(data: &[u8]) -> Option<i64> {
    // SAFETY: read only where there are enough bytes; any bytes are a valid timespec.
    (data.len() >= size_of::<libc::timespec>())
        .then(|| crate::clock::ns_of(unsafe { data.as_ptr().cast::<libc::timespec>().read_unaligned() }))
}

/// `recvmsg(2)` with `MSG_ERRQUEUE`: the next stamp, if one is there.
pub fn next_send_stamp(socket: &UdpSocket) -> Result<Option<SendStamp>> {
    let (mut time, mut number) = (None, None);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    let seen = receive_with(socket, &mut [], flags, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => time = time_in(data),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            if data.len() >= size_of::<libc::sock_extended_err>() =>
        {
            // SAFETY: enough bytes; any bytes are a valid sock_extended_err.
            let error = unsafe { data.as_ptr().cast::<libc::sock_extended_err>().read_unaligned() };
            number = (error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING).then_some(error.ee_data);
        }
        _ => {}
    })?;
    Ok(seen.and(time.zip(number)).map(|(realtime_ns, number)| SendStamp { number, realtime_ns }))
}

/// A received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The length in bytes.
    pub length: usize,
    /// When it entered the socket: `CLOCK_REALTIME` in ns, if known.
    pub realtime_ns: Option<i64>,
}

/// `recvmsg(2)`: waits for a datagram within the socket's read timeout. `None`: none came, or a signal.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<Option<Received>> {
    let mut time = None;
    let length = receive_with(socket, buffer, 0, |level, kind, data| {
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            time = time_in(data);
        }
    })?;
    Ok(length.map(|length| Received { length, realtime_ns: time }))
}

/// Longest wait for stamps after the last datagram: software stamps exist once it has left.
pub const STAMP_PATIENCE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, now_ns};

    fn pair(address: &str) -> Option<(UdpSocket, UdpSocket)> {
        let receiver = UdpSocket::bind(address).ok()?;
        receiver.set_read_timeout(Some(punctual_testing::GIVE_UP)).unwrap();
        let sender = UdpSocket::bind(address).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        Some((sender, receiver))
    }

    #[test]
    fn both_ends_are_stamped() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((sender, receiver)) = pair(address) else {
                punctual_testing::skip(&format!("no {address} here"));
                continue;
            };
            enable_send_stamps(&sender).unwrap();
            enable_receive_stamps(&receiver).unwrap();
            let before = now_ns(Clock::Realtime);
            crate::net::send::send(&sender, b"unstamped").unwrap();
            assert_eq!(send_stamped(&sender, b"stamped").unwrap(), Sent::Yes);
            let mut buffer = [0; 64];
            assert_eq!(receive(&receiver, &mut buffer).unwrap().unwrap().length, 9);
            let received = receive(&receiver, &mut buffer).unwrap().unwrap();
            assert_eq!(&buffer[..received.length], b"stamped");
            let after = now_ns(Clock::Realtime);
            assert!((before..=after).contains(&received.realtime_ns.unwrap()));
            let stamp = next_send_stamp(&sender).unwrap().expect("a stamp");
            assert!((before..=after).contains(&stamp.realtime_ns));
            assert_eq!(next_send_stamp(&sender).unwrap(), None);
        }
    }

    #[test]
    fn numbers_count_the_datagrams_that_asked() {
        let (sender, _receiver) = pair("127.0.0.1:0").unwrap();
        enable_send_stamps(&sender).unwrap();
        let mut numbers = Vec::new();
        for n in 0..6 {
            if n % 2 == 0 {
                send_stamped(&sender, b"x").unwrap();
            } else {
                crate::net::send::send(&sender, b"x").unwrap();
            }
        }
        // The second and the fourth of a batch; then only its first.
        let mut batch = Batch::new(4, 16);
        for asks in [[false, true, false, true], [true, false, false, false]] {
            asks.into_iter().enumerate().for_each(|(n, asks)| ask_in_batch(&mut batch, n, asks));
            assert_eq!(batch.send(&sender, 4).unwrap(), (4, Sent::Yes));
        }
        while let Some(stamp) = next_send_stamp(&sender).unwrap() {
            numbers.push(stamp.number);
        }
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
    }
}

//! UDP for measurements: many datagrams per call, transmit times, and kernel time stamps.
//!
//! Sockets are std's [`UdpSocket`]. This adds `sendmmsg(2)`, time stamps (`SO_TIMESTAMPING`,
//! Documentation/networking/timestamping.rst), pacing by the kernel, and the queueing discipline of an interface ([`qdisc`]).
//!
//! A *sent* datagram requests a stamp, taken when it is passed to the network device. The stamp returns on the socket's error queue with the
//! datagram's number. A *received* datagram comes with the time at which it entered the socket. Both are on `CLOCK_REALTIME`.
//!
//! `SO_MAX_PACING_RATE` needs the queueing discipline fq, `SO_TXTIME` fq or etf.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use crate::clock::Clock;
use crate::{Error, Result, check};

pub mod qdisc;

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

/// The result of sending a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The kernel accepted it.
    Yes,
    /// No room (`EAGAIN`, `ENOBUFS`): it was not sent.
    NoRoom,
    /// An earlier datagram found no receiver (`ECONNREFUSED`); this one was not sent.
    Refused,
}

impl Sent {
    fn of_returned(call: &'static str, returned: isize) -> Result<Self> {
        if returned >= 0 {
            return Ok(Self::Yes);
        }
        match Error::last(call).errno() {
            libc::EAGAIN | libc::ENOBUFS => Ok(Self::NoRoom),
            libc::ECONNREFUSED => Ok(Self::Refused),
            errno => Err(Error::from_errno(call, errno)),
        }
    }
}

/// No send blocks, and none ends the process.
const AT_ONCE: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// `send(2)` with `MSG_DONTWAIT` on a connected socket: never blocks.
#[inline]
pub fn send(socket: &UdpSocket, datagram: &[u8]) -> Result<Sent> {
    // SAFETY: the buffer is valid for its length.
    let returned = unsafe { libc::send(socket.as_raw_fd(), datagram.as_ptr().cast(), datagram.len(), AT_ONCE) };
    Sent::of_returned("send", returned)
}

/// Room for control messages, aligned for the kernel.
#[repr(C, align(8))]
struct Control<const BYTES: usize>([u8; BYTES]);

/// A request of a datagram to the kernel: a control message of level `SOL_SOCKET`.
#[derive(Debug, Clone, Copy)]
enum Wish {
    /// A stamp when the datagram is passed to the device (`SO_TIMESTAMPING`, a `__u32`).
    Stamp,
    /// To be transmitted at this time (`SCM_TXTIME`, a `__u64`).
    At(u64),
}

/// Writes one or two control messages and points the message to them. The message must not outlive `control`.
fn attach(message: &mut libc::msghdr, control: &mut Control<64>, wishes: &[Wish]) {
    let wishes = &wishes[..wishes.len().min(2)];
    message.msg_control = control.0.as_mut_ptr().cast();
    let kind_and_size = |wish: &Wish| match wish {
        Wish::Stamp => (libc::SO_TIMESTAMPING, size_of::<u32>() as u32),
        Wish::At(_) => (libc::SCM_TXTIME, size_of::<u64>() as u32),
    };
    // SAFETY: CMSG_SPACE and CMSG_LEN compute with a size. The buffer has 64 bytes, enough for two headers (12 or 16 each) with eight bytes
    // each. It is aligned for the header, and zero where the length of the next message is looked for. CMSG_FIRSTHDR, CMSG_NXTHDR and
    // CMSG_DATA point into it. There are as many headers as wishes, since the control length is the sum of their spaces.
    unsafe {
        message.msg_controllen = wishes.iter().map(|wish| libc::CMSG_SPACE(kind_and_size(wish).1)).sum::<u32>() as _;
        let mut header = libc::CMSG_FIRSTHDR(&raw const *message);
        for wish in wishes {
            let (kind, size) = kind_and_size(wish);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = kind;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(header);
            match wish {
                Wish::Stamp => data.cast::<u32>().write_unaligned(libc::SOF_TIMESTAMPING_TX_SOFTWARE),
                Wish::At(time_ns) => data.cast::<u64>().write_unaligned(*time_ns),
            }
            header = libc::CMSG_NXTHDR(&raw const *message, header);
        }
    }
}

/// `sendmsg(2)` with one or two control messages.
fn send_with(socket: &UdpSocket, datagram: &[u8], wishes: &[Wish]) -> Result<Sent> {
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    attach(&mut message, &mut control, wishes);
    // SAFETY: the message points to the datagram and to the control messages, which live until the call returns.
    let returned = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, AT_ONCE) };
    Sent::of_returned("sendmsg", returned)
}

/// Datagrams of one size, laid out once and sent in batches with `sendmmsg(2)`.
pub struct Batch {
    bytes: Vec<u8>,
    size: usize,
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    /// The control messages of each datagram.
    controls: Vec<Control<64>>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("size", &self.size)
            .field("datagrams", &self.messages.len())
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// Room for 1 to 1024 (UIO_MAXIOV) datagrams of `size` bytes, all zero.
    #[must_use]
    pub fn new(datagrams: usize, size: usize) -> Self {
        let datagrams = datagrams.clamp(1, 1024);
        let mut bytes = vec![0; datagrams * size];
        let mut pieces: Vec<libc::iovec> = (0..datagrams)
            .map(|n| libc::iovec { iov_base: bytes[n * size..].as_mut_ptr().cast(), iov_len: size })
            .collect();
        let messages = (0..datagrams)
            .map(|n| {
                // SAFETY: all zero is a valid mmsghdr.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = &raw mut pieces[n];
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let controls = (0..datagrams).map(|_| Control([0; 64])).collect();
        Self { bytes, size, pieces, messages, controls }
    }

    /// The number of datagrams.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pieces.len()
    }

    /// The bytes of one datagram.
    pub fn datagram(&mut self, n: usize) -> &mut [u8] {
        &mut self.bytes[n * self.size..(n + 1) * self.size]
    }

    /// The requests of one datagram to the kernel, at each sending until they change.
    fn wish(&mut self, n: usize, wishes: &[Wish]) {
        let header = &mut self.messages[n].msg_hdr;
        if wishes.is_empty() {
            (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0);
        } else {
            attach(header, &mut self.controls[n], wishes);
        }
    }

    /// `sendmmsg(2)` with `MSG_DONTWAIT`: sends the first `count`. Returns how many the kernel accepted; if none, the reason.
    #[inline]
    pub fn send(&mut self, socket: &UdpSocket, count: usize) -> Result<(usize, Sent)> {
        let count = count.min(self.messages.len());
        // SAFETY: each message points to its piece and its control messages, and each piece into `bytes`. No vector was resized
        // since.
        let returned =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), count as u32, AT_ONCE as _) };
        Sent::of_returned("sendmmsg", returned as isize).map(|sent| (returned.max(0) as usize, sent))
    }
}

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
    send_with(socket, datagram, &[Wish::Stamp])
}

/// Whether a datagram of a batch asks for a stamp, at each sending until it is changed.
#[inline]
pub fn ask_in_batch(batch: &mut Batch, n: usize, asks: bool) {
    batch.wish(n, if asks { &[Wish::Stamp] } else { &[] });
}

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
    let wishes = [Wish::At(time_ns), Wish::Stamp];
    send_with(socket, datagram, if stamped { &wishes } else { &wishes[..1] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, now_ns};

    #[test]
    fn batches_arrive_in_order() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let mut batch = Batch::new(5, 16);
        for n in 0..5 {
            batch.datagram(n)[0] = n as u8;
        }
        assert_eq!(batch.send(&sender, 4).unwrap(), (4, Sent::Yes));
        let mut buffer = [0; 32];
        for n in 0..4 {
            assert_eq!(receiver.recv(&mut buffer).unwrap(), 16);
            assert_eq!(buffer[0], n);
        }
    }

    #[test]
    fn nobody_there_is_told_at_the_next_send() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(nobody).unwrap();
        assert_eq!(send(&sender, b"x").unwrap(), Sent::Yes);
        // The next one, unless the kernel delivers later: its soft interrupts may wait for a CPU.
        punctual_testing::until("the refusal", || send(&sender, b"x").unwrap() == Sent::Refused);
    }

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
            send(&sender, b"unstamped").unwrap();
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
                send(&sender, b"x").unwrap();
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
        super::enable_send_stamps(&sender).unwrap();
        let now = crate::clock::now_ns(Clock::Monotonic) as u64;
        assert_eq!(send_at(&sender, b"now", now, true).unwrap(), Sent::Yes);
        let stamp = punctual_testing::eventually("a stamp", || super::next_send_stamp(&sender).unwrap());
        assert_eq!(stamp.number, 0);
    }
}

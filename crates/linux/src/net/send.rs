//! Sends datagrams: one, one with a time stamp or a transmit time, or many per call.

use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use crate::{Error, Result};

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
    fn of_errno(call: &'static str, errno: i32) -> Result<Self> {
        match errno {
            libc::EAGAIN | libc::ENOBUFS => Ok(Self::NoRoom),
            libc::ECONNREFUSED => Ok(Self::Refused),
            errno => Err(Error::from_errno(call, errno)),
        }
    }

    fn of_returned(call: &'static str, returned: isize) -> Result<Self> {
        if returned >= 0 { Ok(Self::Yes) } else { Self::of_errno(call, Error::last(call).errno()) }
    }
}

/// `send(2)` with `MSG_DONTWAIT` on a connected socket: never blocks.
#[inline]
pub fn send(socket: &UdpSocket, datagram: &[u8]) -> Result<Sent> {
    // SAFETY: the buffer is valid for its length.
    let returned = unsafe {
        libc::send(
            socket.as_raw_fd(),
            datagram.as_ptr().cast(),
            datagram.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    Sent::of_returned("send", returned)
}

/// Control messages of up to eight bytes each, aligned for the kernel.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// A request of a datagram to the kernel: a control message of level `SOL_SOCKET`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// The type of the control message.
    pub(super) kind: i32,
    /// Its value.
    pub(super) value: Value,
}

/// The value of a control message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// A `__u32`.
    Word(u32),
    /// A `__u64`.
    Long(u64),
}

/// Writes one or two control messages and points the message to them. The message must not outlive `control`.
fn attach(message: &mut libc::msghdr, control: &mut Control, wishes: &[Wish]) {
    let wishes = &wishes[..wishes.len().min(2)];
    message.msg_control = control.0.as_mut_ptr().cast();
    let size = |wish: &Wish| match wish.value {
        Value::Word(_) => size_of::<u32>() as u32,
        Value::Long(_) => size_of::<u64>() as u32,
    };
    // SAFETY: CMSG_SPACE and CMSG_LEN compute with a size. The buffer has 64 bytes, enough for two headers (12 or 16 each) with eight bytes
    // each. It is aligned for the header, and zero where the length of the next message is looked for. CMSG_FIRSTHDR, CMSG_NXTHDR and
    // CMSG_DATA point into it. There are as many headers as wishes, since the control length is the sum of their spaces.
    unsafe {
        message.msg_controllen = wishes.iter().map(|wish| libc::CMSG_SPACE(size(wish))).sum::<u32>() as _;
        let mut header = libc::CMSG_FIRSTHDR(&raw const *message);
        for wish in wishes {
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = wish.kind;
            (*header).cmsg_len = libc::CMSG_LEN(size(wish)) as _;
            match wish.value {
                Value::Word(value) => libc::CMSG_DATA(header).cast::<u32>().write_unaligned(value),
                Value::Long(value) => libc::CMSG_DATA(header).cast::<u64>().write_unaligned(value),
            }
            header = libc::CMSG_NXTHDR(&raw const *message, header);
        }
    }
}

/// `sendmsg(2)` with one or two control messages.
pub(super) fn send_with(socket: &UdpSocket, datagram: &[u8], wishes: &[Wish]) -> Result<Sent> {
    let mut control = Control([0; 64]);
    let mut piece = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    attach(&mut message, &mut control, wishes);
    // SAFETY: the message points to the datagram and to the control messages, which live until the call returns.
    let returned =
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    Sent::of_returned("sendmsg", returned)
}

/// Datagrams of one size, laid out once and sent in batches with `sendmmsg(2)`.
pub struct Batch {
    bytes: Vec<u8>,
    size: usize,
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    /// The control messages of each datagram.
    controls: Vec<Control>,
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
    pub(super) fn wish(&mut self, n: usize, wishes: &[Wish]) {
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
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: each message points to its piece and its control messages, and each piece into `bytes`. No vector was resized
        // since.
        let returned =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), count as u32, flags as _) };
        if returned >= 0 {
            return Ok((returned as usize, Sent::Yes));
        }
        Sent::of_errno("sendmmsg", Error::last("sendmmsg").errno()).map(|why| (0, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

//! The sender's side of the network: one connected UDP socket.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::net::send::{Batch, Sent, send};
use punctual_linux::net::{self, pacing, qdisc, stamp};

use super::method::Mode;
use super::packet::{HEADER, Header, this_boot};
use crate::frame::breaks::Offset;

/// Capacity for the stamps of a batch: 8 MB, about ten thousand.
const STAMP_ROOM: i32 = 8 << 20;
/// Capacity of the send buffer if the kernel paces: 64 datagrams of the smallest kind. They are counted as 768 bytes
/// each. These are the buffer of 512 that holds data and `skb_shared_info`, and a `struct sk_buff`. Fewer of larger
/// ones fit. fq drops datagrams beyond 100 of one flow (`flow_limit`, tc-fq(8)). poll(2) reports room below half of
/// the buffer, which is twice the value set: up to this value.
const KERNEL_PACED_ROOM: i32 = 64 * 768;
/// Bytes that fq counts beyond the payload: Ethernet, IP and UDP headers.
const HEADERS_V4: u64 = 14 + 20 + 8;
const HEADERS_V6: u64 = 14 + 40 + 8;

/// A connected socket for sending.
#[derive(Debug)]
pub(super) struct Wire {
    socket: UdpSocket,
    batch: Batch,
    single: Vec<u8>,
    header: Header,
    /// Whether the kernel stamps departures.
    pub(super) stamps: bool,
    /// Number of stamps requested since the socket was opened.
    asked: u32,
    to: SocketAddr,
    /// The clock of SO_TXTIME, and its offset from CLOCK_MONOTONIC.
    clock: Clock,
    offset_ns: i64,
}

impl Wire {
    /// Connects to `to`, for datagrams of `size` bytes. `clock`: the clock of departure times for the kernel.
    pub(super) fn open(to: SocketAddr, size: usize, mode: Mode, clock: Clock) -> linux::Result<Self> {
        let failed = |call: &'static str| move |source| linux::Error { call, object: Some(to.to_string()), source };
        let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).map_err(failed("bind"))?;
        socket.connect(to).map_err(failed("connect"))?;
        let size = size.max(HEADER);
        let batched = if mode == Mode::Batch { punctual::pacer::LARGEST_BATCH as usize } else { 1 };
        let header = Header { stream: 0, sequence: 0, intended_ns: 0, sent_ns: 0, boot: this_boot(), period_ns: 0 };
        let mut wire = Self {
            socket,
            batch: Batch::new(batched, size),
            single: vec![0; size],
            header,
            stamps: false,
            asked: 0,
            to,
            clock,
            offset_ns: 0,
        };
        let stamps =
            stamp::enable_send_stamps(&wire.socket).and_then(|()| net::set_receive_buffer(&wire.socket, STAMP_ROOM));
        // If the kernel paces, only it knows when a datagram left.
        if matches!(mode, Mode::KernelRate | Mode::KernelTime) {
            stamps?;
            wire.stamps = true;
        } else {
            wire.stamps = stamps.is_ok();
        }
        match mode {
            Mode::KernelRate => net::set_send_buffer(&wire.socket, KERNEL_PACED_ROOM)?,
            Mode::KernelTime => {
                pacing::enable_txtime(&wire.socket, clock)?;
            }
            Mode::Single | Mode::Batch => {}
        }
        Ok(wire)
    }

    /// The queueing disciplines of the interface that leads to `to`, the root's first.
    pub(super) fn disciplines(to: SocketAddr) -> linux::Result<Vec<String>> {
        let wire = Self::open(to, HEADER, Mode::Single, Clock::Monotonic)?;
        let failed = |source| linux::Error { call: "getsockname", object: Some(to.to_string()), source };
        let own = wire.socket.local_addr().map_err(failed)?.ip();
        match qdisc::interface_of(own)? {
            Some(interface) => qdisc::kinds(&interface),
            None => Ok(Vec::new()),
        }
    }

    /// Starts a stream of datagrams.
    pub(super) fn begin(
        &mut self,
        stream: u32,
        period_ns: u64,
        events_per_second: f64,
        mode: Mode,
    ) -> linux::Result<()> {
        (self.header.stream, self.header.period_ns) = (stream, period_ns);
        if mode == Mode::KernelTime {
            // Read for each stream: the clock may have been set since the previous one.
            self.offset_ns = Offset::read(self.clock).ns();
        }
        if mode == Mode::KernelRate {
            let bytes = Self::bytes_per_second(self.to, self.single.len(), events_per_second);
            pacing::set_max_pacing_rate(&self.socket, bytes.ceil() as u64)?;
        }
        Ok(())
    }

    /// Sends one datagram. Returns the time of the call and its result.
    #[inline]
    pub(super) fn send_one(
        &mut self,
        sequence: u64,
        intended_ns: i64,
        stamped: bool,
        mode: Mode,
    ) -> linux::Result<(i64, Sent)> {
        let sent_ns = now_ns(Clock::Monotonic);
        Header { sequence, intended_ns, sent_ns, ..self.header }.write(&mut self.single);
        let sent = match mode {
            Mode::KernelTime => {
                let leave_at = (intended_ns + self.offset_ns).max(0).unsigned_abs();
                let sent = pacing::send_at(&self.socket, &self.single, leave_at, stamped)?;
                self.asked = self.asked.wrapping_add(u32::from(stamped && sent == Sent::Yes));
                sent
            }
            _ if stamped => {
                let sent = stamp::send_stamped(&self.socket, &self.single)?;
                self.asked = self.asked.wrapping_add(u32::from(sent == Sent::Yes));
                sent
            }
            _ => send(&self.socket, &self.single)?,
        };
        Ok((sent_ns, sent))
    }

    /// Waits without a limit for room to send.
    pub(super) fn wait_for_room(&self) -> linux::Result<()> {
        while !net::wait_for_room(&self.socket, 100)? {
            crate::frame::progress::go_on("pace")?;
        }
        Ok(())
    }

    /// Bytes per second on the wire, as fq counts them.
    pub(super) fn bytes_per_second(to: SocketAddr, size: usize, events_per_second: f64) -> f64 {
        let headers = if to.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
        (size.max(HEADER) as u64 + headers) as f64 * events_per_second
    }

    /// Sends `count` datagrams in one call, of which some ask for a stamp. Returns the time of the call, the number
    /// sent, and why the others were not.
    #[inline]
    pub(super) fn send_many(
        &mut self,
        first: u64,
        count: usize,
        stamped: impl Fn(u64) -> bool,
        mut intended: impl FnMut() -> i64,
    ) -> linux::Result<(i64, usize, Sent)> {
        let count = count.min(self.batch.capacity());
        let sent_ns = now_ns(Clock::Monotonic);
        for n in 0..count {
            let header = Header { sequence: first + n as u64, intended_ns: intended(), sent_ns, ..self.header };
            header.write(self.batch.datagram(n));
            stamp::ask_in_batch(&mut self.batch, n, stamped(header.sequence));
        }
        let (taken, why) = self.batch.send(&self.socket, count)?;
        let asked = (first..first + taken as u64).filter(|&number| stamped(number)).count();
        self.asked = self.asked.wrapping_add(asked as u32);
        Ok((sent_ns, taken, why))
    }

    /// Reads the available stamps; each is (its index among those requested since `before`, `CLOCK_REALTIME`). Waits
    /// for them until `until_ns`, and a little longer.
    pub(super) fn stamps_since(&self, before: u32, until_ns: i64, mut see: impl FnMut(u32, i64)) -> linux::Result<()> {
        let until = now_ns(Clock::Monotonic).max(until_ns) + stamp::STAMP_PATIENCE.as_nanos() as i64;
        let mut wanted = self.asked.wrapping_sub(before);
        while wanted > 0 {
            match stamp::next_send_stamp(&self.socket)? {
                Some(stamp) => {
                    see(stamp.number.wrapping_sub(before), stamp.realtime_ns);
                    wanted -= 1;
                }
                None if now_ns(Clock::Monotonic) > until || linux::stop::requested() => break,
                // Sleeps while the kernel holds datagrams back for long.
                None if now_ns(Clock::Monotonic) < until_ns => std::thread::sleep(Duration::from_millis(1)),
                None => std::thread::yield_now(),
            }
        }
        Ok(())
    }

    /// Number of stamps requested so far.
    pub(super) fn stamps_asked(&self) -> u32 {
        self.asked
    }

    /// Clears an error of an earlier datagram (no receiver) from the socket.
    pub(super) fn forget_errors(&self) {
        // If reading the error fails, there is no remedy.
        let _ = self.socket.take_error();
    }
}

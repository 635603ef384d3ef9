//! The datagrams of `pace`: the header of one (its first 48 bytes, in network byte order), the sender's connected UDP socket ([`Wire`]), the
//! receiver of a run's own datagrams ([`Receiver`]), and the clock that converts the kernel's arrival stamps from the wall clock to
//! `CLOCK_MONOTONIC`, even if the wall clock is set meanwhile.
//!
//! Whoever paces hands each datagram over when it is due. What is sent and received is the same however that is done.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual::Rate;
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::memory::Shared;
use punctual_linux::net::{self, Batch, Sent, qdisc, send};

use crate::frame::breaks::{Break, Offset};

/// Capacity for the stamps of a batch: 8 MB, about ten thousand.
const STAMP_ROOM: i32 = 8 << 20;
/// Capacity of the send buffer if the kernel paces: 64 datagrams of the smallest kind, each counted as 768 bytes (the buffer
/// of 512 that holds data and `skb_shared_info`, and a `struct sk_buff`). Fewer of larger ones fit. fq drops datagrams
/// beyond 100 of one flow (`flow_limit`, tc-fq(8)). poll(2) reports room below half of the buffer, which is twice the value
/// set: up to this value.
const KERNEL_PACED_ROOM: i32 = 64 * 768;
/// Bytes that fq counts beyond the payload: Ethernet, IP and UDP headers.
const HEADERS_V4: u64 = 14 + 20 + 8;
const HEADERS_V6: u64 = 14 + 40 + 8;

/// The mode of sending datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One datagram per call.
    Single,
    /// All due ones in one `sendmmsg(2)`.
    Batch,
    /// One per call. The kernel holds it back: the sender hands over as many as the socket takes.
    KernelRate,
    /// One per call in advance, with its departure time.
    KernelTime,
}

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
    pub(super) asked: u32,
    to: SocketAddr,
    mode: Mode,
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
            mode,
            clock,
            offset_ns: 0,
        };
        let stamps =
            net::enable_send_stamps(&wire.socket).and_then(|()| net::set_receive_buffer(&wire.socket, STAMP_ROOM));
        // If the kernel paces, only it knows when a datagram left.
        wire.stamps = match stamps {
            Err(error) if matches!(mode, Mode::KernelRate | Mode::KernelTime) => return Err(error),
            stamps => stamps.is_ok(),
        };
        match mode {
            Mode::KernelRate => net::set_send_buffer(&wire.socket, KERNEL_PACED_ROOM)?,
            Mode::KernelTime => net::enable_txtime(&wire.socket, clock)?,
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

    /// Starts a stream of datagrams at a rate.
    pub(super) fn begin(&mut self, stream: u32, rate: Rate) -> linux::Result<()> {
        (self.header.stream, self.header.period_ns) = (stream, rate.period_ns());
        if self.mode == Mode::KernelTime {
            // Read for each stream: the clock may have been set since the previous one.
            self.offset_ns = Offset::read(self.clock).ns();
        }
        if self.mode == Mode::KernelRate {
            let bytes = Self::bytes_per_second(self.to, self.single.len(), rate.per_second_f64());
            net::set_max_pacing_rate(&self.socket, bytes.ceil() as u64)?;
        }
        Ok(())
    }

    /// Sends one datagram. Returns the time of the call and its result.
    #[inline]
    pub(super) fn send_one(&mut self, sequence: u64, intended_ns: i64, stamped: bool) -> linux::Result<(i64, Sent)> {
        let sent_ns = now_ns(Clock::Monotonic);
        Header { sequence, intended_ns, sent_ns, ..self.header }.write(&mut self.single);
        let sent = match self.mode {
            Mode::KernelTime => {
                let leave_at = (intended_ns + self.offset_ns).max(0).unsigned_abs();
                let sent = net::send_at(&self.socket, &self.single, leave_at, stamped)?;
                self.asked = self.asked.wrapping_add(u32::from(stamped && sent == Sent::Yes));
                sent
            }
            _ if stamped => {
                let sent = net::send_stamped(&self.socket, &self.single)?;
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
            crate::frame::stage::go_on("pace")?;
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
            net::ask_in_batch(&mut self.batch, n, stamped(header.sequence));
        }
        let (taken, why) = self.batch.send(&self.socket, count)?;
        let asked = (first..first + taken as u64).filter(|&number| stamped(number)).count();
        self.asked = self.asked.wrapping_add(asked as u32);
        Ok((sent_ns, taken, why))
    }

    /// Reads the available stamps; each is (its index among those requested since `before`, `CLOCK_REALTIME`). Waits
    /// for them until `until_ns`, and a little longer.
    pub(super) fn stamps_since(&self, before: u32, until_ns: i64, mut see: impl FnMut(u32, i64)) -> linux::Result<()> {
        let until = now_ns(Clock::Monotonic).max(until_ns) + net::STAMP_PATIENCE.as_nanos() as i64;
        let mut wanted = self.asked.wrapping_sub(before);
        while wanted > 0 {
            match net::next_send_stamp(&self.socket)? {
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

    /// Clears an error of an earlier datagram (no receiver) from the socket.
    pub(super) fn forget_errors(&self) {
        // If reading the error fails, there is no remedy.
        let _ = self.socket.take_error();
    }
}

/// The first four bytes.
const MAGIC: u32 = 0x5055_4e43;
/// Length of the header, and of the smallest datagram.
pub const HEADER: usize = 48;

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The stream of datagrams: a new one for each batch.
    pub stream: u32,
    /// Number within the stream, from 0.
    pub(super) sequence: u64,
    /// Its deadline, on the sender's `CLOCK_MONOTONIC`.
    pub(super) intended_ns: i64,
    /// When the sender called send, on the same clock.
    pub(super) sent_ns: i64,
    /// Identifies the machine and the boot of that clock.
    pub boot: u64,
    /// The nominal gap between two datagrams, ns.
    pub period_ns: u64,
}

impl Header {
    /// Writes it to the beginning of a datagram of at least [`HEADER`] bytes.
    pub(super) fn write(&self, datagram: &mut [u8]) {
        datagram[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        datagram[4..8].copy_from_slice(&self.stream.to_be_bytes());
        datagram[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        datagram[16..24].copy_from_slice(&self.intended_ns.to_be_bytes());
        datagram[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
        datagram[32..40].copy_from_slice(&self.boot.to_be_bytes());
        datagram[40..48].copy_from_slice(&self.period_ns.to_be_bytes());
    }

    /// Reads it. None: too short, or not from `pace`.
    pub(super) fn read(datagram: &[u8]) -> Option<Self> {
        let word = |at: usize| datagram.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let first = word(0)?;
        (first >> 32 == u64::from(MAGIC)).then_some(())?;
        Some(Self {
            stream: first as u32,
            sequence: word(8)?,
            intended_ns: word(16)? as i64,
            sent_ns: word(24)? as i64,
            boot: word(32)?,
            period_ns: word(40)?,
        })
    }
}

/// A number for this boot of this machine: clocks with the same number are comparable. Zero if the kernel does not
/// report it.
pub(super) fn this_boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // The id is random already; its first 16 hexadecimal digits are as good as any hash.
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Tracks the wall clock while stamps are read.
#[derive(Debug)]
pub(super) struct StampClock {
    offset: Offset,
    /// When the clock was last seen to be set: an earlier stamp may precede that.
    set_ns: i64,
}

impl StampClock {
    pub(super) fn new() -> Self {
        Self { offset: Offset::read(Clock::Realtime), set_ns: i64::MIN }
    }

    /// The arrival of a datagram with this stamp, and whether the clock was set since the last call. A stamp that may
    /// precede the setting is not used: the result is the present time.
    pub(super) fn arrival(&mut self, stamp_ns: Option<i64>) -> (i64, Option<Break>) {
        let offset = Offset::read(Clock::Realtime);
        self.arrival_at(stamp_ns, now_ns(Clock::Monotonic), offset)
    }

    fn arrival_at(&mut self, stamp_ns: Option<i64>, now_ns: i64, offset: Offset) -> (i64, Option<Break>) {
        let set = self.offset.changed_to(offset).map(|by_ns| Break::Stepped { by_ns });
        if set.is_some() {
            (self.offset, self.set_ns) = (offset, now_ns);
        }
        let at_ns = stamp_ns.map(|ns| ns - self.offset.ns()).filter(|at| (self.set_ns..=now_ns).contains(at));
        (at_ns.unwrap_or(now_ns), set)
    }
}

/// Most datagrams of a stream that are recorded.
pub(super) const MOST: usize = 1 << 17;
/// Buffer for datagrams that arrive while a receiver is not running: 8 MB.
pub(super) const ROOM: i32 = 8 << 20;
/// Timeout for the last datagrams: on one machine they have arrived when the sender is done, unless the receiver
/// sleeps.
const PATIENCE: Duration = Duration::from_millis(100);

/// `CLOCK_MONOTONIC` when the receiving program had a datagram (0: it did not arrive), `CLOCK_REALTIME` when it entered the socket (0:
/// unknown), and its position in the order of arrival, from 1.
type Line = (AtomicI64, AtomicI64, AtomicU32);
/// The recorded stream, and the numbers of its arrivals and of duplicates.
type Counts = (AtomicU64, AtomicU64, AtomicU64);

/// The arrivals of a stream's datagrams, by number.
#[derive(Clone)]
struct Arrivals {
    lines: Shared<[Line]>,
    counts: Shared<Counts>,
}

/// The arrival of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) program_ns: i64,
    pub(super) socket_realtime_ns: Option<i64>,
    pub(super) order: u32,
}

/// A receiving process.
pub(super) struct Receiver {
    arrivals: Arrivals,
    /// Killed on drop.
    _process: Child,
}

impl Receiver {
    /// Binds `address` and starts the process, which ends with the calling thread.
    pub(super) fn start(address: SocketAddr) -> linux::Result<Self> {
        let failed = |source| linux::Error { call: "bind", object: Some(address.to_string()), source };
        let socket = UdpSocket::bind(address).map_err(failed)?;
        let arrivals = Arrivals { lines: Shared::<[Line]>::slice(MOST)?, counts: Shared::new()? };
        net::set_receive_buffer(&socket, ROOM)?;
        // Without stamps, only the program's clock shows arrivals.
        let _ = net::enable_receive_stamps(&socket);
        let theirs = arrivals.clone();
        let process = Child::spawn("punctual-pace", move || theirs.note_all(&socket))?;
        Ok(Self { arrivals, _process: process })
    }

    /// From now on, records the datagrams of this stream.
    pub(super) fn begin(&self, stream: u32, datagrams: usize) {
        let (recorded, received, twice) = &*self.arrivals.counts;
        recorded.store(u64::MAX, Ordering::SeqCst);
        for (program_ns, socket_ns, order) in self.arrivals.lines.iter().take(datagrams) {
            program_ns.store(0, Ordering::Relaxed);
            socket_ns.store(0, Ordering::Relaxed);
            order.store(0, Ordering::Relaxed);
        }
        received.store(0, Ordering::Relaxed);
        twice.store(0, Ordering::Relaxed);
        recorded.store(stream.into(), Ordering::SeqCst);
    }

    /// Waits until `sent` datagrams arrived, or until no more arrive after `until_ns`.
    pub(super) fn settle(&self, sent: u64, until_ns: i64) {
        let mut seen = self.received();
        let mut since = now_ns(Clock::Monotonic).max(until_ns);
        while seen < sent && now_ns(Clock::Monotonic) - since < PATIENCE.as_nanos() as i64 {
            if linux::stop::requested() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
            let now_seen = self.received();
            if now_seen != seen {
                (seen, since) = (now_seen, now_ns(Clock::Monotonic).max(until_ns));
            }
        }
    }

    /// Number of arrivals.
    pub(super) fn received(&self) -> u64 {
        self.arrivals.counts.1.load(Ordering::Acquire)
    }

    /// Number of datagrams that arrived more than once.
    pub(super) fn twice(&self) -> u64 {
        self.arrivals.counts.2.load(Ordering::Acquire)
    }

    /// The arrival of a datagram, if it arrived.
    pub(super) fn arrival(&self, sequence: usize) -> Option<Arrival> {
        let (program_ns, socket_ns, order) = self.arrivals.lines.get(sequence)?;
        let (program_ns, socket_ns) = (program_ns.load(Ordering::Acquire), socket_ns.load(Ordering::Acquire));
        (program_ns != 0).then(|| Arrival {
            program_ns,
            socket_realtime_ns: (socket_ns != 0).then_some(socket_ns),
            order: order.load(Ordering::Acquire),
        })
    }
}

impl Arrivals {
    /// The child's main loop.
    fn note_all(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; 65_536];
        // A socket that fails permanently records nothing more. The parent sees that nothing arrives.
        while let Ok(received) = net::receive(socket, &mut buffer) {
            let Some(received) = received else { continue };
            let now = now_ns(Clock::Monotonic);
            if let Some(header) = Header::read(&buffer[..received.length]) {
                self.note(&header, now, received.realtime_ns);
            }
        }
    }

    fn note(&self, header: &Header, now: i64, realtime_ns: Option<i64>) {
        let (recorded, received, twice) = &*self.counts;
        let Some((program_ns, socket_ns, order)) = self.lines.get(header.sequence as usize) else { return };
        if recorded.load(Ordering::SeqCst) != u64::from(header.stream) {
            return;
        }
        if program_ns.load(Ordering::Relaxed) != 0 {
            twice.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let number = received.load(Ordering::Relaxed) + 1;
        order.store(number as u32, Ordering::Relaxed);
        socket_ns.store(realtime_ns.unwrap_or(0), Ordering::Relaxed);
        program_ns.store(now, Ordering::Release);
        received.store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(stream: u32, sequence: u64, intended_ns: i64, sent_ns: i64, boot: u64, period_ns: u64) {
            let header = Header { stream, sequence, intended_ns, sent_ns, boot, period_ns };
            let mut datagram = [0xa5; 64];
            header.write(&mut datagram);
            prop_assert_eq!(Header::read(&datagram), Some(header));
        }

        #[test]
        fn any_datagram_is_answered(datagram in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Header::read(&datagram);
        }
    }

    #[test]
    fn a_short_or_strange_one_is_none() {
        assert_eq!(Header::read(&[0; 47]), None);
        assert_eq!(Header::read(&[0; 48]), None);
    }

    const SECOND: i64 = 1_000_000_000;

    fn offset(ns: i64) -> Offset {
        Offset { least_ns: ns - 50, most_ns: ns + 50 }
    }

    #[test]
    fn arrivals_are_monotonic_whichever_way_the_clock_is_set() {
        for by_ns in [-6 * SECOND, 6 * SECOND] {
            let (old, new) = (offset(1_000 * SECOND), offset(1_000 * SECOND + by_ns));
            let mut clock = StampClock { offset: old, set_ns: i64::MIN };
            let stamped = |at: i64, offset: Offset| Some(at + offset.ns());
            assert_eq!(clock.arrival_at(stamped(100, old), 130, old), (100, None));
            // Stamped before the clock was set, but read after it: only the time of reading is known.
            assert_eq!(clock.arrival_at(stamped(200, old), 230, new), (230, Some(Break::Stepped { by_ns })));
            assert_eq!(clock.arrival_at(stamped(210, old), 240, new), (240, None));
            assert_eq!(clock.arrival_at(stamped(300, new), 330, new), (300, None));
            assert_eq!(clock.arrival_at(None, 430, new), (430, None));
        }
    }
}

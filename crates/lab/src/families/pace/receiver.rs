//! The receiver of a run's own datagrams: a child process that records each arrival in memory shared with its parent.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::net::{self, stamp};
use punctual_linux::shared::Shared;

use super::wire::Header;

/// Most datagrams of a stream that are recorded.
pub(super) const MOST: usize = 1 << 17;
/// Buffer for datagrams that arrive while the receiver is not running: 8 MB.
const ROOM: i32 = 8 << 20;
/// Timeout for the last datagrams: on one machine they have arrived when the sender is done, unless the receiver
/// sleeps.
const PATIENCE: Duration = Duration::from_millis(100);

/// The arrivals of a stream's datagrams, by number.
#[derive(Clone)]
struct Arrivals {
    /// `CLOCK_MONOTONIC` when the receiving program had it. 0: it did not arrive.
    program_ns: Shared<[AtomicI64]>,
    /// `CLOCK_REALTIME` when it entered the socket. 0: unknown.
    socket_ns: Shared<[AtomicI64]>,
    /// Its position in the order of arrival, from 1.
    order: Shared<[AtomicU32]>,
    stream: Shared<AtomicU64>,
    /// Numbers of arrivals and of duplicates.
    received: Shared<AtomicU64>,
    twice: Shared<AtomicU64>,
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
    child: Child,
}

impl Receiver {
    /// Binds `address` and starts the process, which ends with the calling thread.
    pub(super) fn start(address: SocketAddr) -> linux::Result<Self> {
        let failed = |source| linux::Error { call: "bind", object: Some(address.to_string()), source };
        let socket = UdpSocket::bind(address).map_err(failed)?;
        let arrivals = Arrivals::new()?;
        net::set_receive_buffer(&socket, ROOM)?;
        // Without stamps, only the program's clock shows arrivals.
        let _ = stamp::enable_receive_stamps(&socket);
        let theirs = arrivals.clone();
        let child = Child::spawn("punctual-pace", move || theirs.note_all(&socket))?;
        Ok(Self { arrivals, child })
    }

    /// From now on, records the datagrams of this stream.
    pub(super) fn begin(&self, stream: u32, datagrams: usize) {
        let arrivals = &self.arrivals;
        arrivals.stream.store(u64::MAX, Ordering::SeqCst);
        for n in 0..datagrams.min(MOST) {
            arrivals.program_ns[n].store(0, Ordering::Relaxed);
            arrivals.socket_ns[n].store(0, Ordering::Relaxed);
            arrivals.order[n].store(0, Ordering::Relaxed);
        }
        arrivals.received.store(0, Ordering::Relaxed);
        arrivals.twice.store(0, Ordering::Relaxed);
        arrivals.stream.store(stream.into(), Ordering::SeqCst);
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
        self.arrivals.received.load(Ordering::Acquire)
    }

    /// Number of datagrams that arrived more than once.
    pub(super) fn twice(&self) -> u64 {
        self.arrivals.twice.load(Ordering::Acquire)
    }

    /// The arrival of a datagram, if it arrived.
    pub(super) fn arrival(&self, sequence: usize) -> Option<Arrival> {
        let program_ns = self.arrivals.program_ns.get(sequence)?.load(Ordering::Acquire);
        let socket_ns = self.arrivals.socket_ns[sequence].load(Ordering::Acquire);
        (program_ns != 0).then(|| Arrival {
            program_ns,
            socket_realtime_ns: (socket_ns != 0).then_some(socket_ns),
            order: self.arrivals.order[sequence].load(Ordering::Acquire),
        })
    }

    /// CPU time of the process so far, ns.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.child.cpu_ns().map_or(0, i64::unsigned_abs)
    }
}

impl Arrivals {
    fn new() -> linux::Result<Self> {
        Ok(Self {
            program_ns: Shared::<[AtomicI64]>::slice(MOST)?,
            socket_ns: Shared::<[AtomicI64]>::slice(MOST)?,
            order: Shared::<[AtomicU32]>::slice(MOST)?,
            stream: Shared::new()?,
            received: Shared::new()?,
            twice: Shared::new()?,
        })
    }

    /// The child's main loop.
    fn note_all(&self, socket: &UdpSocket) {
        let mut buffer = vec![0; 65_536];
        // A socket that fails permanently records nothing more. The parent sees that nothing arrives.
        while let Ok(received) = stamp::receive(socket, &mut buffer) {
            let Some(received) = received else { continue };
            let now = now_ns(Clock::Monotonic);
            if let Some(header) = Header::read(&buffer[..received.length]) {
                self.note(&header, now, received.realtime_ns);
            }
        }
    }

    fn note(&self, header: &Header, now: i64, realtime_ns: Option<i64>) {
        let sequence = header.sequence as usize;
        if self.stream.load(Ordering::SeqCst) != u64::from(header.stream) || sequence >= MOST {
            return;
        }
        if self.program_ns[sequence].load(Ordering::Relaxed) != 0 {
            self.twice.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let order = self.received.load(Ordering::Relaxed) + 1;
        self.order[sequence].store(order as u32, Ordering::Relaxed);
        self.socket_ns[sequence].store(realtime_ns.unwrap_or(0), Ordering::Relaxed);
        self.program_ns[sequence].store(now, Ordering::Release);
        self.received.store(order, Ordering::Release);
    }
}

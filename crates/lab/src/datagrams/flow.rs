//! The datagrams of one nominal rate: [`Flow`], the figures of all its streams.
//!
//! Memory is bounded, since anyone may send. If a newer stream replaces another one, the sums keep the old one's
//! part.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::memory::Shared;
use punctual_linux::net;
use punctual_record::experiment::pace;
use punctual_record::experiment::pace::Measured;
use punctual_record::{About, Experiment, Quantity, Recorder, SeriesId, SeriesTally, Typed, Usage};

use super::wire::Header;
use crate::frame::Session;

/// The subject of what is received.
pub const SUBJECT: &str = "receive";

/// Maximum number of streams of one rate at a time: one for each sender.
const MOST_STREAMS: usize = 16;

/// All streams of one nominal rate.
pub(crate) struct Flow {
    /// Half a megabyte each, so allocated with the first record.
    jitter: Option<Recorder>,
    one_way: Option<Recorder>,
    streams: BTreeMap<u32, Stream>,
    /// The sums of all streams that were replaced.
    before: Sums,
}

/// The counts of several streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    streams: u64,
    received: u64,
    lost: u64,
    reordered: u64,
    twice: u64,
    gaps: u64,
    span_ns: u64,
}

/// One stream: numbered datagrams of one batch of a sender.
#[derive(Debug, Default)]
struct Stream {
    received: u64,
    highest: u64,
    reordered: u64,
    twice: u64,
    /// Which of the newest 1024 numbers arrived.
    recent: [u64; 16],
    first_ns: i64,
    last_ns: i64,
    /// Number and arrival of the previous datagram.
    before: Option<(u64, i64)>,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self { jitter: None, one_way: None, streams: BTreeMap::new(), before: Sums::default() }
    }

    pub(crate) fn take(&mut self, header: &Header, at_socket: i64, one_way: Option<i64>) {
        if let Some(one_way) = one_way {
            self.one_way.get_or_insert_with(Recorder::new).record(one_way);
        }
        if self.streams.len() >= MOST_STREAMS && !self.streams.contains_key(&header.stream) {
            self.leave_the_oldest();
        }
        let stream = self.streams.entry(header.stream).or_default();
        if let Some(gap) = stream.take(header.sequence, at_socket) {
            let period = i64::try_from(header.period_ns).unwrap_or(i64::MAX);
            self.jitter.get_or_insert_with(Recorder::new).record(gap.saturating_sub(period).saturating_abs());
        }
    }

    /// Replaces the stream that was silent for longest. Its sums stay.
    fn leave_the_oldest(&mut self) {
        let oldest = self.streams.iter().min_by_key(|(_, stream)| stream.last_ns).map(|(number, _)| *number);
        if let Some(stream) = oldest.and_then(|number| self.streams.remove(&number)) {
            self.before.add(&stream);
        }
    }

    /// The sums of all streams.
    fn sums(&self) -> Sums {
        let mut sums = self.before;
        self.streams.values().for_each(|stream| sums.add(stream));
        sums
    }

    pub(crate) fn report(&self, period_ns: u64, conditions: &str, usage: Usage, session: &mut Session<'_>) {
        let sums = self.sums();
        let metrics = pace::Metrics {
            received: Some(sums.received),
            lost: Some(sums.lost),
            reordered: Some(sums.reordered),
            duplicates: Some(sums.twice),
            streams: Some(sums.streams),
            rate_reached: (sums.span_ns > 0).then(|| sums.gaps as f64 * 1e9 / sums.span_ns as f64),
            ..pace::Metrics::default()
        };
        let parameters = pace::Parameters {
            rate_per_second: 1e9 / period_ns.max(1) as f64,
            measured: Measured::Arrival,
            to: None,
            size: None,
        };
        for (recorder, quantity) in [(&self.jitter, Quantity::PeriodJitter), (&self.one_way, Quantity::OneWay)] {
            let Some(recorder) = recorder else { continue };
            let mut tally = SeriesTally::new();
            tally.add_round(0, 0, recorder, usage);
            let metrics = if quantity == Quantity::PeriodJitter { metrics.clone() } else { pace::Metrics::default() };
            session.add_series(tally.to_series(SeriesId {
                experiment: Experiment::Pace(Typed { parameters: parameters.clone(), metrics }),
                subject: SUBJECT.into(),
                about: About::default(),
                conditions: conditions.to_owned(),
                quantity,
            }));
        }
    }
}

impl Sums {
    fn add(&mut self, stream: &Stream) {
        self.streams += 1;
        self.received += stream.received;
        // A hostile number may have any value.
        self.lost = self.lost.saturating_add(stream.lost());
        self.reordered += stream.reordered;
        self.twice += stream.twice;
        self.gaps += stream.received.saturating_sub(1);
        self.span_ns = self.span_ns.saturating_add_signed(stream.last_ns.saturating_sub(stream.first_ns));
    }
}

impl Stream {
    /// Enters a datagram. Returns the gap to the previous one, if their numbers are consecutive.
    fn take(&mut self, sequence: u64, at: i64) -> Option<i64> {
        let bit = |n: u64| ((n / 64 % 16) as usize, 1_u64 << (n % 64));
        let first = self.received == 0;
        if !first && sequence <= self.highest {
            let (word, mask) = bit(sequence);
            if self.highest - sequence < 1024 && self.recent[word] & mask != 0 {
                self.twice += 1;
                return None;
            }
            self.reordered += 1;
            self.recent[word] |= mask;
        } else {
            // The numbers in between have not arrived yet.
            let from = if first { sequence } else { self.highest + 1 };
            for n in from.max(sequence.saturating_sub(1023))..sequence {
                let (word, mask) = bit(n);
                self.recent[word] &= !mask;
            }
            let (word, mask) = bit(sequence);
            self.recent[word] |= mask;
            self.highest = sequence;
        }
        if first {
            self.first_ns = at;
        }
        self.received += 1;
        self.last_ns = at;
        let gap =
            self.before.filter(|(number, _)| number.checked_add(1) == Some(sequence)).map(|(_, before)| at - before);
        self.before = Some((sequence, at));
        gap
    }

    /// Number of missing datagrams below the highest number. The receiver does not know of any sent after its last
    /// arrival.
    fn lost(&self) -> u64 {
        if self.received == 0 { 0 } else { self.highest.saturating_add(1).saturating_sub(self.received) }
    }
}

// The receiver of a run's own datagrams: a child process that records each arrival in memory shared with its parent.

/// Most datagrams of a stream that are recorded.
pub(crate) const MOST: usize = 1 << 17;
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
pub(crate) struct Arrival {
    pub(crate) program_ns: i64,
    pub(crate) socket_realtime_ns: Option<i64>,
    pub(crate) order: u32,
}

/// A receiving process.
pub(crate) struct Receiver {
    arrivals: Arrivals,
    child: Child,
}

impl Receiver {
    /// Binds `address` and starts the process, which ends with the calling thread.
    pub(crate) fn start(address: SocketAddr) -> linux::Result<Self> {
        let failed = |source| linux::Error { call: "bind", object: Some(address.to_string()), source };
        let socket = UdpSocket::bind(address).map_err(failed)?;
        let arrivals = Arrivals::new()?;
        net::set_receive_buffer(&socket, ROOM)?;
        // Without stamps, only the program's clock shows arrivals.
        let _ = net::enable_receive_stamps(&socket);
        let theirs = arrivals.clone();
        let child = Child::spawn("punctual-pace", move || theirs.note_all(&socket))?;
        Ok(Self { arrivals, child })
    }

    /// From now on, records the datagrams of this stream.
    pub(crate) fn begin(&self, stream: u32, datagrams: usize) {
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
    pub(crate) fn settle(&self, sent: u64, until_ns: i64) {
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
    pub(crate) fn received(&self) -> u64 {
        self.arrivals.received.load(Ordering::Acquire)
    }

    /// Number of datagrams that arrived more than once.
    pub(crate) fn twice(&self) -> u64 {
        self.arrivals.twice.load(Ordering::Acquire)
    }

    /// The arrival of a datagram, if it arrived.
    pub(crate) fn arrival(&self, sequence: usize) -> Option<Arrival> {
        let program_ns = self.arrivals.program_ns.get(sequence)?.load(Ordering::Acquire);
        let socket_ns = self.arrivals.socket_ns[sequence].load(Ordering::Acquire);
        (program_ns != 0).then(|| Arrival {
            program_ns,
            socket_realtime_ns: (socket_ns != 0).then_some(socket_ns),
            order: self.arrivals.order[sequence].load(Ordering::Acquire),
        })
    }

    /// CPU time of the process so far, ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
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
        while let Ok(received) = net::receive(socket, &mut buffer) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with sets: received, lost, duplicate, reordered, for streams disturbed within the window.
        #[test]
        fn counts_agree_with_sets(order in prop::collection::vec(0_u64..400, 1..600)) {
            let mut stream = Stream::default();
            let mut seen = std::collections::BTreeSet::new();
            let (mut twice, mut reordered, mut highest) = (0, 0, None);
            for (at, &sequence) in order.iter().enumerate() {
                stream.take(sequence, at as i64);
                if !seen.insert(sequence) {
                    twice += 1;
                } else if highest.is_some_and(|h| sequence < h) {
                    reordered += 1;
                }
                highest = highest.max(Some(sequence));
            }
            prop_assert_eq!(stream.twice, twice);
            prop_assert_eq!(stream.reordered, reordered);
            prop_assert_eq!(stream.received, seen.len() as u64);
            prop_assert_eq!(stream.lost(), highest.unwrap() + 1 - seen.len() as u64);
        }
    }

    fn header(stream: u32, sequence: u64, period_ns: u64) -> Header {
        Header { stream, sequence, intended_ns: 0, sent_ns: 0, boot: 0, period_ns }
    }

    #[test]
    fn streams_that_are_left_keep_their_part_in_the_sums() {
        let mut flow = Flow::new();
        for stream in 0..1000 {
            for sequence in [0, 1, 3] {
                flow.take(&header(stream, sequence, 10), i64::from(stream) * 100 + sequence as i64 * 10, None);
            }
        }
        assert_eq!(flow.streams.len(), MOST_STREAMS);
        let expected =
            Sums { streams: 1000, received: 3000, lost: 1000, reordered: 0, twice: 0, gaps: 2000, span_ns: 30_000 };
        assert_eq!(flow.sums(), expected);
    }

    #[test]
    fn gaps_are_between_neighbours_only() {
        let mut stream = Stream::default();
        assert_eq!(stream.take(0, 100), None);
        assert_eq!(stream.take(1, 250), Some(150));
        assert_eq!(stream.take(3, 400), None);
        assert_eq!(stream.take(2, 420), None);
        assert_eq!((stream.lost(), stream.reordered), (0, 1));
    }
}

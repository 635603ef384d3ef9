//! A receiver by itself: what arrives at an address, until enough did, the time is up, or it is asked to end.
//!
//! Per nominal rate of the senders: jitter of arrivals at the socket (by the kernel's stamps), one-way latency where sender and receiver are one
//! machine, the rate, and what was lost, reordered or came twice. Datagrams that are none of `pace` are counted.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::net::{self, stamp};
use punctual_record::{Notice, Param, Quantity, Recorder, SeriesId, SeriesTally, Usage};

use super::EXPERIMENT;
use super::packet::{Header, this_boot};
use super::stamp_clock::StampClock;
use crate::left_out::{LeftOut, Spoilt};
use crate::schedule::Amount;
use crate::stage::Progress;
use crate::usage::Meter;
use crate::{Session, family};

/// Room for datagrams while the receiver is not running: 8 MB.
const ROOM: i32 = 8 << 20;
/// How often a silent receiver looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// Why nothing can be received.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened at.
    #[error("listening at {address}: {source}; {remedy}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// A call failed.
    #[error(transparent)]
    Call(#[from] linux::Error),
    /// No thread could be started.
    #[error("starting the measuring thread: {0}; the limit may be RLIMIT_NPROC (ulimit -u) or the cgroup's pids.max")]
    Thread(std::io::Error),
}

/// Listens at an address, before anything is measured.
pub fn listen(address: SocketAddr) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind(address).map_err(|source| {
        let remedy = match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program receives there: `ss -ulnp` shows which; or choose another port"
            }
            std::io::ErrorKind::AddrNotAvailable => "this machine has no such address: `ip address` shows those it has",
            std::io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one",
            _ => "look at address and port",
        };
        Error::Listen { address, source, remedy }
    })?;
    net::set_receive_buffer(&socket, ROOM)?;
    stamp::enable_receive_stamps(&socket)?;
    socket.set_read_timeout(Some(LOOK)).map_err(|source| Error::Listen {
        address,
        source,
        remedy: "this is a defect",
    })?;
    Ok(socket)
}

/// Receives until `amount` is reached (none: until asked to end), and puts what came into the session.
pub fn run(socket: UdpSocket, amount: Option<Amount>, session: &mut Session<'_>) -> Result<(), Error> {
    let heard = session
        .perform(crate::Place::default(), move |stage| {
            let doing = socket.local_addr().map_or_else(|_| "receiving".into(), |at| format!("receiving at {at}"));
            let left = match amount {
                Some(Amount::Time(time)) => time,
                _ => Duration::ZERO,
            };
            if !left.is_zero() {
                stage.announce(left);
            }
            stage.pause(Progress { doing, done: 0.0, left });
            hear(&socket, amount)
        })
        .map_err(Error::Thread)?;
    let Some(heard) = heard else { return Ok(()) };
    let heard = heard?;
    if heard.strange > 0 {
        let text = format!("{} datagrams that are none of `punctual pace` arrived and were left out", heard.strange);
        session.notice(Notice::Other { text });
    }
    let conditions = crate::Variant::as_found();
    let ledger = crate::rounds::Ledger { held: vec![Some(crate::rounds::Held::default())], ..Default::default() };
    // Nothing was asked, so nothing can have been refused.
    let _ =
        family::report_conditions(std::slice::from_ref(&conditions), &Default::default(), false, &ledger, &[], session);
    for (period_ns, flow) in &heard.flows {
        flow.report(*period_ns, &conditions.label, heard.usage, session);
    }
    heard.left_out.tell(session);
    Ok(())
}

/// What was heard.
struct Heard {
    flows: BTreeMap<u64, Flow>,
    strange: u64,
    usage: Usage,
    /// Stamps that were not used.
    left_out: LeftOut,
}

/// All streams of one nominal rate.
struct Flow {
    jitter: Recorder,
    one_way: Recorder,
    streams: BTreeMap<u32, Stream>,
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
    /// Number and arrival of the one before.
    before: Option<(u64, i64)>,
}

fn hear(socket: &UdpSocket, amount: Option<Amount>) -> linux::Result<Heard> {
    let mut heard = Heard { flows: BTreeMap::new(), strange: 0, usage: Usage::default(), left_out: LeftOut::default() };
    let mut buffer = vec![0; 65_536];
    let boot = this_boot();
    let mut stamps = StampClock::new();
    let begin = now_ns(Clock::Monotonic);
    let meter = Meter::start();
    let mut received = 0_u64;
    loop {
        let enough = match amount {
            Some(Amount::Samples(n)) => received >= n,
            Some(Amount::Time(time)) => now_ns(Clock::Monotonic) - begin >= time.as_nanos() as i64,
            None => false,
        };
        if enough || linux::stop::requested() {
            break;
        }
        let Some(datagram) = stamp::receive(socket, &mut buffer)? else { continue };
        let now = now_ns(Clock::Monotonic);
        let Some(header) = Header::read(&buffer[..datagram.length]) else {
            heard.strange += 1;
            continue;
        };
        received += 1;
        let (at_socket, set) = stamps.arrival(datagram.realtime_ns);
        if let Some(set) = set {
            heard.left_out.add(&Spoilt::Broken(set), now);
        }
        let flow = heard.flows.entry(header.period_ns).or_insert_with(Flow::new);
        flow.take(&header, at_socket, (header.boot == boot && boot != 0).then(|| now - header.sent_ns));
    }
    heard.usage = meter.stop();
    Ok(heard)
}

impl Flow {
    fn new() -> Self {
        Self { jitter: Recorder::new(), one_way: Recorder::new(), streams: BTreeMap::new() }
    }

    fn take(&mut self, header: &Header, at_socket: i64, one_way: Option<i64>) {
        if let Some(one_way) = one_way {
            self.one_way.record(one_way);
        }
        let stream = self.streams.entry(header.stream).or_default();
        if let Some(gap) = stream.take(header.sequence, at_socket) {
            self.jitter.record((gap - i64::try_from(header.period_ns).unwrap_or(i64::MAX)).abs());
        }
    }

    fn report(&self, period_ns: u64, conditions: &str, usage: Usage, session: &mut Session<'_>) {
        let sum = |of: fn(&Stream) -> u64| self.streams.values().map(of).sum::<u64>();
        let (received, twice) = (sum(|s| s.received), sum(|s| s.twice));
        let lost = sum(Stream::lost);
        let gaps = sum(|s| s.received.saturating_sub(1));
        let span: i64 = self.streams.values().map(|s| s.last_ns - s.first_ns).sum();
        let int = |n: u64| Param::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let nominal = 1e9 / period_ns.max(1) as f64;
        let mut outcome = BTreeMap::from([
            ("received".to_owned(), int(received)),
            ("lost".to_owned(), int(lost)),
            ("reordered".to_owned(), int(sum(|s| s.reordered))),
            ("duplicates".to_owned(), int(twice)),
            ("streams".to_owned(), int(self.streams.len() as u64)),
        ]);
        if span > 0 {
            outcome.insert("rate_reached".into(), Param::Real(gaps as f64 * 1e9 / span as f64));
        }
        let id = |quantity| SeriesId {
            experiment: EXPERIMENT.into(),
            subject: "receive".into(),
            conditions: conditions.to_owned(),
            parameters: BTreeMap::from([
                ("rate_per_second".to_owned(), Param::Real(nominal)),
                ("measured".to_owned(), Param::Text("arrival".into())),
            ]),
            quantity,
        };
        for (recorder, quantity) in [(&self.jitter, Quantity::PeriodJitter), (&self.one_way, Quantity::OneWay)] {
            if recorder.count() == 0 {
                continue;
            }
            let mut tally = SeriesTally::new();
            tally.add_round(0, 0, recorder, usage);
            let mut series = tally.to_series(id(quantity));
            if quantity == Quantity::PeriodJitter {
                series.outcome = outcome.clone();
            }
            session.add_series(series);
        }
    }
}

impl Stream {
    /// Takes in a datagram; tells the gap to the one before it, where that was its neighbour.
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
            // What lies between is not seen yet.
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
        let gap = self.before.filter(|(number, _)| number + 1 == sequence).map(|(_, before)| at - before);
        self.before = Some((sequence, at));
        gap
    }

    /// Numbers below the highest that did not arrive. What a sender sent after its last arrival is not known here.
    fn lost(&self) -> u64 {
        if self.received == 0 { 0 } else { (self.highest + 1).saturating_sub(self.received) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against sets: received, lost, twice, reordered, for streams disturbed within the window.
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

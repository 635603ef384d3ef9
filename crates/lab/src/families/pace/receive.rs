//! A standalone receiver of datagrams at an address. It ends after a number of them, after a time, or on request.
//!
//! For each nominal rate of the senders it reports the rate, the jitter of arrivals at the socket by the kernel's stamps, and
//! the lost, reordered and duplicate datagrams (`Flow`); and the one-way latency, if sender and receiver are on one machine.
//! Datagrams that are not from `pace` are counted.
//!
//! Anyone may send here, so memory is bounded: there is a maximum of rates, and of streams of each rate. Datagrams of
//! further rates are counted and left out. If a newer stream replaces another one, the sums keep the old one's part.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use punctual::{Applied, Conditions};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::net;
use punctual_record::experiment::pace::{self, Measured};
use punctual_record::{
    About, Experiment, NotMeasured, Notice, Quantity, Recorder, SeriesId, SeriesTally, Typed, Usage,
};

use super::datagrams::{Header, ROOM, StampClock, this_boot};
use crate::frame::breaks::Spoilt;
use crate::frame::ledger::{Held, LeftOut};
use crate::frame::{self, Amount, Error, Ledger, Meter, Place, Progress, Session, Unavailable};

/// Interval of checks for a stop request while no datagram arrives.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum number of nominal rates: a sweep of all methods has about fifty. Each takes up to 0.9 MB, all of them 60
/// MB.
const MOST_RATES: usize = 64;

/// Binds the socket before anything is measured.
pub fn listen(address: SocketAddr) -> Result<UdpSocket, Error> {
    let refused =
        |source: std::io::Error, remedy| Unavailable::but(format!("listening at {address}: {source}"), remedy);
    let socket = UdpSocket::bind(address).map_err(|source| {
        let remedy = match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program receives there: `ss -ulnp` shows which; or choose another port"
            }
            std::io::ErrorKind::AddrNotAvailable => "this machine has no such address: `ip address` shows those it has",
            std::io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one",
            _ => "look at address and port",
        };
        refused(source, remedy)
    })?;
    net::set_receive_buffer(&socket, ROOM)?;
    net::enable_receive_stamps(&socket)?;
    socket.set_read_timeout(Some(LOOK)).map_err(|source| refused(source, "this is a defect"))?;
    Ok(socket)
}

/// Receives under these conditions until `amount` is reached (none: until asked to end), and enters the results in
/// the session.
pub fn run(
    socket: UdpSocket,
    amount: Option<Amount>,
    (base, require): (&Conditions, bool),
    session: &mut Session<'_>,
) -> Result<(), Error> {
    let request = frame::Request { base: base.clone(), require, ..frame::Request::as_found(Amount::Samples(0), 1) };
    let ledger = Ledger::new(session, 0, 1);
    let (mine, asked) = (ledger.clone(), base.clone());
    let heard = session.perform(Place::default(), move |stage| {
        let Applied { guard, refused } = mine.apply(&asked);
        mine.open().held[0] = Some(Held { applied: guard.applied(), ..Held::default() });
        if require && !refused.is_empty() {
            return (refused, None);
        }
        let doing = socket.local_addr().map_or_else(|_| "receiving".into(), |at| format!("receiving at {at}"));
        let left = match amount {
            Some(Amount::Time(time)) => time,
            _ => Duration::ZERO,
        };
        if !left.is_zero() {
            stage.announce(left);
        }
        stage.pause(Progress { doing, detail: None, done: 0.0, left });
        let heard = hear(&socket, amount);
        mine.put_back(guard);
        (refused, Some(heard))
    })?;
    let Some((refused, heard)) = heard else { return Ok(()) };
    let ledger = ledger.take();
    ledger.report(&request, &refused, session)?;
    frame::close(ledger, session);
    let Some(heard) = heard.transpose()? else { return Ok(()) };
    if heard.strange > 0 {
        let text = format!("{} datagrams that are none of `punctual pace` arrived and were left out", heard.strange);
        session.notice(Notice::Other { text });
    }
    if heard.turned_away > 0 {
        let text = format!(
            "{} datagrams were turned away: they named more than {MOST_RATES} different rates, which no sweep does; receive at an address that only the sender knows",
            heard.turned_away
        );
        session.notice(Notice::Other { text });
    }
    for (period_ns, flow) in &heard.flows {
        flow.report(*period_ns, &request.variants[0].label, heard.usage, session);
    }
    if heard.flows.is_empty() {
        session.add_not_measured(NotMeasured {
            experiment: Experiment::PACE.into(),
            subject: SUBJECT.into(),
            conditions: None,
            parameters: BTreeMap::new(),
            why: "no datagram of `punctual pace` arrived".into(),
            remedy: Some("send to this address before the time is over, and look at the firewall".into()),
        });
    }
    heard.left_out.tell(session);
    Ok(())
}

/// Everything that was received.
#[derive(Default)]
struct Heard {
    flows: BTreeMap<u64, Flow>,
    /// Datagrams that are not from `pace`.
    strange: u64,
    /// Datagrams of rates beyond the maximum.
    turned_away: u64,
    usage: Usage,
    /// Stamps that could not be used.
    left_out: LeftOut,
}

fn hear(socket: &UdpSocket, amount: Option<Amount>) -> linux::Result<Heard> {
    let mut heard = Heard::default();
    let mut buffer = vec![0; 65_536];
    let boot = this_boot();
    let mut stamps = StampClock::new();
    let begin = now_ns(Clock::Monotonic);
    let meter = Meter::start();
    let mut received = 0_u64;
    loop {
        let enough = match amount {
            Some(Amount::Samples(n)) => received >= n,
            Some(Amount::Time(time)) => {
                u128::from((now_ns(Clock::Monotonic) - begin).unsigned_abs()) >= time.as_nanos()
            }
            None => false,
        };
        if enough || linux::stop::requested() {
            break;
        }
        let Some(datagram) = net::receive(socket, &mut buffer)? else { continue };
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
        heard.take(&header, at_socket, (header.boot == boot && boot != 0).then(|| now.saturating_sub(header.sent_ns)));
    }
    heard.usage = meter.stop();
    Ok(heard)
}

impl Heard {
    fn take(&mut self, header: &Header, at_socket: i64, one_way: Option<i64>) {
        if self.flows.len() >= MOST_RATES && !self.flows.contains_key(&header.period_ns) {
            self.turned_away += 1;
            return;
        }
        self.flows.entry(header.period_ns).or_default().take(header, at_socket, one_way);
    }
}

/// The subject of what is received.
pub const SUBJECT: &str = "receive";

/// Maximum number of streams of one rate at a time: one for each sender.
const MOST_STREAMS: usize = 16;

/// The datagrams of one nominal rate: the figures of all its streams.
#[derive(Default)]
struct Flow {
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
    fn take(&mut self, header: &Header, at_socket: i64, one_way: Option<i64>) {
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

    fn report(&self, period_ns: u64, conditions: &str, usage: Usage, session: &mut Session<'_>) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::datagrams::HEADER;
    use super::*;

    #[test]
    fn hostile_datagrams_take_no_more_memory_than_a_sweep() {
        let socket = listen((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (to, over) = (socket.local_addr().unwrap(), std::sync::atomic::AtomicBool::new(false));
        let heard = std::thread::scope(|scope| {
            scope.spawn(|| {
                let hostile = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
                let (mut datagram, boot) = ([0; HEADER], this_boot());
                for n in 0_u64.. {
                    if over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    // Numbers, times and rates that no real sender has.
                    let (sequence, period_ns) = (u64::MAX - n % 3, u64::MAX - n);
                    Header { stream: n as u32, sequence, intended_ns: 0, sent_ns: i64::MIN, boot, period_ns }
                        .write(&mut datagram);
                    hostile.send_to(&datagram, to).unwrap();
                }
            });
            let heard = hear(&socket, Some(Amount::Samples(20_000))).unwrap();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            heard
        });
        assert_eq!(heard.flows.len(), MOST_RATES);
        assert_eq!(heard.turned_away, 20_000 - MOST_RATES as u64);
    }

    /// Some datagrams of any sender: with a header whose fields may be any numbers, or without one.
    fn any_datagrams() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let or = |right: u64| prop_oneof![3 => Just(right), 1 => any::<u64>(), 1 => Just(u64::MAX)];
        let fields = (or(1), or(1), or(1_000_000), or(1_000_000), or(this_boot()), or(1_000_000));
        let headed = (fields, 0..64_usize).prop_map(|(fields, more)| {
            let (stream, sequence, intended_ns, sent_ns, boot, period_ns) = fields;
            let (intended_ns, sent_ns) = (intended_ns.cast_signed(), sent_ns.cast_signed());
            let mut datagram = vec![0; HEADER + more];
            Header { stream: stream as u32, sequence, intended_ns, sent_ns, boot, period_ns }.write(&mut datagram);
            datagram
        });
        let noise = prop::collection::vec(any::<u8>(), 0..200);
        prop::collection::vec(prop_oneof![5 => headed, 1 => noise], 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(punctual_testing::inputs(16)) })]

        /// The run that a receiver makes of any datagrams can be written and read again.
        #[test]
        fn any_datagrams_make_a_run(datagrams in any_datagrams()) {
            let socket = listen((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let (to, over) = (socket.local_addr().unwrap(), std::sync::atomic::AtomicBool::new(false));
            let run = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let sender = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
                    // The receiver waits for datagrams that it knows.
                    let mut known = [0; HEADER];
                    for sequence in 0.. {
                        if over.load(std::sync::atomic::Ordering::Relaxed) {
                            break;
                        }
                        let header = Header { stream: 1, sequence, intended_ns: 0, sent_ns: 0, boot: this_boot(), period_ns: 1000 };
                        header.write(&mut known);
                        datagrams.iter().for_each(|datagram| drop(sender.send_to(datagram, to)));
                        let _ = sender.send_to(&known, to);
                    }
                });
                let mut silent = frame::Silent;
                let mut session = Session::open(vec!["punctual".into()], "pace", frame::Stop::default(), &mut silent);
                let received = run(socket, Some(Amount::Samples(200)), (&Conditions::new(), false), &mut session);
                over.store(true, std::sync::atomic::Ordering::Relaxed);
                received.map(|()| session.close())
            });
            let mut written = Vec::new();
            run.unwrap().to_json(&mut written).unwrap();
            prop_assert!(punctual_record::Run::from_slice(&written).is_ok());
        }
    }

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
        let mut flow = Flow::default();
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

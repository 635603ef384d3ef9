//! The methods of a plan, opened on the measuring thread with socket and receiver ([`PaceBench`]), and the test stand on which one of them
//! performs events at a rate, sent or only ticked, and which records what became of each ([`Stand`]).

use std::time::Duration;

use punctual::rate::Grid;
use punctual::{Moment, Rate, RtThrottle, format_duration};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::net::Sent;
use punctual_record::{Notice, Recorder, SeriesTally, Usage};

use super::datagrams::{MOST, Mode, Receiver, Wire};
use super::plan::{MOST_AHEAD_NS, PacingMethod, PacingSession, Plan, Target, Terms};
use crate::frame::breaks::Offset;
use crate::frame::figures::Drift;
use crate::frame::{Bench, Failure, Meter, MethodCell, Scene, Sum, Unavailable};

/// Longest stretch under a real-time policy between two checks whether others need the CPU.
const STRETCH: Duration = Duration::from_millis(50);

/// A cell's results beside its lateness.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(super) jitter: SeriesTally,
    pub(super) one_way: SeriesTally,
    pub(super) arrival_jitter: SeriesTally,
    pub(super) counts: Counts,
    pub(super) drift: Drift,
    /// Trials whose departures are the kernel's stamps, and all trials.
    pub(super) by_kernel: u32,
    pub(super) rounds: u32,
    /// The rate that each trial reached.
    pub(super) rates: Vec<f64>,
}

/// An open method: its pacing session and, if datagrams are sent, its socket.
type Opened = Result<(Box<dyn PacingSession>, Option<Wire>), Unavailable>;

/// The open methods of a plan.
pub(super) struct PaceBench<'a> {
    plan: &'a Plan,
    opened: Vec<Opened>,
    receiver: Option<Receiver>,
    stand: Stand,
    /// By cell: the batches that count.
    so_far: Vec<Beside>,
    /// The same with the last batch, until it counts.
    last: Beside,
    throttle: RtThrottle,
    stream: u32,
    rate: Rate,
}

impl<'a> PaceBench<'a> {
    /// Opens all other resources on the calling thread.
    pub(super) fn open(plan: &'a Plan, receiver: Option<Receiver>, rate: Rate) -> Self {
        let disciplines = match plan.asked.target {
            Target::TickOnly => None,
            // If the kernel reports no facts of the interface, it cannot be asked to pace.
            Target::Udp { to, .. } => Some(Wire::disciplines(to).unwrap_or_default()),
        };
        let terms = Terms { disciplines, jitter: plan.asked.jitter };
        let opened = plan.asked.methods.iter().map(|method| open_method(method, plan.asked.target, &terms)).collect();
        Self {
            plan,
            opened,
            receiver,
            stand: Stand::new(),
            so_far: vec![Beside::default(); plan.cells.len()],
            last: Beside::default(),
            throttle: RtThrottle::new(),
            // Streams of another run that are still in flight do not belong to this one.
            stream: std::process::id().wrapping_mul(65_537),
            rate,
        }
    }

    /// One trial of a method at a rate.
    pub(super) fn trial(
        &mut self,
        method: usize,
        rate: Rate,
        events: u64,
        lateness: &mut Recorder,
    ) -> Result<(Usage, Counts, bool), Failure> {
        let (pacing, wire) = self.opened[method].as_mut().map_err(|no| no.clone())?;
        self.stream = self.stream.wrapping_add(1);
        let order = Order { rate, events, mode: self.plan.asked.methods[method].mode, stream: self.stream };
        let ended = self.stand.perform(order, pacing.as_mut(), wire.as_mut(), self.receiver.as_ref(), lateness);
        let (usage, counts, by_kernel) = ended.map_err(|error| match linux::stop::requested() {
            true => Failure::Stopped,
            false => refused(&error).into(),
        })?;
        if counts.events >= 10 && counts.sent == 0 && self.plan.asked.target != Target::TickOnly {
            let why = if counts.refused > 0 {
                "nobody listens there (ECONNREFUSED)"
            } else {
                "the kernel had no room for a single datagram"
            };
            return Err(Unavailable::but(why, "start a receiver of punctual there, or send to the loopback").into());
        }
        Ok((usage, counts, by_kernel))
    }

    /// Adds a trial of this batch.
    fn note(&mut self, counts: &Counts, usage: Usage, by_kernel: bool) {
        let Stand { jitter, one_way, arrival_jitter, drift, .. } = &self.stand;
        let last = &mut self.last;
        let round = last.rounds;
        last.rounds += 1;
        last.jitter.add_round(round, 0, jitter, usage);
        last.one_way.add_round(round, 0, one_way, usage);
        last.arrival_jitter.add_round(round, 0, arrival_jitter, usage);
        last.counts.add(counts);
        last.drift.add(drift);
        last.by_kernel += u32::from(by_kernel);
        last.rates.extend(counts.rate_reached());
    }
}

fn open_method(method: &PacingMethod, target: Target, terms: &Terms) -> Opened {
    let pacing = (method.open)(terms)?;
    let wire = match target {
        Target::TickOnly => None,
        Target::Udp { to, size } => {
            Some(Wire::open(to, size, method.mode, terms.clock()).map_err(|error| refused(&error))?)
        }
    };
    Ok((pacing, wire))
}

/// A refusal by the network, with the remedy.
fn refused(error: &linux::Error) -> Unavailable {
    let unreachable =
        matches!(error.source.kind(), std::io::ErrorKind::NetworkUnreachable | std::io::ErrorKind::HostUnreachable);
    let too_long = error.errno() == rustix::io::Errno::MSGSIZE.raw_os_error();
    let remedy = match (unreachable, too_long) {
        (true, _) => Some("no route leads there: look at `ip route get ADDRESS`".into()),
        (_, true) => Some("the path takes no datagram of that size: send smaller ones".into()),
        _ => None,
    };
    Unavailable { why: error.to_string(), remedy }
}

impl Bench for PaceBench<'_> {
    type Extra = Beside;

    fn doing(&self, cell: usize) -> String {
        let MethodCell { method, variant } = self.plan.cells[cell];
        let label = &self.plan.asked.frame.variants[variant].label;
        let every = format_duration(Duration::from_nanos(self.rate.period_ns()));
        format!("{} every {every} ({label})", self.plan.asked.methods[method].name)
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let MethodCell { method, variant } = self.plan.cells[cell];
        let real_time = self.plan.asked.frame.variants[variant].is_real_time();
        let stretch = (self.rate.per_second_f64() * STRETCH.as_secs_f64()) as u64;
        let most = if real_time { stretch.clamp(1, MOST_EVENTS) } else { MOST_EVENTS };
        self.last = self.so_far[cell].clone();
        let mut total = Sum::default();
        let mut to_go = operations;
        while to_go > 0 {
            let events = most.min(to_go);
            let (usage, counts, by_kernel) = self.trial(method, self.rate, events, into)?;
            if real_time {
                self.throttle.after(Duration::from_nanos(usage.cpu_ns.unwrap_or(usage.elapsed_ns)));
            }
            self.note(&counts, usage, by_kernel);
            total.add(usage);
            to_go -= events;
        }
        Ok(total.usage())
    }

    fn keep(&mut self, cell: usize, _: (u32, u64), beside: &mut Beside) {
        self.so_far[cell] = self.last.clone();
        *beside = std::mem::take(&mut self.last);
    }
}

impl Plan {
    /// The receiver, if datagrams go to this machine. Adds a notice if arrivals are not measured.
    pub(super) fn gather(&self, scene: &Scene<'_>) -> Option<Receiver> {
        let Target::Udp { to, .. } = self.asked.target else { return None };
        let here = to.ip().is_loopback().then(|| Receiver::start(to));
        let why = match here {
            None => "the datagrams go to another machine; a receiver of punctual there measures them".to_owned(),
            Some(Ok(receiver)) => return Some(receiver),
            Some(Err(error)) if error.source.kind() == std::io::ErrorKind::AddrInUse => {
                format!("another program receives at {to}; a receiver of punctual would measure them")
            }
            Some(Err(error)) => format!("no receiver could be started: {error}"),
        };
        scene.notice(Notice::Other { text: format!("arrivals are not measured: {why}") });
        None
    }
}

/// Time from the beginning of a trial to its first event, ns: for setting timers.
const LEAD_NS: i64 = 300_000;
/// Stamps requested per second: each costs the kernel a copy, and this process a call afterwards.
const STAMPS_A_SECOND: f64 = 20_000.0;
/// Stamps requested in one trial: the socket's capacity until they are read.
const STAMPS_A_TRIAL: u64 = 8_000;
/// Marks an event without a departure.
const NEVER: i64 = i64::MIN;

/// Largest number of events in one trial.
const MOST_EVENTS: u64 = MOST as u64;

/// The parameters of a trial.
#[derive(Debug, Clone, Copy)]
struct Order {
    rate: Rate,
    events: u64,
    mode: Mode,
    stream: u32,
}

/// The counts of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    /// Events that were due.
    pub(super) events: u64,
    /// Datagrams that the kernel accepted.
    pub(super) sent: u64,
    /// Not sent: no room in the buffer.
    pub(super) no_room: u64,
    /// Not sent: no receiver.
    pub(super) refused: u64,
    /// Arrived, if a receiver records it.
    pub(super) received: Option<u64>,
    /// Datagrams that arrived more than once.
    pub(super) twice: u64,
    /// Arrived after a datagram that was sent later.
    pub(super) reordered: u64,
    /// Time from the ideal time of the first event to the last departure.
    pub(super) span_ns: u64,
    /// Gaps between events in that span.
    pub(super) gaps: u64,
}

impl Counts {
    pub(super) fn add(&mut self, more: &Self) {
        self.events += more.events;
        self.sent += more.sent;
        self.no_room += more.no_room;
        self.refused += more.refused;
        self.received = match (self.received, more.received) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.twice += more.twice;
        self.reordered += more.reordered;
        self.span_ns += more.span_ns;
        self.gaps += more.gaps;
    }

    /// The rate that was reached, in events per second.
    pub(super) fn rate_reached(&self) -> Option<f64> {
        (self.gaps > 0 && self.span_ns > 0).then(|| self.gaps as f64 * 1e9 / self.span_ns as f64)
    }
}

/// Records a trial, without allocation while it runs.
struct Stand {
    departures: Vec<i64>,
    /// The events with a requested stamp, in order.
    stamped: Vec<u32>,
    /// Departures by the kernel's stamps.
    kernel: Vec<i64>,
    /// Ideal time and lateness of each departure.
    late: Vec<(i64, i64)>,
    /// Period jitter of departures.
    jitter: Recorder,
    /// Time from send to the receiving program.
    one_way: Recorder,
    /// Period jitter of arrivals at the socket.
    arrival_jitter: Recorder,
    /// Drift of departures.
    drift: Drift,
}

impl Stand {
    fn new() -> Self {
        Self {
            departures: Vec::with_capacity(MOST),
            stamped: Vec::with_capacity(MOST),
            kernel: vec![NEVER; MOST],
            late: Vec::new(),
            jitter: Recorder::new(),
            one_way: Recorder::new(),
            arrival_jitter: Recorder::new(),
            drift: Drift::default(),
        }
    }

    /// Performs a trial. `wire`: none for ticks only. Enters the lateness of departures relative to the ideal time. Returns whether departures are by the kernel's stamps.
    fn perform(
        &mut self,
        order: Order,
        pacing: &mut dyn PacingSession,
        mut wire: Option<&mut Wire>,
        receiver: Option<&Receiver>,
        lateness: &mut Recorder,
    ) -> linux::Result<(Usage, Counts, bool)> {
        let events = order.events.min(MOST_EVENTS);
        self.departures.clear();
        self.stamped.clear();
        [&mut self.jitter, &mut self.one_way, &mut self.arrival_jitter].into_iter().for_each(Recorder::clear);
        self.drift = Drift::default();
        if let Some(receiver) = receiver {
            receiver.begin(order.stream, events as usize);
        }
        if let Some(wire) = &mut wire {
            wire.forget_errors();
            wire.begin(order.stream, order.rate)?;
        }
        let stamps_before = wire.as_ref().map_or(0, |wire| wire.asked);
        // NTP slews both clocks alike. Only a step of the wall clock changes the offset: then the whole trial is
        // left out.
        let offset_ns = Offset::read(Clock::Realtime).ns();
        let ahead = if order.mode == Mode::KernelTime { MOST_AHEAD_NS } else { 0 };
        let start = Moment::from_nanos(now_ns(Clock::Monotonic) + LEAD_NS + ahead);
        pacing.begin(start, order.rate)?;
        let meter = Meter::start();
        let sent = self.send_all(&order, events, start, pacing, wire.as_deref_mut());
        let usage = meter.stop();
        pacing.end();
        let mut counts = sent?;
        // Datagrams held back by the kernel have still to leave.
        let over_ns = start.as_nanos() + order.rate.time_of(events + 1);
        if let Some(receiver) = receiver {
            receiver.settle(counts.sent, over_ns);
            counts.received = Some(receiver.received());
            counts.twice = receiver.twice();
        }
        let by_kernel = match wire {
            Some(wire) if wire.stamps => self.read_stamps(wire, order.mode, stamps_before, (over_ns, offset_ns))?,
            _ => false,
        };
        (counts.span_ns, counts.gaps) = self.record_departures(&order, start, by_kernel, lateness);
        if let Some(receiver) = receiver {
            counts.reordered = self.record_arrivals(&order, receiver, offset_ns);
        }
        Ok((usage, counts, by_kernel))
    }

    /// The measuring loop.
    fn send_all(
        &mut self,
        order: &Order,
        events: u64,
        start: Moment,
        pacing: &mut dyn PacingSession,
        mut wire: Option<&mut Wire>,
    ) -> linux::Result<Counts> {
        let mut counts = Counts::default();
        let mut ideal = Grid::new(order.rate, start);
        // Stamps are requested for pairs of neighbours, so that they show gaps.
        let by_rate = (order.rate.per_second_f64() / STAMPS_A_SECOND).ceil() as u64;
        let every = by_rate.max(events.div_ceil(STAMPS_A_TRIAL)).max(1);
        let chosen = move |number: u64| every == 1 || number % (2 * every) < 2;
        while counts.events < events {
            let due = pacing.next()?.min(events - counts.events);
            let Some(wire) = wire.as_deref_mut() else {
                let now = now_ns(Clock::Monotonic);
                (0..due).for_each(|_| self.departures.push(now));
                counts.events += due;
                continue;
            };
            if order.mode == Mode::Batch {
                self.send_batch(wire, (due, &chosen), &mut ideal, &mut counts)?;
                continue;
            }
            for _ in 0..due {
                let number = counts.events;
                let stamped = wire.stamps && chosen(number);
                let intended = ideal.next().as_nanos();
                ideal.advance();
                if order.mode == Mode::KernelRate {
                    // Checked before, so that no call fails: some kernels count a stamp for a failed call.
                    wire.wait_for_room()?;
                }
                let (at, sent) = wire.send_one(number, intended, stamped)?;
                if stamped && sent == Sent::Yes {
                    self.stamped.push(number as u32);
                }
                self.count(sent, at, &mut counts);
            }
        }
        Ok(counts)
    }

    /// Sends the due ones; `chosen` tells which of them are to be stamped.
    fn send_batch(
        &mut self,
        wire: &mut Wire,
        (due, chosen): (u64, &impl Fn(u64) -> bool),
        ideal: &mut Grid,
        counts: &mut Counts,
    ) -> linux::Result<()> {
        let mut left = due as usize;
        let stamps = wire.stamps;
        while left > 0 {
            let first = counts.events;
            let count = left.min(punctual::pacer::LARGEST_BATCH as usize);
            let stamped = |number: u64| stamps && chosen(number);
            let (at, taken, why) = wire.send_many(first, count, stamped, || {
                let intended = ideal.next().as_nanos();
                ideal.advance();
                intended
            })?;
            let numbers = first..first + taken as u64;
            self.stamped.extend(numbers.filter(|&number| stamped(number)).map(|number| number as u32));
            (0..taken).for_each(|_| self.count(Sent::Yes, at, counts));
            let why = if why == Sent::Yes { Sent::NoRoom } else { why };
            (taken..count).for_each(|_| self.count(why, at, counts));
            left -= count;
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, sent: Sent, at: i64, counts: &mut Counts) {
        counts.events += 1;
        match sent {
            Sent::Yes => counts.sent += 1,
            Sent::NoRoom => counts.no_room += 1,
            Sent::Refused => counts.refused += 1,
        }
        self.departures.push(if sent == Sent::Yes { at } else { NEVER });
    }

    /// Reads the kernel's stamps into `kernel`. False: there are too few of them.
    fn read_stamps(
        &mut self,
        wire: &Wire,
        mode: Mode,
        before: u32,
        (until_ns, offset_ns): (i64, i64),
    ) -> linux::Result<bool> {
        self.kernel[..self.departures.len()].fill(NEVER);
        let mut seen = 0_usize;
        wire.stamps_since(before, until_ns, |which, realtime_ns| {
            if let Some(&number) = self.stamped.get(which as usize) {
                self.kernel[number as usize] = realtime_ns - offset_ns;
                seen += 1;
            }
        })?;
        // If the kernel paces, the time of the call means nothing. A datagram without a stamp may never have
        // left.
        let kernel_paces = matches!(mode, Mode::KernelRate | Mode::KernelTime);
        if kernel_paces && seen == 0 && !self.stamped.is_empty() {
            let nothing = linux::Error::from_errno("recvmsg", rustix::io::Errno::NODATA.raw_os_error());
            return Err(
                nothing.on("no datagram's departure was stamped: the queueing discipline may have dropped them")
            );
        }
        Ok(kernel_paces || seen > 0 && seen * 10 >= self.stamped.len() * 9)
    }

    /// Records departures. Returns the time from the first ideal time to the last known one, and the number of gaps
    /// in it.
    fn record_departures(
        &mut self,
        order: &Order,
        start: Moment,
        by_kernel: bool,
        lateness: &mut Recorder,
    ) -> (u64, u64) {
        let departures = if by_kernel { &self.kernel[..self.departures.len()] } else { &self.departures[..] };
        let mut ideal = Grid::new(order.rate, start);
        let period = order.rate.time_of(1);
        let mut before = NEVER;
        self.late.clear();
        for &departure in departures {
            if departure != NEVER {
                let due = ideal.next().as_nanos();
                lateness.record(departure - due);
                self.late.push((due, departure - due));
                if before != NEVER {
                    self.jitter.record((departure - before - period).abs());
                }
            }
            before = departure;
            ideal.advance();
        }
        self.drift.take(&self.late);
        let last = departures.iter().rposition(|departure| *departure != NEVER);
        let span = |last: usize| departures[last].saturating_sub(start.as_nanos()).max(0).unsigned_abs();
        last.map_or((0, 0), |last| (span(last), last as u64))
    }

    /// Records arrivals. Returns the number that came after a datagram that was sent later.
    fn record_arrivals(&mut self, order: &Order, receiver: &Receiver, offset_ns: i64) -> u64 {
        let period = order.rate.time_of(1);
        let mut before: Option<i64> = None;
        let (mut reordered, mut earliest) = (0, u32::MAX);
        for (number, &departure) in self.departures.iter().enumerate() {
            let arrival = receiver.arrival(number);
            if let Some(arrival) = arrival.filter(|_| departure != NEVER) {
                self.one_way.record(arrival.program_ns - departure);
            }
            let at_socket = arrival.and_then(|a| a.socket_realtime_ns).map(|ns| ns - offset_ns);
            if let Some((before, now)) = before.zip(at_socket) {
                self.arrival_jitter.record((now - before - period).abs());
            }
            before = at_socket;
        }
        for number in (0..self.departures.len()).rev() {
            if let Some(arrival) = receiver.arrival(number) {
                reordered += u64::from(arrival.order > earliest);
                earliest = earliest.min(arrival.order);
            }
        }
        reordered
    }
}

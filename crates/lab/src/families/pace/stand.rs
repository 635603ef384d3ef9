//! The test stand on which a method performs events at a rate, sent or only ticked, and which records what became of each.

use punctual::rate::Grid;
use punctual::{Moment, Rate};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::net::Sent;
use punctual_record::{Recorder, Usage};

use super::plan::{MOST_AHEAD_NS, PacingSession};
use crate::datagrams::{MOST, Mode, Receiver, Wire};
use crate::frame::breaks::Offset;
use crate::frame::figures::{Drift, Meter};

/// Time from the beginning of a trial to its first event, ns: for setting timers.
const LEAD_NS: i64 = 300_000;
/// Stamps requested per second: each costs the kernel a copy, and this process a call afterwards.
const STAMPS_A_SECOND: f64 = 20_000.0;
/// Stamps requested in one trial: the socket's capacity until they are read.
const STAMPS_A_TRIAL: u64 = 8_000;
/// Marks an event without a departure.
const NEVER: i64 = i64::MIN;

/// Largest number of events in one trial.
pub(super) const MOST_EVENTS: u64 = MOST as u64;

/// The parameters of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) rate: Rate,
    pub(super) events: u64,
    pub(super) mode: Mode,
    pub(super) stream: u32,
}

/// The figures of a trial.
#[derive(Debug)]
pub(super) struct Figures<'a> {
    /// Lateness of departures relative to the ideal time.
    pub(super) lateness: &'a mut Recorder,
    /// Period jitter of departures.
    pub(super) jitter: &'a mut Recorder,
    /// Time from send to the receiving program.
    pub(super) one_way: &'a mut Recorder,
    /// Period jitter of arrivals at the socket.
    pub(super) arrival_jitter: &'a mut Recorder,
    /// Drift of departures.
    pub(super) drift: &'a mut Drift,
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
    /// CPU time of the receiver.
    pub(super) receiver_cpu_ns: u64,
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
        self.receiver_cpu_ns += more.receiver_cpu_ns;
    }

    /// The rate that was reached, in events per second.
    pub(super) fn rate_reached(&self) -> Option<f64> {
        (self.gaps > 0 && self.span_ns > 0).then(|| self.gaps as f64 * 1e9 / self.span_ns as f64)
    }
}

/// Records a trial, without allocation while it runs.
pub(super) struct Stand {
    departures: Vec<i64>,
    /// The events with a requested stamp, in order.
    stamped: Vec<u32>,
    /// Departures by the kernel's stamps.
    kernel: Vec<i64>,
    /// Ideal time and lateness of each departure.
    late: Vec<(i64, i64)>,
}

impl Stand {
    pub(super) fn new() -> Self {
        Self {
            departures: Vec::with_capacity(MOST),
            stamped: Vec::with_capacity(MOST),
            kernel: vec![NEVER; MOST],
            late: Vec::new(),
        }
    }

    /// Performs a trial. `wire`: none for ticks only. Returns whether departures are by the kernel's stamps.
    pub(super) fn perform(
        &mut self,
        order: Order,
        pacing: &mut dyn PacingSession,
        mut wire: Option<&mut Wire>,
        receiver: Option<&Receiver>,
        figures: &mut Figures<'_>,
    ) -> linux::Result<(Usage, Counts, bool)> {
        let events = order.events.min(MOST_EVENTS);
        self.departures.clear();
        self.stamped.clear();
        let receiver_cpu = receiver.map_or(0, Receiver::cpu_ns);
        if let Some(receiver) = receiver {
            receiver.begin(order.stream, events as usize);
        }
        if let Some(wire) = &mut wire {
            wire.forget_errors();
            wire.begin(order.stream, order.rate.period_ns(), order.rate.per_second_f64(), order.mode)?;
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
            counts.receiver_cpu_ns = receiver.cpu_ns().saturating_sub(receiver_cpu);
        }
        let by_kernel = match wire {
            Some(wire) if wire.stamps => self.read_stamps(wire, order.mode, stamps_before, (over_ns, offset_ns))?,
            _ => false,
        };
        (counts.span_ns, counts.gaps) = self.record_departures(&order, start, by_kernel, figures);
        if let Some(receiver) = receiver {
            counts.reordered = self.record_arrivals(&order, receiver, offset_ns, figures);
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
                let (at, sent) = wire.send_one(number, intended, stamped, order.mode)?;
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
        figures: &mut Figures<'_>,
    ) -> (u64, u64) {
        let departures = if by_kernel { &self.kernel[..self.departures.len()] } else { &self.departures[..] };
        let mut ideal = Grid::new(order.rate, start);
        let period = order.rate.time_of(1);
        let mut before = NEVER;
        self.late.clear();
        for &departure in departures {
            if departure != NEVER {
                let due = ideal.next().as_nanos();
                figures.lateness.record(departure - due);
                self.late.push((due, departure - due));
                if before != NEVER {
                    figures.jitter.record((departure - before - period).abs());
                }
            }
            before = departure;
            ideal.advance();
        }
        figures.drift.take(&self.late);
        let last = departures.iter().rposition(|departure| *departure != NEVER);
        let span = |last: usize| departures[last].saturating_sub(start.as_nanos()).max(0).unsigned_abs();
        last.map_or((0, 0), |last| (span(last), last as u64))
    }

    /// Records arrivals. Returns the number that came after a datagram that was sent later.
    fn record_arrivals(&self, order: &Order, receiver: &Receiver, offset_ns: i64, figures: &mut Figures<'_>) -> u64 {
        let period = order.rate.time_of(1);
        let mut before: Option<i64> = None;
        let (mut reordered, mut earliest) = (0, u32::MAX);
        for (number, &departure) in self.departures.iter().enumerate() {
            let arrival = receiver.arrival(number);
            if let Some(arrival) = arrival.filter(|_| departure != NEVER) {
                figures.one_way.record(arrival.program_ns - departure);
            }
            let at_socket = arrival.and_then(|a| a.socket_realtime_ns).map(|ns| ns - offset_ns);
            if let Some((before, now)) = before.zip(at_socket) {
                figures.arrival_jitter.record((now - before - period).abs());
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

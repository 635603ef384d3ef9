//! The receiver: it waits for messages in one of the ways, and measures when each arrives.

use std::ops::ControlFlow;
use std::time::Duration;

use punctual::RtThrottle;
use punctual::backoff::{Backoff, Profile};
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Recorder, SeriesTally, Usage};

use super::mailbox::Mailbox;
use super::plan::{Cell, Plan, ReceiveMethod};
use crate::crowd::{Crowd, Shares};
use crate::frame::breaks::moved_away;
use crate::frame::error::{Opened, ready};
use crate::frame::figures::{Meter, Sum};
use crate::frame::{Bench, Failure, Unavailable};
use crate::ways::yielding::Yielder;

/// Polls between two checks of the stop request: about 50 µs.
const LOOK: u32 = 1024;
/// A message this long overdue will not come: then the sender is checked.
const OVERDUE_NS: i64 = 5_000_000_000;
/// Interval without a message after which the sender is checked.
const SUSPICIOUS_NS: i64 = 500_000_000;

/// A cell's results beside one-way latencies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    pub(super) round_trips: SeriesTally,
    /// Who had the CPU while no message came.
    pub(super) silence: Shares,
    /// The same for each round.
    pub(super) shares: Vec<Shares>,
}

/// The sender, and the busy program.
pub(crate) struct Others {
    pub(super) mailbox: Mailbox,
    pub(super) sender: Child,
    pub(super) busy: Result<Crowd, Failure>,
}

/// The receiver, its sender, and the busy program.
pub(super) struct PollBench<'a> {
    plan: &'a Plan,
    yielders: Vec<Opened<dyn Yielder>>,
    backoff: Backoff,
    mailbox: Mailbox,
    sender: Child,
    busy: Result<Crowd, Failure>,
    /// The shares of the last batch, until it counts.
    last: Option<Shares>,
    round_trips: Recorder,
    throttle: RtThrottle,
}

impl<'a> PollBench<'a> {
    pub(super) fn open(plan: &'a Plan, others: Others) -> Self {
        let Others { mailbox, sender, busy } = others;
        Self {
            plan,
            yielders: plan.methods.iter().map(|m| (m.open)()).collect(),
            backoff: Backoff::with_profile(&profile(plan)),
            mailbox,
            sender,
            busy,
            last: None,
            round_trips: Recorder::new(),
            throttle: RtThrottle::new(),
        }
    }

    /// Checks that the way is available. Otherwise the sender receives no order.
    fn available(&self, how: ReceiveMethod) -> Result<(), Failure> {
        let ReceiveMethod::Yield { method, .. } = how else { return Ok(()) };
        let opened = self.yielders[method].as_ref();
        opened.map(drop).map_err(Failure::from)
    }

    fn set_busy(&mut self, busy: bool) -> Result<(), Failure> {
        match &mut self.busy {
            Ok(crowd) => crowd.set_working(u32::from(busy)),
            Err(failure) if busy => Err(failure.clone()),
            Err(_) => Ok(()),
        }
    }

    /// Waits for message `number`, and returns when it arrived. Returns none at `deadline_ns`.
    fn receive(&mut self, how: ReceiveMethod, number: u64, deadline_ns: Option<i64>) -> Result<Option<i64>, Failure> {
        let overdue = now_ns(Clock::Monotonic) + OVERDUE_NS;
        loop {
            let last = deadline_ns.unwrap_or_else(|| now_ns(Clock::Monotonic) + SUSPICIOUS_NS);
            if let Some(seen) = self.receive_until(how, number, last, deadline_ns.is_some())? {
                return Ok(Some(seen));
            }
            if linux::stop::requested() {
                return Err(Failure::Stopped);
            }
            if deadline_ns.is_some() {
                return Ok(None);
            }
            if !matches!(self.sender.ended(), Ok(None)) || now_ns(Clock::Monotonic) > overdue {
                return Err(self.why_overdue());
            }
        }
    }

    /// Waiting without a message (`punctual`) ends on time. Waiting for a message reads the clock seldom, so that
    /// this does not delay it.
    fn receive_until(
        &mut self,
        how: ReceiveMethod,
        number: u64,
        last: i64,
        punctual: bool,
    ) -> Result<Option<i64>, Failure> {
        let mut look = Look { last, seldom: 0 };
        let Self { mailbox, backoff, .. } = self;
        Ok(match how {
            ReceiveMethod::Spin => poll_without_yielding(mailbox, number, &mut look),
            ReceiveMethod::Yield { method, polls } => {
                let yielder = ready(&mut self.yielders[method])?;
                poll_and_yield(mailbox, number, polls, yielder, punctual, &mut look)
            }
            ReceiveMethod::Block => block(mailbox, number, &mut look),
            ReceiveMethod::Backoff => back_off(mailbox, number, backoff, &mut look),
        })
    }

    fn why_overdue(&mut self) -> Failure {
        let why = match self.sender.ended() {
            Ok(Some(ended)) => format!("the sending process {ended} in the middle of the measurement"),
            _ => "no message came for 5 s: the sending process does not get its CPU".to_owned(),
        };
        Unavailable::but(why, "leave the process named punctual-send alone, or choose the sender's CPU").into()
    }

    /// Receives `count` messages, and replies to each.
    fn converse(&mut self, cell: &Cell, count: u64, mut into: Option<&mut Recorder>) -> Result<(), Failure> {
        let real_time = self.plan.request.variants[cell.variant].is_real_time();
        let first = self.mailbox.order(count, cell.pause());
        for number in first..first + count {
            let meter = Meter::start();
            let Some(seen) = self.receive(cell.how, number, None)? else { return Err(self.why_overdue()) };
            let sent = self.mailbox.sent_at();
            let before = self.mailbox.round_trip(number - 1);
            self.mailbox.answer(number);
            if let Some(into) = into.as_deref_mut() {
                into.record(seen - sent);
                if let Some(ns) = before.filter(|_| number > first) {
                    self.round_trips.record(ns);
                }
            }
            if real_time {
                self.throttle.after(Duration::from_nanos(meter.stop().cpu_ns.unwrap_or(0)));
            }
        }
        Ok(())
    }

    /// Waits without a message, and measures which program has the CPU.
    fn wait_in_silence(&mut self, cell: &Cell, time: Duration) -> Result<Shares, Failure> {
        let busy_ns = |bench: &Self| bench.busy.as_ref().map_or(Ok(0), Crowd::cpu_ns);
        let begin = now_ns(Clock::Monotonic);
        let own = now_ns(Clock::ThreadCpu);
        let theirs = busy_ns(self)?;
        let never = u64::MAX;
        self.receive(cell.how, never, Some(begin + time.as_nanos() as i64))?;
        let theirs = busy_ns(self)? - theirs;
        let own = now_ns(Clock::ThreadCpu) - own;
        Ok(Shares { elapsed_ns: now_ns(Clock::Monotonic) - begin, own_ns: own, competitors_ns: theirs })
    }

    fn measure(&mut self, cell: &Cell, operations: u64, into: &mut Recorder) -> Result<(Usage, Shares), Failure> {
        self.converse(cell, self.plan.request.warmup.into(), None)?;
        self.round_trips.clear();
        let mut total = Sum::default();
        let meter = Meter::start();
        self.converse(cell, operations, Some(into))?;
        total.add(meter.stop());
        let mut shares = Shares::default();
        if cell.busy {
            let meter = Meter::start();
            // Under a real-time policy this would hold the CPU: it is done in pieces, with rests between them.
            let mut left = cell.silence() * operations.min(u32::MAX.into()) as u32;
            while !left.is_zero() {
                let piece = left.min(Duration::from_millis(50));
                let part = self.wait_in_silence(cell, piece)?;
                shares.add(part);
                if self.plan.request.variants[cell.variant].is_real_time() {
                    self.throttle.after(Duration::from_nanos(part.own_ns.unsigned_abs()));
                }
                left -= piece;
            }
            total.add(meter.stop());
        }
        Ok((total.usage(), shares))
    }
}

impl Bench for PollBench<'_> {
    type Extra = Extra;

    fn doing(&self, cell: usize) -> String {
        let cell = &self.plan.cells[cell];
        let how = match cell.how {
            ReceiveMethod::Spin => "polls without yielding".to_owned(),
            ReceiveMethod::Yield { method, polls } => format!("{polls} polls, then {}", self.plan.methods[method].name),
            ReceiveMethod::Block => "blocks in futex".to_owned(),
            ReceiveMethod::Backoff => "Backoff".to_owned(),
        };
        let load = if cell.busy { "busy CPU" } else { "idle CPU" };
        format!("{how}, {load} ({})", self.plan.request.variants[cell.variant].label)
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let at = self.plan.cells[cell];
        self.available(at.how)?;
        self.set_busy(at.busy)?;
        let measured = self.measure(&at, operations, into);
        let alive = self.busy.as_mut().map_or(Ok(()), Crowd::all_alive);
        self.set_busy(false)?;
        let label = &self.plan.request.variants[at.variant].label;
        let mut moved = moved_away(label, &[self.sender.id()], self.plan.sender_cpu, "the sender");
        let busy = self.busy.as_ref().map(Crowd::process_ids).unwrap_or_default();
        moved.extend(moved_away(label, &busy, self.plan.cpu, "the busy program"));
        if !moved.is_empty() && !linux::stop::requested() {
            return Err(Failure::Lost(moved));
        }
        let (usage, shares) = measured?;
        if at.busy {
            alive?;
        }
        self.last = Some(shares);
        Ok(usage)
    }

    fn keep(&mut self, _: usize, (round, started_ns): (u32, u64), extra: &mut Extra) {
        let Some(shares) = self.last.take() else { return };
        extra.round_trips.add_round(round, started_ns, &self.round_trips, Usage::default());
        extra.shares.push(shares);
        extra.silence.add(shares);
    }
}

/// The condition to end a wait.
struct Look {
    last: i64,
    seldom: u32,
}

impl Look {
    /// Whether the wait is over.
    fn up(&self) -> ControlFlow<()> {
        let enough = linux::stop::requested() || now_ns(Clock::Monotonic) >= self.last;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The same, but the clock is read only every sixteenth time. The stop flag is checked each time.
    fn up_seldom(&mut self) -> ControlFlow<()> {
        self.seldom = self.seldom.wrapping_add(1);
        if self.seldom.is_multiple_of(16) || linux::stop::requested() { self.up() } else { ControlFlow::Continue(()) }
    }
}

/// Polls at most `polls` times, and returns when the message arrived.
#[inline]
fn poll(mailbox: &Mailbox, number: u64, polls: u32) -> Option<i64> {
    for _ in 0..polls {
        if mailbox.has(number) {
            return Some(now_ns(Clock::Monotonic));
        }
        std::hint::spin_loop();
    }
    None
}

fn poll_without_yielding(mailbox: &Mailbox, number: u64, look: &mut Look) -> Option<i64> {
    loop {
        if let Some(seen) = poll(mailbox, number, LOOK) {
            return Some(seen);
        }
        if look.up().is_break() {
            return None;
        }
    }
}

fn poll_and_yield(
    mailbox: &Mailbox,
    number: u64,
    polls: u32,
    yielder: &mut dyn Yielder,
    looks_often: bool,
    look: &mut Look,
) -> Option<i64> {
    loop {
        let mut to_go = polls;
        while to_go > 0 {
            // In portions, so that a hundred million polls can be interrupted.
            let portion = to_go.min(LOOK * 64);
            if let Some(seen) = poll(mailbox, number, portion) {
                return Some(seen);
            }
            to_go -= portion;
            let enough = if looks_often || to_go > 0 { look.up() } else { look.up_seldom() };
            if enough.is_break() {
                return None;
            }
        }
        yielder.repeat(1);
    }
}

fn block(mailbox: &Mailbox, number: u64, look: &mut Look) -> Option<i64> {
    loop {
        let key = mailbox.event().prepare_wait();
        if mailbox.has(number) {
            return Some(now_ns(Clock::Monotonic));
        }
        mailbox.event().wait(key, Some(look.last));
        if mailbox.has(number) {
            return Some(now_ns(Clock::Monotonic));
        }
        if look.up().is_break() {
            return None;
        }
    }
}

/// The settings of this machine's backoff. It is given whether both ends share a CPU, as in a program that knows.
fn profile(plan: &Plan) -> Profile {
    let measured = *Profile::of_this_machine();
    Profile { cpus: if plan.shares_cpu() { 1 } else { measured.cpus }, ..measured }
}

fn back_off(mailbox: &Mailbox, number: u64, backoff: &mut Backoff, look: &mut Look) -> Option<i64> {
    let left = Duration::from_nanos((look.last - now_ns(Clock::Monotonic)).max(0).unsigned_abs());
    // A stop request interrupts this thread once. Waiting in portions notices also a request that came just before.
    let portion = left.min(Duration::from_millis(100));
    loop {
        let seen = backoff
            .wait_for_at_most(mailbox.event(), portion, || mailbox.has(number).then(|| now_ns(Clock::Monotonic)));
        if seen.is_some() || look.up().is_break() {
            return seen;
        }
    }
}

//! `polls`: how often to poll before a yield, by the latency of a message and the CPU share of others.
//!
//! The input is a [`Plan`]. A receiver on one CPU waits for messages that a sender process on another sends at random
//! times. It polls N times, yields, and polls again; or it never yields, or blocks, or backs off. Its CPU has a busy
//! program or none. The [`Session`] receives for each way a series `one_way` and a series `round_trip`. If the busy
//! program runs, they include the shares of the CPU while no message comes.

mod mailbox;
mod plan;

use std::time::Duration;

use mailbox::Mailbox;
use plan::Cell;
pub use plan::{MOST_POLLS, Plan, ReceiveMethod, Request, subjects};
use punctual::RtThrottle;
use punctual::backoff::{Backoff, Profile};
use punctual::conditions::Conditions;
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::polls::{self, Load, SenderPlace};
use punctual_record::experiment::yielding::CompetitorKind;
use punctual_record::{About, Ask, Experiment, Hint, Quantity, Recorder, SeriesTally, Typed, Usage};

use crate::crowd::{Crowd, Restraint, Shares, child_under};
use crate::frame::{
    self, Bench, CellCost, CellId, Error, Failure, Family, Gathered, Layout, Measured, Meter, Opened, Place, Report,
    Scene, Schedule, Session, Sum, Unavailable, more_time, moved_away, names, ready,
};
use crate::ways::Yielder;

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::POLLS;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    frame::run(plan, session).map(drop)
}

impl Family for Plan {
    type Extra = Extra;
    const REASON_NAMES: &'static [&'static str] = names!(polls::Parameters: load, sender, polls);
    const REASON_NAMES_CONDITIONS: bool = true;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.request, self.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        let how = self.cells[cell].how;
        // The call that it makes between polls.
        let call =
            if let ReceiveMethod::Yield { method, .. } = how { Some(self.methods[method].call.into()) } else { None };
        CellId {
            subject: how.subject(&self.methods).into(),
            about: About { call, ..About::default() },
            experiment: Experiment::Polls(Typed::asked(parameters(self, &self.cells[cell]))),
        }
    }

    fn schedule(&self) -> Schedule {
        let cost = |cell: &Cell| {
            let (least, most) = cell.pause();
            let ns = ((least + most) / 2 + cell.silence()).as_nanos() as f64;
            CellCost::exactly(ns)
        };
        Schedule::new(self.request.amount, self.request.rounds, self.cells.iter().map(cost))
    }

    fn place(&self) -> Place {
        // The sender, on another CPU, has no real-time policy: a supervisor that sleeps there does not disturb it.
        Place { cpus: vec![self.cpu], real_time: self.request.is_real_time() }
    }

    fn forbidden(&self, cell: usize) -> Option<Unavailable> {
        let cell = &self.cells[cell];
        let polls = matches!(cell.how, ReceiveMethod::Spin | ReceiveMethod::Yield { .. });
        (polls && self.shares_cpu() && self.request.variants[cell.variant].is_real_time()).then(|| {
            Unavailable::but(
                "a receiver that polls under a real-time policy keeps a sender on its CPU from sending",
                Hint::from(Ask::SenderCpu).and(", or leave out the policy"),
            )
        })
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but("its share of the time did not pay for one message", more_time())
    }

    fn gather<'a>(&'a self, _: &Scene<'a>) -> Gathered<'a, Extra> {
        let pinned = |cpu| Conditions::new().cpu(cpu);
        let (mailbox, sender) = send_from(self, &pinned(self.sender_cpu))?;
        let busy = Crowd::gather(CompetitorKind::Process, 1, &pinned(self.cpu), Restraint::None);
        Ok(Box::new(move |_| Ok(Box::new(PollBench::open(self, (mailbox, sender), busy)))))
    }

    fn report(&self, cell: usize, measured: &Measured<'_, Extra>) -> Report {
        let experiment =
            |metrics| Experiment::Polls(Typed { parameters: parameters(self, &self.cells[cell]), metrics });
        let extra = measured.extra;
        let (competitor_cpu_share, own_cpu_share) = (extra.silence.competitors(), extra.silence.own());
        let metrics = polls::Metrics { competitor_cpu_share, own_cpu_share };
        let mut one_way = measured.series(measured.tally, Quantity::OneWay, experiment(metrics));
        Shares::enter(&extra.shares, 2, &mut one_way);
        let mut series = vec![one_way];
        if extra.round_trips.count() > 0 {
            series.push(measured.series(
                &extra.round_trips,
                Quantity::RoundTrip,
                experiment(polls::Metrics::default()),
            ));
        }
        Report::with_series(series)
    }
}

/// The sender, in a process of its own.
fn send_from(plan: &Plan, conditions: &Conditions) -> Result<(Mailbox, Child), Failure> {
    let failed = |error: punctual_linux::Error| {
        Unavailable::but(format!("starting the sender: {error}"), "raise ulimit -u or the cgroup's pids.max")
    };
    let mailbox = Mailbox::new().map_err(failed)?;
    let (theirs, own_cpu) = (mailbox.clone(), !plan.shares_cpu());
    let parent = std::process::id();
    let lives = move || std::os::unix::process::parent_id() == parent && !punctual_linux::child::deadline_passed();
    let sender = child_under("punctual-send", conditions, move || theirs.send_all(own_cpu, lives));
    Ok((mailbox, sender.map_err(failed)??))
}

fn parameters(plan: &Plan, cell: &Cell) -> polls::Parameters {
    polls::Parameters {
        load: if cell.busy { Load::Busy } else { Load::Idle },
        sender: if plan.shares_cpu() { SenderPlace::SameCpu } else { SenderPlace::OtherCpu },
        polls: match cell.how {
            ReceiveMethod::Spin => Some(0),
            ReceiveMethod::Yield { polls, .. } => Some(polls),
            ReceiveMethod::Block | ReceiveMethod::Backoff => None,
        },
    }
}

/// Polls between two checks of the stop request: about 50 µs.
const LOOK: u32 = 1024;
/// A message this long overdue will not come: then the sender is checked.
const OVERDUE_NS: i64 = 5_000_000_000;
/// Interval without a message after which the sender is checked.
const SUSPICIOUS_NS: i64 = 500_000_000;

/// A cell's results beside one-way latencies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    round_trips: SeriesTally,
    /// Who had the CPU while no message came.
    silence: Shares,
    /// The same for each round.
    shares: Vec<Shares>,
}

/// The receiver, its sender, and the busy program.
struct PollBench<'a> {
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
    fn open(plan: &'a Plan, (mailbox, sender): (Mailbox, Child), busy: Result<Crowd, Failure>) -> Self {
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
        // Without its way to yield, the sender receives no order.
        if let ReceiveMethod::Yield { method, .. } = at.how {
            ready(&mut self.yielders[method])?;
        }
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
    fn up(&self) -> bool {
        linux::stop::requested() || now_ns(Clock::Monotonic) >= self.last
    }

    /// The same, but the clock is read only every sixteenth time. The stop flag is checked each time.
    fn up_seldom(&mut self) -> bool {
        self.seldom = self.seldom.wrapping_add(1);
        if self.seldom.is_multiple_of(16) { self.up() } else { linux::stop::requested() }
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
        if look.up() {
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
            if enough {
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
        if look.up() {
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
        if seen.is_some() || look.up() {
            return seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::frame::tests::{made_up_report, made_up_tally};
    use crate::frame::{Amount, Request as Frame};

    #[test]
    fn a_series_says_how_often_was_polled_and_who_had_the_cpu() {
        let frame = Frame::as_found(Amount::Time(Duration::from_secs(1)), 3);
        let plan = Plan::new(Request { methods: Vec::new(), polls: vec![0], sender_cpu: None, frame }).unwrap();
        let silence = Shares { elapsed_ns: 200, own_ns: 20, competitors_ns: 150 };
        let with_silence = Extra { silence, round_trips: made_up_tally(&[5]), ..Extra::default() };
        let extras: Vec<Extra> = plan.cells.iter().map(|_| with_silence.clone()).collect();
        let busy = plan.cells.iter().position(|cell| cell.busy).unwrap();
        let report = made_up_report(&plan, busy, &[3], &extras);
        let typed = report.series[0].experiment.polls().unwrap();
        assert_eq!((typed.parameters.load, typed.parameters.polls), (Load::Busy, Some(0)));
        assert_eq!((typed.metrics.competitor_cpu_share, typed.metrics.own_cpu_share), (Some(0.75), Some(0.1)));
        assert_eq!((report.series[1].quantity, report.series[1].summary.count), (Quantity::RoundTrip, 1));
        let blocks = made_up_report(&plan, busy + 1, &[3], &extras);
        assert_eq!(blocks.series[0].experiment.polls().unwrap().parameters.polls, None);
        assert_eq!(blocks.series[0].subject, "futex_wait");
    }
}

//! One trip: opens both ends, starts the other process, passes messages, and removes everything.

use std::time::Duration;

use punctual::backoff::Limits;
use punctual::conditions::{Applied, Conditions, Lost};
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::signal::Interrupter;
use punctual_record::remedy::of_refused;
use punctual_record::{Hint, Recorder, Usage};

use super::keeper::Keeper;
use super::mechanism::{
    Asked, End, Halt, Inlet, Link, Mechanism, Outlet, Peer, Receive, Then, Unavailable, Waiter, missing,
};
use super::message::{self, Blocks, Follow, Integrity, Letter};
use super::peer::{self, Account, Control, Job, Order, Other, Reason, State, Watched, Watcher};
use super::plan::Mode;
use crate::frame::{Failure, Meter, NotKept, Shared, no_thread_remedy};

/// After a failed call, the number and interval of checks that the other process lives. They take a tenth of
/// a second in total.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// After this many consecutive lost messages, all are considered lost.
const ALL_LOST: u32 = 5;

/// The parameters of a trip.
pub(super) struct Trip<'a> {
    pub(super) mechanism: &'static Mechanism,
    /// Label of its condition set.
    pub(super) label: &'a str,
    pub(super) job: Job,
    pub(super) depth: Option<usize>,
    pub(super) receive: Receive,
    /// The CPU of the measuring thread. None: any.
    pub(super) cpu: Option<usize>,
    pub(super) limits: Limits,
    pub(super) keeper: &'a Keeper,
    pub(super) interrupter: Interrupter,
    /// CPUs of the process at the start of the run.
    pub(super) cpus: &'a [usize],
}

/// The results of a trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) usage: Usage,
    pub(super) account: Account,
    pub(super) integrity: Integrity,
}

impl Trip<'_> {
    /// Makes the trip, and records each message that counts.
    pub(super) fn make(self, into: &mut Recorder, blocks: Option<&mut Blocks>) -> Result<Passed, Failure> {
        let halt = Halt::default();
        let asked = Asked {
            size: self.job.size,
            depth: self.depth,
            both_ways: self.job.mode == Mode::PingPong,
            receive: self.receive,
            keeper: self.keeper,
            halt: &halt,
        };
        let Link { mut here, there } = (self.mechanism.open)(&asked)?;
        let Applied { guard: placed, refused } = Conditions::new().maybe(self.cpu, Conditions::cpu).apply();
        if let Some(refused) = refused.first() {
            if let Some(lost) = peer::lost_cpu(refused) {
                return Err(self.lost(&[lost]));
            }
            return Err(Unavailable::but(refused.to_string(), of_refused(refused)).into());
        }
        let other = self.start(there, &halt)?;
        let outcome = self.travel(&mut here, &other, &halt, (into, blocks));
        other.control.order(Order::End);
        match &outcome {
            Ok(_) => drop(other.child.open().wait()),
            Err(_) => drop(other.child.open().kill()),
        }
        let mut lost = placed.lost();
        lost.extend(other.control.conditions_lost());
        // The other process is gone: now its end may be removed.
        drop((here, placed));
        // A lost condition may be the cause of another error.
        match outcome {
            Err(stopped @ Failure::Stopped) => Err(stopped),
            _ if !lost.is_empty() => Err(self.lost(&lost)),
            outcome => outcome,
        }
    }

    /// A condition of either process was lost: the measurement does not count.
    fn lost(&self, lost: &[Lost]) -> Failure {
        Failure::Lost(lost.iter().map(|lost| NotKept::new(self.label, lost)).collect())
    }

    fn start(&self, there: End, halt: &Halt) -> Result<Other, Failure> {
        let control = Control::new().map_err(|e| unavailable(&e))?;
        let parent = Peer { process: std::process::id() as i32, thread: linux::sched::current_thread_id() };
        let waiter = Waiter::new(self.receive, self.limits, halt.clone());
        let (job, theirs) = (self.job.clone(), control.clone());
        let name = if job.mode == Mode::PingPong { "punctual-echo" } else { "punctual-send" };
        let child = Child::spawn(name, move || peer::live(there, &job, &theirs, parent, waiter));
        let child = child.map_err(|e| Unavailable::but(e.to_string(), no_thread_remedy()))?;
        Ok(Other { child: Shared::new(child), control })
    }

    fn travel(
        &self,
        here: &mut End,
        other: &Other,
        halt: &Halt,
        (into, blocks): (&mut Recorder, Option<&mut Blocks>),
    ) -> Result<Passed, Failure> {
        let control = &other.control;
        let pid = other.child.open().id();
        let theirs = Peer { process: pid, thread: pid };
        here.outlet.as_mut().map_or(Ok(()), |outlet| outlet.meet(theirs)).map_err(|e| unavailable(&e))?;
        here.inlet.as_mut().map_or(Ok(()), |inlet| inlet.meet(theirs)).map_err(|e| unavailable(&e))?;
        let ready = control.wait_until(State::Ready, || other.lives() && !linux::stop::requested());
        self.see_to(other, ready)?;
        let watched = Watched {
            other: other.clone(),
            halt: halt.clone(),
            interrupter: self.interrupter.clone(),
            cpus: self.cpus.to_vec(),
        };
        let watcher = Watcher::start(watched)
            .map_err(|e| Unavailable::but(format!("starting a thread: {e}"), no_thread_remedy()))?;
        let mut waiter = Waiter::new(self.receive, self.limits, halt.clone());
        let mut follow = Follow::default();
        control.order(Order::Begin);
        let mut usage = Usage::default();
        let worked = match self.job.mode {
            Mode::PingPong => ping(here, &self.job, &mut waiter, &mut follow, (into, &mut usage)),
            _ => receive(here, &self.job, control, &mut waiter, &mut follow, (into, blocks, &mut usage)),
        };
        let reason = watcher.finish();
        if worked.is_ok() && self.job.mode == Mode::PingPong && self.job.lossy {
            see_off(here, self.job.size, other, halt);
        }
        self.judge(worked, reason, other)?;
        let integrity = follow.finish(self.job.warmup + self.job.messages);
        Ok(Passed { usage, account: control.account(), integrity })
    }

    /// Checks that the trip can continue: no stop request, lost condition or failure. `reached`: the child is where it
    /// should be.
    fn see_to(&self, other: &Other, reached: bool) -> Result<(), Failure> {
        if linux::stop::requested() {
            return Err(Failure::Stopped);
        }
        let lost = other.control.conditions_lost();
        if !lost.is_empty() {
            return Err(self.lost(&lost));
        }
        if let Some(why) = other.control.failure() {
            return Err(Unavailable::because(format!("the other process: {why}")).into());
        }
        if reached {
            return Ok(());
        }
        let ended = other.child.open().ended().ok().flatten();
        let how = ended.map_or("is gone".to_owned(), |e| e.to_string());
        let Job { size, mode, .. } = self.job;
        Err(Failure::PeerEnded { subject: format!("{}, {size} bytes, {mode}", self.mechanism.name), how })
    }

    /// Whether what was passed counts.
    fn judge(&self, worked: linux::Result<()>, reason: Option<Reason>, other: &Other) -> Result<(), Failure> {
        match (worked, reason) {
            (Ok(()), _) => {
                let reached = other.control.wait_until(State::Done, || other.lives());
                self.see_to(other, reached)
            }
            (Err(_), Some(Reason::Stopped)) => Err(Failure::Stopped),
            (Err(_), Some(Reason::Missing)) => Ok(()),
            (Err(e), _) => {
                // A closed end, or a lock with a dead holder, shows before the process is reaped: give it a moment.
                let goes_on = || other.lives() && other.control.failure().is_none();
                (0..LOOKS).take_while(|_| goes_on()).for_each(|_| std::thread::sleep(BETWEEN_LOOKS));
                if !goes_on() {
                    self.see_to(other, false)?;
                }
                let why = format!("{}: {e}", self.mechanism.call);
                let is_lost = e.errno() == rustix::io::Errno::TIMEDOUT.raw_os_error();
                let remedy = is_lost.then(|| Hint::from("see what drops them: a packet filter (`nft list ruleset`)"));
                Err(Unavailable { why, remedy }.into())
            }
        }
    }
}

fn unavailable(error: &linux::Error) -> Failure {
    Unavailable::because(error.to_string()).into()
}

/// If messages may be lost, the other process may have missed some that it has to answer. It gets more until it has
/// answered all.
fn see_off(here: &mut End, size: usize, other: &Other, halt: &Halt) {
    let Some(outlet) = here.outlet.as_mut() else { return };
    let mut letter = Letter::new(size, false);
    letter.write(u64::MAX);
    let message = letter.stamp(0);
    other.control.wait_until(State::Done, || {
        // A message that cannot be sent counts as lost.
        let _ = outlet.send(message, halt);
        other.lives() && !linux::stop::requested()
    });
}

/// The measuring loop of ping-pong. Between two round trips it checks the answer and writes the next contents.
fn ping(
    here: &mut End,
    job: &Job,
    waiter: &mut Waiter,
    follow: &mut Follow,
    (into, used): (&mut Recorder, &mut Usage),
) -> linux::Result<()> {
    let outlet = here.outlet.as_mut().ok_or_else(|| missing("no outlet"))?.as_mut();
    let inlet = here.inlet.as_mut().ok_or_else(|| missing("no inlet"))?.as_mut();
    let mut letter = Letter::new(job.size, job.verify);
    let mut answer = vec![0; job.size];
    let mut lost_in_a_row = 0;
    let mut meter = Meter::start();
    let mut ready = now_ns(Clock::Monotonic);
    for number in 0..job.warmup + job.messages {
        if number == job.warmup {
            meter = Meter::start();
        }
        letter.write(number);
        // No one reads the time in a returning message: entering it is not part of the trip.
        let message = letter.stamp(ready);
        let from = now_ns(Clock::Monotonic);
        let back = if job.lossy {
            there_and_perhaps_back((outlet, message), (inlet, &mut answer), job.verify, waiter, follow)
        } else {
            let done = outlet.send(message, &waiter.halt).and_then(|()| waiter.next(inlet, &mut answer));
            done.map(|()| Some(now_ns(Clock::Monotonic)))
        };
        let back = back.inspect_err(|_| *used = meter.stop())?;
        let Some(back) = back else {
            follow.given_up();
            lost_in_a_row += 1;
            if lost_in_a_row == ALL_LOST {
                let object = format!("{ALL_LOST} messages in a row, each not back within a second");
                return Err(linux::Error::from_errno("receive", rustix::io::Errno::TIMEDOUT.raw_os_error()).on(object));
            }
            continue;
        };
        (lost_in_a_row, ready) = (0, back);
        let stamp = message::read(&answer, follow.expected(), back, job.verify);
        if stamp.intact {
            follow.arrived(stamp.number);
        } else {
            follow.torn();
        }
        if number >= job.warmup {
            into.record(back - from);
        }
    }
    *used = meter.stop();
    Ok(())
}

/// One round trip of a message that may be lost. Returns when the answer came, if within a second. Answers to earlier
/// messages, which were given up, do not count.
fn there_and_perhaps_back(
    (outlet, message): (&mut dyn Outlet, &[u8]),
    (inlet, answer): (&mut dyn Inlet, &mut [u8]),
    verify: bool,
    waiter: &mut Waiter,
    follow: &mut Follow,
) -> linux::Result<Option<i64>> {
    let number = follow.expected();
    waiter.halt.wait_for(number);
    let mut sent = false;
    loop {
        let done = if sent { waiter.next(inlet, answer) } else { outlet.send(message, &waiter.halt) };
        let now = now_ns(Clock::Monotonic);
        match done {
            Ok(()) if !sent => sent = true,
            Ok(()) => {
                let stamp = message::read(answer, number, now, verify);
                if !stamp.intact || stamp.number >= number {
                    return Ok(Some(now));
                }
                follow.stray(stamp.number);
            }
            Err(e) if e.errno() == linux::EINTR => match waiter.halt.interrupted(number) {
                Then::GoOn => {}
                Then::Lost => return Ok(None),
                Then::Over => return Err(e),
            },
            Err(e) => return Err(e),
        }
    }
}

/// The measuring loop of one-way traffic. Between two messages it checks and records the last one.
fn receive(
    here: &mut End,
    job: &Job,
    control: &Control,
    waiter: &mut Waiter,
    follow: &mut Follow,
    (into, mut blocks, used): (&mut Recorder, Option<&mut Blocks>, &mut Usage),
) -> linux::Result<()> {
    let inlet = here.inlet.as_mut().ok_or_else(|| missing("no inlet"))?;
    let mut buffer = vec![0; job.size];
    let total = job.warmup + job.messages;
    let mut meter = (job.warmup == 0).then(Meter::start);
    let (mut begun_ns, mut last_ns) = (now_ns(Clock::Monotonic), 0);
    let mut received = 0;
    while follow.expected() < total {
        if let Err(error) = waiter.next(inlet.as_mut(), &mut buffer) {
            // A missing message no longer comes: the wait for it is not part of the traffic.
            *used = meter.map_or_else(Usage::default, Meter::stop);
            used.elapsed_ns = used.elapsed_ns.min((last_ns - begun_ns).max(0).unsigned_abs());
            return Err(error);
        }
        let now = now_ns(Clock::Monotonic);
        received += 1;
        last_ns = now;
        if job.window.is_some() && !job.lossy {
            control.set_received(received);
        }
        let stamp = message::read(&buffer, follow.expected(), now, job.verify);
        if !stamp.intact {
            follow.torn();
            continue;
        }
        let is_first = follow.arrived(stamp.number);
        if job.window.is_some() && job.lossy {
            // Lost messages before it are no longer in flight.
            control.set_received(follow.expected());
        }
        if stamp.number >= job.warmup && is_first {
            into.record(now - stamp.sent_ns);
            if let Some(blocks) = blocks.as_deref_mut() {
                blocks.add(now - stamp.sent_ns);
            }
        }
        // The last warm-up message may be the one that is lost.
        if meter.is_none() && follow.expected() >= job.warmup {
            meter = Some(Meter::start());
            begun_ns = now;
        }
    }
    *used = meter.map_or_else(Usage::default, Meter::stop);
    Ok(())
}

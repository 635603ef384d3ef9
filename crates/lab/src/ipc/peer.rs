//! The other process: it sends, or, in ping-pong, answers.

use std::mem::ManuallyDrop;

use punctual::conditions::{Condition, Conditions, CpuSet, Guard, Lost, Refused};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};

use super::control::{Account, Control};
use super::mechanism::{End, Peer, Queue};
use super::message::Letter;
use super::traffic::{Mode, Pace};
use super::waiter::Waiter;
use crate::usage::Meter;

/// When no message arrives for so long, those under way are lost.
const LOST_AFTER_NS: i64 = 1_000_000_000;
/// Looks at shared memory between two readings of the clock.
const LOOKS_PER_READING: u32 = 1 << 10;

/// What the other process is to do.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Bytes of each message.
    pub(super) size: usize,
    /// Messages that do not count, before those that do.
    pub(super) warmup: u64,
    /// Messages that count.
    pub(super) messages: u64,
    /// How they are sent.
    pub(super) mode: Mode,
    /// Each message has contents of its own.
    pub(super) verify: bool,
    /// Messages may be lost: nobody waits for one for ever.
    pub(super) lossy: bool,
    /// Messages that may be under way, where the mechanism does not see to that.
    pub(super) window: Option<u64>,
    /// The CPU to run on; none: any.
    pub(super) cpu: Option<usize>,
    /// Both processes share one CPU.
    pub(super) same_cpu: bool,
    /// Policy and slack.
    pub(super) conditions: Conditions,
}

impl Job {
    /// The window that `--depth` asks for.
    pub(super) fn window_of(queue: Queue, depth: Option<usize>, usual: u64) -> Option<u64> {
        match queue {
            Queue::Messages | Queue::One => None,
            Queue::Bytes => depth.map(|d| d as u64),
            Queue::Counted => Some(depth.map_or(usual, |d| d as u64)),
        }
    }
}

/// All of the other process's life.
pub(super) fn live(mut end: End, job: &Job, control: &Control, parent: Peer, waiter: Waiter) {
    // It waits in the calls that are measured, and cannot look at the time there.
    let bounded = linux::deadline::alarm().map_err(|e| NotPrepared::Failed(e.to_string()));
    // The conditions hold as long as this process: nothing is put back.
    let guard = match bounded.and_then(|()| prepare(&mut end, job, parent)) {
        Ok(guard) => ManuallyDrop::new(guard),
        Err(NotPrepared::Lost(lost)) => return control.lost(&[lost]),
        Err(NotPrepared::Failed(why)) => return control.fail(&why),
    };
    control.ready();
    control.wait_to_begin();
    let worked = match job.mode {
        Mode::PingPong => answer(&mut end, job, waiter),
        _ => send(&mut end, job, control),
    };
    match worked {
        Ok(account) => match guard.lost() {
            lost if lost.is_empty() => control.done(account),
            lost => control.lost(&lost),
        },
        // The parent ended the traffic: it knows why.
        Err(e) => control.fail(&e.to_string()),
    }
    control.wait_to_end();
}

/// Why the other process cannot begin.
enum NotPrepared {
    /// It has no CPU any more.
    Lost(Lost),
    Failed(String),
}

/// A CPU that is refused was granted when the plan was made: it has been lost since.
pub(super) fn lost_cpu(refused: &Refused) -> Option<Lost> {
    let Refused { condition, asked, why, .. } = refused;
    let found = format!("refused ({why})");
    (*condition == Condition::Cpus).then(|| Lost { condition: *condition, set: asked.clone(), found })
}

fn prepare(end: &mut End, job: &Job, parent: Peer) -> Result<Guard, NotPrepared> {
    let conditions = Conditions { cpus: job.cpu.map(|cpu| CpuSet::of([cpu])), one_way: true, ..job.conditions.clone() };
    let guard = conditions.apply();
    if let Some(refused) = guard.refused().first() {
        return Err(match lost_cpu(refused) {
            Some(lost) => NotPrepared::Lost(lost),
            None => NotPrepared::Failed(format!("{refused}; {}", refused.remedy)),
        });
    }
    let met = |met: linux::Result<()>| met.map_err(|e| NotPrepared::Failed(e.to_string()));
    end.outlet.as_mut().map_or(Ok(()), |outlet| met(outlet.meet(parent)))?;
    end.inlet.as_mut().map_or(Ok(()), |inlet| met(inlet.meet(parent)))?;
    Ok(guard)
}

fn missing(what: &'static str) -> linux::Error {
    linux::Error::from_errno("open", linux::EBADMSG).on(what)
}

/// Sends all messages. Between two: the contents, a clock reading, and the call.
fn send(end: &mut End, job: &Job, control: &Control) -> linux::Result<Account> {
    let outlet = end.outlet.as_mut().ok_or_else(|| missing("no outlet"))?;
    let mut letter = Letter::new(job.size, job.verify);
    letter.write(0);
    let total = job.warmup + job.messages;
    let mut pace = Pace::begin(job.mode, job.warmup, job.same_cpu);
    let mut meter = Meter::start();
    let mut received = 0;
    for number in 0..total {
        if number == job.warmup {
            meter = Meter::start();
        }
        letter.write(number);
        if let Some(window) = job.window.filter(|window| number.saturating_sub(received) >= *window) {
            received = room(number, window, job, control);
        }
        let due = pace.wait(number);
        let from = due.unwrap_or_else(|| now_ns(Clock::Monotonic));
        outlet.send(letter.stamp(from))?;
    }
    Ok(Account { usage: meter.stop(), sent: total, late: pace.late() })
}

/// Waits until fewer than `window` messages are under way; tells how many are not any more. Messages that may be lost are not
/// waited for when none has arrived for a second.
fn room(number: u64, window: u64, job: &Job, control: &Control) -> u64 {
    let (mut received, mut looks) = (control.received(), 0_u32);
    let mut since_ns = now_ns(Clock::Monotonic);
    while number.saturating_sub(received) >= window {
        give_way(job.same_cpu);
        let now = control.received();
        looks = looks.wrapping_add(1);
        if now != received {
            received = now;
            since_ns = now_ns(Clock::Monotonic);
        } else if job.lossy
            && looks.is_multiple_of(LOOKS_PER_READING)
            && now_ns(Clock::Monotonic) - since_ns >= LOST_AFTER_NS
        {
            return number;
        }
    }
    received
}

/// Lets a receiver on the same CPU go on.
fn give_way(same_cpu: bool) {
    if same_cpu { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Sends every message back: two calls, and no clock is read.
fn answer(end: &mut End, job: &Job, mut waiter: Waiter) -> linux::Result<Account> {
    let outlet = end.outlet.as_mut().ok_or_else(|| missing("no outlet"))?;
    let inlet = end.inlet.as_mut().ok_or_else(|| missing("no inlet"))?;
    let mut buffer = vec![0; job.size];
    let total = job.warmup + job.messages;
    let mut meter = Meter::start();
    for number in 0..total {
        if number == job.warmup {
            meter = Meter::start();
        }
        waiter.next(inlet.as_mut(), &mut buffer)?;
        outlet.send(&buffer)?;
    }
    Ok(Account { usage: meter.stop(), sent: total, late: 0 })
}

//! The other process: it sends each message when it is due, or answers in ping-pong.

use std::mem::ManuallyDrop;

use punctual::conditions::{Applied, Condition, Conditions, Guard, Lost, Refused};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::remedy::of_refused;

use super::control::{Account, Control, Order, State};
use super::mechanism::{End, InFlight, Peer, Waiter, missing};
use super::message::Letter;
use super::plan::Mode;
use crate::frame::figures::Meter;

/// If no message arrives for this long, those in flight are lost.
const LOST_AFTER_NS: i64 = 1_000_000_000;
/// Checks of shared memory per reading of the clock.
const LOOKS_PER_READING: u32 = 1 << 10;

/// The task of the other process.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Bytes of each message.
    pub(super) size: usize,
    /// Warm-up messages before those that count.
    pub(super) warmup: u64,
    /// Messages that count.
    pub(super) messages: u64,
    /// The kind of traffic.
    pub(super) mode: Mode,
    /// Each message has contents of its own.
    pub(super) verify: bool,
    /// Messages may be lost: every wait for one has a timeout.
    pub(super) lossy: bool,
    /// Messages that may be in flight, if the mechanism does not limit them.
    pub(super) window: Option<u64>,
    /// The CPU to run on. None: any.
    pub(super) cpu: Option<usize>,
    /// Both processes share one CPU.
    pub(super) same_cpu: bool,
    /// Its conditions, such as policy and slack.
    pub(super) conditions: Conditions,
}

impl Job {
    /// The window that `--depth` asks for.
    pub(super) fn window_of(in_flight: InFlight, depth: Option<usize>, usual: u64) -> Option<u64> {
        match in_flight {
            InFlight::Messages | InFlight::One => None,
            InFlight::Bytes => depth.map(|d| d as u64),
            InFlight::Counted => Some(depth.map_or(usual, |d| d as u64)),
        }
    }
}

/// The main function of the other process.
pub(super) fn live(mut end: End, job: &Job, control: &Control, parent: Peer, waiter: Waiter) {
    // It waits in the measured calls, where it cannot check the time.
    let bounded = linux::child::alarm_at_deadline().map_err(|e| NotPrepared::Failed(e.to_string()));
    // The conditions hold as long as this process: nothing is restored.
    let guard = match bounded.and_then(|()| prepare(&mut end, job, parent)) {
        Ok(guard) => ManuallyDrop::new(guard),
        Err(NotPrepared::Lost(lost)) => return control.lost(&[lost]),
        Err(NotPrepared::Failed(why)) => return control.fail(&why),
    };
    control.become_(State::Ready);
    control.wait_for(Order::Begin);
    let worked = match job.mode {
        Mode::PingPong => answer(&mut end, job, waiter),
        _ => send(&mut end, job, control),
    };
    match worked {
        Ok(account) => match guard.lost() {
            lost if lost.is_empty() => control.done(account),
            lost => control.lost(&lost),
        },
        // The parent ended the traffic, and knows the reason.
        Err(e) => control.fail(&e.to_string()),
    }
    control.wait_for(Order::End);
}

/// Why the other process cannot begin.
enum NotPrepared {
    /// Its CPU is no longer available.
    Lost(Lost),
    Failed(String),
}

/// The CPU was granted when the plan was made: a refusal means that it was lost since.
pub(super) fn lost_cpu(refused: &Refused) -> Option<Lost> {
    let set = refused.asked.clone().filter(|asked| asked.condition() == Condition::CPU)?;
    Some(Lost { condition: Condition::CPU, set, found: format!("refused ({})", refused.why) })
}

fn prepare(end: &mut End, job: &Job, parent: Peer) -> Result<Guard, NotPrepared> {
    let conditions =
        job.conditions.clone().without(Condition::CPU).maybe(job.cpu, Conditions::cpu).allow_irreversible();
    let Applied { guard, refused } = conditions.apply();
    if let Some(refused) = refused.first() {
        return Err(match lost_cpu(refused) {
            Some(lost) => NotPrepared::Lost(lost),
            None => NotPrepared::Failed(format!("{refused}; {}", of_refused(refused))),
        });
    }
    let met = |met: linux::Result<()>| met.map_err(|e| NotPrepared::Failed(e.to_string()));
    end.outlet.as_mut().map_or(Ok(()), |outlet| met(outlet.meet(parent)))?;
    end.inlet.as_mut().map_or(Ok(()), |inlet| met(inlet.meet(parent)))?;
    Ok(guard)
}

/// Sends all messages. Between two messages it writes the contents, reads the clock, and makes the call.
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

/// Waits until fewer than `window` messages are in flight, and returns the number that no longer are. If messages may
/// be lost, it gives up when none has arrived for a second.
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

/// Lets a receiver on the same CPU run.
fn give_way(same_cpu: bool) {
    if same_cpu { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Returns every message: two calls, without reading the clock.
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

/// Interval of the warm-up messages of a sporadic series.
const WARMING_NS: i64 = 1_000_000;
/// A wake-up is rarely later than this. The sender spins for the rest of the time, to send the message when it is
/// due.
const AWAKE_NS: i64 = 200_000;

/// Computes when each message is to be sent, and waits until then.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    interval_ns: Option<f64>,
    /// Latency counts from the due time.
    from_due: bool,
    /// Spins at the end, which would disturb a receiver on the same CPU.
    awake: bool,
    warmup: u64,
    begin_ns: i64,
    late: u64,
}

impl Pace {
    /// Begins now. The first `warmup` messages come quickly and do not count.
    pub(super) fn begin(mode: Mode, warmup: u64, same_cpu: bool) -> Self {
        let interval_ns = mode.interval().map(|d| d.as_nanos() as f64);
        let from_due = matches!(mode, Mode::Rate { .. });
        Self {
            interval_ns,
            from_due,
            awake: from_due && !same_cpu,
            warmup,
            begin_ns: now_ns(Clock::Monotonic),
            late: 0,
        }
    }

    /// The due time of message `number`. None: as soon as possible.
    fn due_ns(&self, number: u64) -> Option<i64> {
        let interval = self.interval_ns?;
        let number = number as f64;
        // The first message that counts comes a whole interval after the last warm-up message, like any other.
        let last_warming = self.warmup.saturating_sub(1) as f64;
        let spacing = interval.min(WARMING_NS as f64);
        let since = number.min(last_warming) * spacing + (number - last_warming).max(0.0) * interval;
        Some(self.begin_ns + since as i64)
    }

    /// Waits until message `number` is due. Returns the time from which its latency counts: the due time, or (none)
    /// now.
    pub(super) fn wait(&mut self, number: u64) -> Option<i64> {
        let due = self.due_ns(number)?;
        let asleep_until = if self.awake { due - AWAKE_NS } else { due };
        while now_ns(Clock::Monotonic) < asleep_until {
            if linux::sleep::clock_nanosleep_until(Clock::Monotonic, asleep_until).is_err() {
                break;
            }
        }
        let mut now = now_ns(Clock::Monotonic);
        while now < due {
            std::hint::spin_loop();
            now = now_ns(Clock::Monotonic);
        }
        let interval = self.interval_ns.unwrap_or(f64::INFINITY);
        if number >= self.warmup && (now - due) as f64 >= interval {
            self.late += 1;
        }
        self.from_due.then_some(due)
    }

    /// Number of messages that counted and were sent at least a whole interval late.
    pub(super) fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn messages_are_due_at_multiples_of_the_interval() {
        let mut pace = Pace::begin(Mode::Rate { per_second: 1000.0 }, 2, true);
        pace.begin_ns = 0;
        let due: Vec<_> = (0..5).map(|n| pace.due_ns(n).unwrap()).collect();
        assert_eq!(due, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000]);
        let mut slow = Pace::begin(Mode::Sporadic { every: Duration::from_secs(1) }, 2, false);
        slow.begin_ns = 0;
        assert_eq!(
            (slow.due_ns(1), slow.due_ns(2), slow.due_ns(3)),
            (Some(1_000_000), Some(1_001_000_000), Some(2_001_000_000))
        );
    }

    #[test]
    fn never_early_and_late_ones_are_counted() {
        let mut pace = Pace::begin(Mode::Rate { per_second: 10_000.0 }, 0, false);
        for number in 0..20 {
            let due = pace.wait(number).unwrap();
            assert!(now_ns(Clock::Monotonic) >= due);
        }
        let before = pace.late();
        std::thread::sleep(Duration::from_millis(5));
        pace.wait(20);
        assert_eq!(pace.late(), before + 1);
        assert_eq!(Pace::begin(Mode::Saturated, 0, false).wait(7), None);
    }
}

//! The other process: it sends each message when it is due, or answers in ping-pong ([`live`]); how the measuring process directs it, and
//! watches over it.
//!
//! [`Control`] has the words of the two processes beside the messages: ready, go, done, and the other side's usage. A
//! [`Watcher`] ends a wait that nothing else ends: the other process may be killed, a datagram lost, or the run interrupted.
//! It is a thread that sleeps, and checks at intervals. When the wait is over it sets the [`Halt`] and ends the waits that no
//! signal ends. It interrupts the measuring thread until that returns.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual::conditions::{Applied, Condition, Conditions, Guard, Lost, Refused};
use punctual_linux as linux;
use punctual_linux::child::Child;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::memory::{CacheLine, Shared as Memory};
use punctual_linux::signal::Interrupter;
use punctual_record::Usage;
use punctual_record::remedy::of_refused;

use super::mechanism::{End, Halt, InFlight, Peer, Waiter, missing};
use super::message::Letter;
use super::plan::Mode;
use crate::crowd::{read_text, write_text};
use crate::frame::{Meter, Shared};

/// If no message arrives for this long, those in flight are lost.
const LOST_AFTER_NS: i64 = 1_000_000_000;
/// Messages in flight if the kernel sets no sensible limit.
const USUAL_WINDOW: u64 = 10;
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
    pub(super) fn window_of(in_flight: InFlight, depth: Option<usize>) -> Option<u64> {
        match in_flight {
            InFlight::Messages => None,
            InFlight::Bytes => depth.map(|d| d as u64),
            InFlight::Counted => Some(depth.map_or(USUAL_WINDOW, |d| d as u64)),
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
        _ => send(&mut end, job, control, &waiter.halt),
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
fn send(end: &mut End, job: &Job, control: &Control, halt: &Halt) -> linux::Result<Account> {
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
        outlet.send(letter.stamp(from), halt)?;
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
        outlet.send(&buffer, &waiter.halt)?;
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

/// Shared by both. Clones are the same memory.
#[derive(Clone)]
pub(super) struct Control {
    /// The parent's word: the child's permission. A futex.
    orders: Memory<CacheLine<AtomicU32>>,
    /// The child's word: its state. A futex.
    state: Memory<CacheLine<AtomicU32>>,
    /// Messages received, if the sender has to limit those in flight.
    received: Memory<CacheLine<AtomicU64>>,
    figures: Memory<[AtomicU64]>,
    words: Memory<[AtomicU8]>,
}

/// What the parent permits the child.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// To send and receive.
    Begin = 1,
    /// To end: everything it sent has been received.
    End = 2,
}

/// The child's state.
#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// Both ends are connected.
    Ready = 1,
    /// It has sent everything.
    Done = 2,
    Failed = 3,
    /// Done, but it lost conditions during the trip.
    Spoilt = 4,
}

/// Numbers of an [`Account`].
const FIGURES: usize = 6;
/// Stands for an unknown figure.
const UNKNOWN: u64 = u64::MAX;
/// Longest error text passed on.
const WORDS: usize = 1024;
/// Interval of checks of the deadline.
const DEADLINE_EVERY_NS: i64 = 1_000_000_000;
/// Interval of checks whether the other side still lives.
const LIVES_EVERY_NS: i64 = 20_000_000;

/// The child's final report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Its usage from the first message that counts to the last.
    pub(super) usage: Usage,
    /// Messages it sent, including the warm-up.
    pub(super) sent: u64,
    /// Messages it sent at least a whole interval late.
    pub(super) late: u64,
}

impl Control {
    pub(super) fn new() -> linux::Result<Self> {
        Ok(Self {
            orders: Memory::<CacheLine<AtomicU32>>::new()?,
            state: Memory::<CacheLine<AtomicU32>>::new()?,
            received: Memory::<CacheLine<AtomicU64>>::new()?,
            figures: Memory::<[AtomicU64]>::slice(FIGURES)?,
            words: Memory::<[AtomicU8]>::slice(WORDS)?,
        })
    }

    /// Messages received so far.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_received(&self, n: u64) {
        self.received.store(n, Ordering::Release);
    }

    /// The child: waits for this permission.
    pub(super) fn wait_for(&self, order: Order) {
        loop {
            let now = self.orders.load(Ordering::Acquire);
            if now >= order as u32 {
                return;
            }
            // However the wait ends, the loop checks again. The kernel ends this process with its parent, as the
            // deadline does.
            let _ = futex::wait(&self.orders, now, Scope::Shared, Some(now_ns(Clock::Monotonic) + DEADLINE_EVERY_NS));
            if linux::child::deadline_passed() {
                return;
            }
        }
    }

    /// The child: has sent everything.
    pub(super) fn done(&self, account: Account) {
        let Account { usage, sent, late } = account;
        let Usage { elapsed_ns, cpu_ns, voluntary, involuntary } = usage;
        let figures: [_; FIGURES] = [Some(elapsed_ns), cpu_ns, voluntary, involuntary, Some(sent), Some(late)];
        for (word, figure) in self.figures.iter().zip(figures) {
            word.store(figure.unwrap_or(UNKNOWN), Ordering::Relaxed);
        }
        self.become_(State::Done);
    }

    /// The child: cannot continue, for this reason.
    pub(super) fn fail(&self, why: &str) {
        write_text(&self.words, why);
        self.become_(State::Failed);
    }

    /// The child: lost conditions during the trip, one per line: condition, set, found, separated by tabs.
    pub(super) fn lost(&self, lost: &[Lost]) {
        let line = |lost: &Lost| format!("{}\t{}\t{}", lost.condition, lost.set, lost.found);
        write_text(&self.words, &lost.iter().map(line).collect::<Vec<_>>().join("\n"));
        self.become_(State::Spoilt);
    }

    /// The child: has reached this state.
    fn become_(&self, state: State) {
        self.state.store(state as u32, Ordering::Release);
        // Without a waiter there is nothing to wake.
        let _ = futex::wake(&self.state, 1, Scope::Shared);
    }

    /// The parent: permits this.
    pub(super) fn order(&self, order: Order) {
        self.orders.store(order as u32, Ordering::Release);
        let _ = futex::wake(&self.orders, 1, Scope::Shared);
    }

    /// The parent: waits until the child is in this state (or failed), or `lives` reports that it is gone.
    pub(super) fn wait_until(&self, state: State, mut lives: impl FnMut() -> bool) -> bool {
        loop {
            let now = self.state.load(Ordering::Acquire);
            if now >= state as u32 {
                return true;
            }
            if !lives() {
                return false;
            }
            let _ = futex::wait(&self.state, now, Scope::Shared, Some(now_ns(Clock::Monotonic) + LIVES_EVERY_NS));
        }
    }

    /// Whether the child has sent everything.
    fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) >= State::Done as u32
    }

    /// Why the child could not continue, if so.
    pub(super) fn failure(&self) -> Option<String> {
        (self.state.load(Ordering::Acquire) == State::Failed as u32).then(|| read_text(&self.words))
    }

    /// Conditions that the child lost.
    pub(super) fn conditions_lost(&self) -> Vec<Lost> {
        if self.state.load(Ordering::Acquire) != State::Spoilt as u32 {
            return Vec::new();
        }
        let read = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let condition = Condition::named(fields.next()?)?;
            Some(Lost { condition, set: condition.parse(fields.next()?).ok()?, found: fields.next()?.into() })
        };
        read_text(&self.words).lines().filter_map(read).collect()
    }

    /// The child's final report.
    pub(super) fn account(&self) -> Account {
        let figure = |at: usize| Some(self.figures[at].load(Ordering::Relaxed)).filter(|figure| *figure != UNKNOWN);
        let [elapsed, cpu_ns, voluntary, involuntary, sent, late]: [_; FIGURES] = std::array::from_fn(figure);
        let usage = Usage { elapsed_ns: elapsed.unwrap_or(0), cpu_ns, voluntary, involuntary };
        Account { usage, sent: sent.unwrap_or(0), late: late.unwrap_or(0) }
    }
}

/// Interval of checks: a killed process is noticed well within a second, and ten wake-ups a second disturb nothing.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of interruptions of a thread that has not returned: the first may have come just before it fell asleep.
const AGAIN: Duration = Duration::from_millis(2);
/// A message that has not arrived this long after the last was sent is lost.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of checks that find the same message missing before it counts as lost: a second. They are counted, not
/// timed, so that a suspended machine or a stopped run loses nothing.
const LOOKS_PER_MESSAGE: u32 = 10;

/// Why the wait was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The other process ended or failed.
    Gone,
    /// Everything was sent, and a message does not arrive.
    Missing,
    /// The run was asked to end.
    Stopped,
}

/// The other process, as the measuring one has it.
#[derive(Clone)]
pub(super) struct Other {
    pub(super) child: Shared<Child>,
    pub(super) control: Control,
}

impl Other {
    pub(super) fn lives(&self) -> bool {
        matches!(self.child.open().ended(), Ok(None))
    }
}

/// The wait under supervision.
pub(super) struct Watched {
    pub(super) other: Other,
    pub(super) halt: Halt,
    pub(super) interrupter: Interrupter,
    /// CPUs of the watching thread, because the measuring thread's own is busy.
    pub(super) cpus: Vec<usize>,
}

/// The watching thread.
pub(super) struct Watcher {
    thread: JoinHandle<Option<Reason>>,
    over: Sender<()>,
}

impl Watcher {
    pub(super) fn start(watched: Watched) -> std::io::Result<Self> {
        let (over, inbox) = channel();
        let thread = std::thread::Builder::new().name("watch".into()).spawn(move || {
            // A thread that may not move still checks, but later.
            let _ = linux::sched::set_affinity(0, &watched.cpus);
            watched.watch(&inbox)
        })?;
        Ok(Self { thread, over })
    }

    /// Ends the supervision. Returns the reason if the wait was ended.
    pub(super) fn finish(self) -> Option<Reason> {
        drop(self.over);
        self.thread.join().unwrap_or(None)
    }
}

/// The time for which the same message has been missing.
#[derive(Debug, Default)]
struct Patience {
    number: Option<u64>,
    looks: u32,
}

impl Patience {
    /// Another check found this message missing.
    fn is_over(&mut self, number: u64) -> bool {
        self.looks = if self.number == Some(number) { self.looks + 1 } else { 0 };
        self.number = Some(number);
        self.looks >= LOOKS_PER_MESSAGE
    }
}

impl Watched {
    fn watch(&self, over: &Receiver<()>) -> Option<Reason> {
        let mut done_at = None;
        let mut patience = Patience::default();
        let reason = loop {
            if over.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                return None;
            }
            if let Some(reason) = self.look(&mut done_at) {
                break reason;
            }
            if let Some(number) = self.halt.awaited().filter(|number| patience.is_over(*number)) {
                self.give_up(number);
            }
        };
        // First keep others from using the shared resources, then end waits on them by force.
        let _ = self.other.child.open().kill();
        self.halt.set();
        loop {
            self.halt.rouse();
            // The thread may have returned just now.
            let _ = self.interrupter.interrupt();
            if over.recv_timeout(AGAIN) != Err(RecvTimeoutError::Timeout) {
                return Some(reason);
            }
        }
    }

    /// Ends the wait for a lost message. Returns when the thread waits for the next one, or soon: the next check
    /// continues.
    fn give_up(&self, number: u64) {
        self.halt.give_up(number);
        let until = Instant::now() + LOOK;
        while self.halt.awaited() == Some(number) && Instant::now() < until {
            let _ = self.interrupter.interrupt();
            std::thread::sleep(AGAIN);
        }
    }

    fn look(&self, done_at: &mut Option<Instant>) -> Option<Reason> {
        if linux::stop::requested() {
            return Some(Reason::Stopped);
        }
        let Other { child, control } = &self.other;
        if matches!(child.open().ended(), Ok(Some(_))) || control.failure().is_some() {
            return Some(Reason::Gone);
        }
        // A message that may be lost has its own timeout.
        if !control.is_done() || self.halt.awaited().is_some() {
            return None;
        }
        let since = *done_at.get_or_insert_with(Instant::now);
        (since.elapsed() >= PATIENCE).then_some(Reason::Missing)
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

    #[test]
    fn patience_is_for_one_message() {
        let mut patience = Patience::default();
        assert!((0..LOOKS_PER_MESSAGE).all(|_| !patience.is_over(7)));
        assert!(patience.is_over(7));
        assert!((0..LOOKS_PER_MESSAGE).all(|_| !patience.is_over(8)));
        assert!(patience.is_over(8));
    }
}

//! How the measuring process directs the other one and watches over it.
//!
//! [`Control`] has the words of the two processes beside the messages: ready, go, done, and the other side's usage. A
//! [`Watcher`] ends a wait that nothing else ends: the other process may be killed, a datagram lost, or the run interrupted.
//! It is a thread that sleeps, and checks at intervals. When the wait is over it sets the [`Halt`] and ends the waits that no
//! signal ends. It interrupts the measuring thread until that returns.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual::conditions::{Condition, Lost};
use punctual_linux as linux;
use punctual_linux::child::{Child, Ended};
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::memory::{CacheLine, Shared as Memory};
use punctual_linux::signal::Interrupter;
use punctual_record::Usage;

use super::mechanism::Halt;
use crate::frame::Shared;

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

const ELAPSED: usize = 0;
const CPU: usize = 1;
const VOLUNTARY: usize = 2;
const INVOLUNTARY: usize = 3;
const SENT: usize = 4;
const LATE: usize = 5;
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
        let figure =
            |at: usize, value: Option<u64>| self.figures[at].store(value.unwrap_or(UNKNOWN), Ordering::Relaxed);
        figure(ELAPSED, Some(account.usage.elapsed_ns));
        figure(CPU, account.usage.cpu_ns);
        figure(VOLUNTARY, account.usage.voluntary);
        figure(INVOLUNTARY, account.usage.involuntary);
        figure(SENT, Some(account.sent));
        figure(LATE, Some(account.late));
        self.become_(State::Done);
    }

    /// The child: cannot continue, for this reason.
    pub(super) fn fail(&self, why: &str) {
        self.put_words(why);
        self.become_(State::Failed);
    }

    /// The child: lost conditions during the trip, one per line: condition, set, found, separated by tabs.
    pub(super) fn lost(&self, lost: &[Lost]) {
        let line = |lost: &Lost| format!("{}\t{}\t{}", lost.condition, lost.set, lost.found);
        self.put_words(&lost.iter().map(line).collect::<Vec<_>>().join("\n"));
        self.become_(State::Spoilt);
    }

    fn put_words(&self, text: &str) {
        for (word, byte) in self.words.iter().zip(text.bytes().chain(std::iter::once(0))) {
            word.store(byte, Ordering::Relaxed);
        }
    }

    /// The child: has reached this state.
    pub(super) fn become_(&self, state: State) {
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
    pub(super) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) >= State::Done as u32
    }

    /// Why the child could not continue, if so.
    pub(super) fn failure(&self) -> Option<String> {
        (self.state.load(Ordering::Acquire) == State::Failed as u32).then(|| self.words())
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
        self.words().lines().filter_map(read).collect()
    }

    fn words(&self) -> String {
        let bytes: Vec<u8> = self.words.iter().map(|w| w.load(Ordering::Relaxed)).take_while(|b| *b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The child's final report.
    pub(super) fn account(&self) -> Account {
        let figure = |at: usize| Some(self.figures[at].load(Ordering::Relaxed)).filter(|v| *v != UNKNOWN);
        let usage = Usage {
            elapsed_ns: figure(ELAPSED).unwrap_or(0),
            cpu_ns: figure(CPU),
            voluntary: figure(VOLUNTARY),
            involuntary: figure(INVOLUNTARY),
        };
        Account { usage, sent: figure(SENT).unwrap_or(0), late: figure(LATE).unwrap_or(0) }
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
    /// The other process ended, in this way.
    Ended(Ended),
    /// It failed, with this reason.
    Failed,
    /// Everything was sent, and a message does not arrive.
    Missing,
    /// The run was asked to end.
    Stopped,
}

/// The wait under supervision.
pub(super) struct Watched {
    pub(super) child: Shared<Child>,
    pub(super) control: Control,
    pub(super) halt: Halt,
    pub(super) rouse: Vec<Box<dyn Fn() + Send>>,
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
        let _ = self.child.open().kill();
        self.halt.set();
        loop {
            self.rouse.iter().for_each(|rouse| rouse());
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
        if let Ok(Some(ended)) = self.child.open().ended() {
            return Some(Reason::Ended(ended));
        }
        if self.control.failure().is_some() {
            return Some(Reason::Failed);
        }
        // A message that may be lost has its own timeout.
        if !self.control.is_done() || self.halt.awaited().is_some() {
            return None;
        }
        let since = *done_at.get_or_insert_with(Instant::now);
        (since.elapsed() >= PATIENCE).then_some(Reason::Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_for_one_message() {
        let mut patience = Patience::default();
        assert!((0..LOOKS_PER_MESSAGE).all(|_| !patience.is_over(7)));
        assert!(patience.is_over(7));
        assert!((0..LOOKS_PER_MESSAGE).all(|_| !patience.is_over(8)));
        assert!(patience.is_over(8));
    }
}

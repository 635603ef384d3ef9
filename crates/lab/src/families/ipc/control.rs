//! The control words of the two processes beside the messages: ready, go, done, and the other side's usage.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use punctual::conditions::{Condition, Lost};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::futex::{self, Scope};
use punctual_linux::shared::{CacheLine, Shared};
use punctual_record::Usage;

/// Shared by both. Clones are the same memory.
#[derive(Clone)]
pub(super) struct Control {
    /// The parent's word: the child's permission. A futex.
    orders: Shared<CacheLine<AtomicU32>>,
    /// The child's word: its state. A futex.
    state: Shared<CacheLine<AtomicU32>>,
    /// Messages received, if the sender has to limit those in flight.
    received: Shared<CacheLine<AtomicU64>>,
    figures: Shared<[AtomicU64]>,
    words: Shared<[AtomicU8]>,
}

/// The child's permissions.
const BEGIN: u32 = 1;
const END: u32 = 2;

/// The child's states.
const READY: u32 = 1;
const DONE: u32 = 2;
const FAILED: u32 = 3;
/// Done, but it lost conditions during the trip.
const SPOILT: u32 = 4;

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
const PATIENCE_NS: i64 = 1_000_000_000;
/// Interval of checks whether the other side still lives.
const LOOK_NS: i64 = 20_000_000;

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
            orders: Shared::<CacheLine<AtomicU32>>::new()?,
            state: Shared::<CacheLine<AtomicU32>>::new()?,
            received: Shared::<CacheLine<AtomicU64>>::new()?,
            figures: Shared::<[AtomicU64]>::slice(FIGURES)?,
            words: Shared::<[AtomicU8]>::slice(WORDS)?,
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

    /// The child: both ends are connected.
    pub(super) fn ready(&self) {
        self.become_(READY);
    }

    /// The child: waits for permission to begin.
    pub(super) fn wait_to_begin(&self) {
        self.wait_for(BEGIN);
    }

    /// The child: waits until everything it sent has been received.
    pub(super) fn wait_to_end(&self) {
        self.wait_for(END);
    }

    fn wait_for(&self, order: u32) {
        loop {
            let now = self.orders.load(Ordering::Acquire);
            if now >= order {
                return;
            }
            // However the wait ends, the loop checks again. The kernel ends this process with its parent, as the
            // deadline does.
            let _ = futex::wait(&self.orders, now, Scope::Shared, Some(now_ns(Clock::Monotonic) + PATIENCE_NS));
            if linux::deadline::passed() {
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
        self.become_(DONE);
    }

    /// The child: cannot continue, for this reason.
    pub(super) fn fail(&self, why: &str) {
        self.put_words(why);
        self.become_(FAILED);
    }

    /// The child: lost conditions during the trip, one per line: condition, set, found, separated by tabs.
    pub(super) fn lost(&self, lost: &[Lost]) {
        let line = |lost: &Lost| format!("{}\t{}\t{}", lost.condition, lost.set, lost.found);
        self.put_words(&lost.iter().map(line).collect::<Vec<_>>().join("\n"));
        self.become_(SPOILT);
    }

    fn put_words(&self, text: &str) {
        for (word, byte) in self.words.iter().zip(text.bytes().chain(std::iter::once(0))) {
            word.store(byte, Ordering::Relaxed);
        }
    }

    fn become_(&self, state: u32) {
        self.state.store(state, Ordering::Release);
        // Without a waiter there is nothing to wake.
        let _ = futex::wake(&self.state, 1, Scope::Shared);
    }

    /// The parent: lets the child begin.
    pub(super) fn begin(&self) {
        self.order(BEGIN);
    }

    /// The parent: lets the child end.
    pub(super) fn end(&self) {
        self.order(END);
    }

    fn order(&self, order: u32) {
        self.orders.store(order, Ordering::Release);
        let _ = futex::wake(&self.orders, 1, Scope::Shared);
    }

    /// The parent: waits until the child is ready (or failed), or `lives` reports that it is gone.
    pub(super) fn wait_until_ready(&self, lives: impl FnMut() -> bool) -> bool {
        self.wait_until(READY, lives)
    }

    /// The parent: waits until the child has sent everything (or failed), or `lives` reports that it is gone.
    pub(super) fn wait_until_done(&self, lives: impl FnMut() -> bool) -> bool {
        self.wait_until(DONE, lives)
    }

    fn wait_until(&self, state: u32, mut lives: impl FnMut() -> bool) -> bool {
        loop {
            let now = self.state.load(Ordering::Acquire);
            if now >= state {
                return true;
            }
            if !lives() {
                return false;
            }
            let _ = futex::wait(&self.state, now, Scope::Shared, Some(now_ns(Clock::Monotonic) + LOOK_NS));
        }
    }

    /// Whether the child has sent everything.
    pub(super) fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) >= DONE
    }

    /// Why the child could not continue, if so.
    pub(super) fn failure(&self) -> Option<String> {
        (self.state.load(Ordering::Acquire) == FAILED).then(|| self.words())
    }

    /// Conditions that the child lost.
    pub(super) fn conditions_lost(&self) -> Vec<Lost> {
        if self.state.load(Ordering::Acquire) != SPOILT {
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

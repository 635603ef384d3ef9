//! The settings before a trial, in memory that two processes share, and the guardian: a process that puts them back when this one ends,
//! however that happens, or stands still.
//!
//! A value is saved before the setting is changed. It is put back only in the same thread, and only if the setting still has the trial's
//! value. Threads that were created meanwhile, with the changed setting, get what their creator had.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual::conditions::{CONDITIONS, Condition, ThreadState};
use punctual_linux::child::{Child, ParentDeath};
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::memory::Shared;
use punctual_linux::sched::{self, Attributes, RESET_ON_FORK};
use rustix::process::setsid;

use super::remedy::PRIORITY;
use super::thread::{Family, Thread, tick};

/// Its name in `ps`.
const NAME: &str = "punctual-guard";
/// From one look at the deadline to the next.
const LOOK: Duration = Duration::from_millis(100);

/// States: it waits; it also may set and leave real-time policies.
const WAITS: u64 = 1;
const WAITS_REAL_TIME: u64 = 2;

/// Words: the state, when the trial must be over, how often it was not.
const STATE: usize = 0;
const DEADLINE: usize = 1;
const OVERDUE: usize = 2;

/// The process. Killed on drop, when this one has put everything back.
#[derive(Debug)]
pub(super) struct Guardian {
    child: Child,
    shared: Shared<[AtomicU64; 3]>,
}

impl Guardian {
    /// Starts it. It acts when the calling thread ends. `real_time`: it may run under a real-time policy.
    pub(super) fn start(saved: &Saved, family: &Family, real_time: bool) -> punctual_linux::Result<Self> {
        let shared = Shared::<[AtomicU64; 3]>::new()?;
        let (theirs, saved, family) = (shared.clone(), saved.clone(), family.clone());
        // The calling thread may have a lower one to read events, which a child inherits.
        let nice = sched::nice(std::process::id().cast_signed());
        let mut child = Child::spawn(NAME, move || {
            // It must survive a signal to the process group.
            if setsid().is_ok()
                && let Ok(death) = ParentDeath::instead_of_own()
            {
                if let Ok(nice) = nice {
                    let _ = sched::set_nice(0, nice);
                }
                let state = if real_time && takes_precedence() { WAITS_REAL_TIME } else { WAITS };
                theirs[STATE].store(state, Ordering::SeqCst);
                watch(&death, &theirs, &saved, &family);
            }
        })?;
        while shared[STATE].load(Ordering::SeqCst) == 0 && child.ended()?.is_none() {
            std::thread::yield_now();
        }
        Ok(Self { child, shared })
    }

    /// Whether it is there.
    pub(super) fn waits(&mut self) -> bool {
        matches!(self.child.ended(), Ok(None))
    }

    /// Whether it runs before threads under the real-time policy of the trial, and can end that policy.
    pub(super) fn takes_precedence(&self) -> bool {
        self.shared[STATE].load(Ordering::SeqCst) == WAITS_REAL_TIME
    }

    /// A trial begins, which is over after this time.
    pub(super) fn expect(&self, within: Duration) {
        let ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.shared[DEADLINE].store(now().saturating_add(ns), Ordering::SeqCst);
    }

    /// The trial is over. Returns whether it was in time; otherwise the settings were put back before.
    pub(super) fn over(&self) -> bool {
        self.shared[DEADLINE].store(0, Ordering::SeqCst);
        self.shared[OVERDUE].swap(0, Ordering::SeqCst) == 0
    }
}

fn watch(death: &ParentDeath, shared: &[AtomicU64; 3], saved: &Saved, family: &Family) {
    while !death.wait_for(LOOK) {
        let deadline = shared[DEADLINE].load(Ordering::SeqCst);
        if deadline > 0 && now() > deadline {
            saved.put_back(family);
            shared[OVERDUE].store(1, Ordering::SeqCst);
            shared[DEADLINE].store(0, Ordering::SeqCst);
        }
    }
    saved.put_back(family);
}

/// Puts the calling process above the priority of the trial. A privilege that allows the policy and not its end (RLIMIT_RTPRIO) does not
/// do: SCHED_FLAG_RESET_ON_FORK could not be put back.
fn takes_precedence() -> bool {
    let fifo = Attributes { policy: sched::FIFO, priority: u32::from(PRIORITY) + 1, ..Attributes::default() };
    [RESET_ON_FORK, 0].into_iter().all(|flags| sched::set_attributes(0, &Attributes { flags, ..fifo }).is_ok())
}

fn now() -> u64 {
    now_ns(Clock::Monotonic).unsigned_abs()
}

/// Most threads of a trial.
const MOST_THREADS: usize = 16_384;
/// Looks for new threads: those that appear during one are found by the next.
const LOOKS: usize = 5;

/// Words of a value.
const WORDS: usize = ThreadState::WORDS;
/// A value of a condition, as words.
type Words = [u64; WORDS];
/// Words of a slot before its two values.
const HEAD: usize = 4;
type Slot = [AtomicU64; HEAD + 2 * WORDS];

/// States of a slot.
const KEPT: u64 = 1;
const SAVED: u64 = 2;
const SET: u64 = 3;

/// Words of the header: the place of the condition in the table and 1, the slots in use, when the trial began.
const WHICH: usize = 0;
const COUNT: usize = 1;
const BEGAN: usize = 2;

/// The memory.
#[derive(Debug, Clone)]
pub(super) struct Saved {
    header: Shared<[AtomicU64; 3]>,
    slots: Shared<[Slot]>,
}

/// A thread that did not get back what it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) thread: Thread,
    pub(super) why: String,
}

impl Saved {
    pub(super) fn new() -> punctual_linux::Result<Self> {
        Ok(Self { header: Shared::new()?, slots: Shared::<[Slot]>::slice(MOST_THREADS)? })
    }

    /// Begins a trial of a condition.
    pub(super) fn begin(&self, condition: Condition) {
        let which = CONDITIONS.iter().position(|known| *known == condition).map_or(0, |place| place + 1);
        self.header[COUNT].store(0, Ordering::SeqCst);
        self.header[BEGAN].store(tick(), Ordering::SeqCst);
        self.header[WHICH].store(which as u64, Ordering::SeqCst);
    }

    /// The thread keeps its value.
    pub(super) fn keep(&self, thread: &Thread) {
        self.enter(thread, KEPT, &[0; WORDS]);
    }

    /// The thread is going to lose this value. `None`: there is no room.
    pub(super) fn save(&self, thread: &Thread, before: &Words) -> Option<usize> {
        self.enter(thread, SAVED, before)
    }

    /// It has this value now.
    pub(super) fn set(&self, slot: usize, value: &Words) {
        store(&self.slots[slot][HEAD + WORDS..], value);
        self.slots[slot][0].store(SET, Ordering::SeqCst);
    }

    fn enter(&self, thread: &Thread, state: u64, before: &Words) -> Option<usize> {
        let at = self.header[COUNT].load(Ordering::SeqCst) as usize;
        let slot = self.slots.get(at)?;
        let numbers = [thread.process, thread.tid].map(|id| u64::from(id.cast_unsigned()));
        for (word, value) in slot[1..HEAD].iter().zip([numbers[0], numbers[1], thread.started]) {
            word.store(value, Ordering::SeqCst);
        }
        store(&slot[HEAD..HEAD + WORDS], before);
        slot[0].store(state, Ordering::SeqCst);
        self.header[COUNT].store(at as u64 + 1, Ordering::SeqCst);
        Some(at)
    }

    /// Puts all back. It may be called again, and by two processes at once.
    pub(super) fn put_back(&self, family: &Family) -> Vec<Left> {
        let which = (self.header[WHICH].load(Ordering::SeqCst) as usize).checked_sub(1);
        let Some(condition) = which.and_then(|place| CONDITIONS.get(place).copied()) else { return Vec::new() };
        let count = self.header[COUNT].load(Ordering::SeqCst) as usize;
        let slots = &self.slots[..count.min(MOST_THREADS)];
        let mut left: Vec<Left> = slots.iter().filter_map(|slot| put_one_back(condition, slot)).collect();
        for _ in 0..LOOKS {
            if !self.put_inherited_back(condition, slots, family, &mut left) {
                break;
            }
        }
        left
    }

    /// Nothing is to be put back any more.
    pub(super) fn clear(&self) {
        self.header[WHICH].store(0, Ordering::SeqCst);
    }

    /// Threads created meanwhile. Returns whether there was one with the changed setting.
    fn put_inherited_back(&self, condition: Condition, slots: &[Slot], family: &Family, left: &mut Vec<Left>) -> bool {
        let began = self.header[BEGAN].load(Ordering::SeqCst);
        let known = |thread: &Thread| slots.iter().any(|slot| thread_of(slot) == *thread);
        let mut found = false;
        for thread in family.threads() {
            if thread.started < began || known(&thread) {
                continue;
            }
            let Ok(now) = ThreadState::read(condition, thread.tid) else { continue };
            let set = slots.iter().filter(|slot| slot[0].load(Ordering::SeqCst) == SET);
            let mut states = set.filter_map(|slot| Some((state(&slot[HEAD..])?, state(&slot[HEAD + WORDS..])?)));
            let inherited = states.find_map(|(before, set)| now.inherited_from(&before, &set));
            let Some(inherited) = inherited else { continue };
            found = true;
            left.extend(restored(&thread, &inherited));
        }
        found
    }
}

fn put_one_back(condition: Condition, slot: &Slot) -> Option<Left> {
    let stage = slot[0].load(Ordering::SeqCst);
    let thread = thread_of(slot);
    if stage == KEPT || !thread.lives() {
        return None;
    }
    let before = state(&slot[HEAD..])?;
    let now = match ThreadState::read(condition, thread.tid) {
        Ok(now) => now,
        Err(refused) => return Some(Left { thread, why: refused.why }).filter(|left| left.thread.lives()),
    };
    // A value that the program set meanwhile is its own.
    let ours = now != before && (stage == SAVED || Some(now) == state(&slot[HEAD + WORDS..]));
    if ours { restored(&thread, &before) } else { None }
}

fn restored(thread: &Thread, before: &ThreadState) -> Option<Left> {
    let left = before.restore(thread.tid).into_iter().next()?;
    thread.lives().then_some(Left { thread: *thread, why: left.why })
}

fn state(words: &[AtomicU64]) -> Option<ThreadState> {
    ThreadState::from_words(&load(words))
}

fn thread_of(slot: &Slot) -> Thread {
    let word = |at: usize| slot[at].load(Ordering::SeqCst);
    let number = |at: usize| (word(at) as u32).cast_signed();
    Thread { process: number(1), tid: number(2), started: word(3) }
}

fn load(words: &[AtomicU64]) -> Words {
    std::array::from_fn(|at| words[at].load(Ordering::SeqCst))
}

fn store(words: &[AtomicU64], value: &Words) {
    words.iter().zip(value).for_each(|(word, value)| word.store(*value, Ordering::SeqCst));
}

#[cfg(test)]
mod tests;

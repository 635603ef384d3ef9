//! Tries remedies on a running program, one at a time, on and off by turns, and puts everything back.
//!
//! The input is a process. The output is trials ([`punctual_record::Trial`]): pairs of adjacent blocks of time without and with the
//! remedy, in random order. Each block has the lateness of its wake-ups and its CPU time. The report judges them.
//!
//! Refused, with a reason: what the kernel does not permit, and what the program has already. So is a real-time policy for busy
//! threads. A later thread of the same number has another start time and is not touched. A guardian process puts the settings back
//! when this process is killed or stands still. A real-time policy is tried only where the kernel itself keeps a part of each CPU for
//! others.

mod guardian;
mod remedy;
mod thread;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use punctual::conditions::{Applied, Condition, Conditions, Guard, ThreadState, Value};
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::statistics::Random;
use punctual_record::{Notice, Trial, TrialPair, TrialRefused};
use punctual_trace::Batch;

use crate::program::Watcher;
use guardian::{Guardian, Left, Saved};
use remedy::{REMEDIES, Reasons, Remedy, admits, refused, refused_by_kernel};
use thread::{Blocks, Family, Thread, Usage, has_idle_states, idle_times};

/// Fewest pairs of blocks that a verdict takes.
const PAIRS: u32 = 8;
/// Pairs for which the blocks become longer rather than more: a block holds more wake-ups then.
const ENOUGH_PAIRS: u32 = 16;
/// The usual length of a block; the shortest with little time for many remedies, and the longest.
const BLOCK: Duration = Duration::from_millis(200);
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// The part of the time that is spent between blocks.
const BETWEEN: f64 = 0.1;
/// The first block, which shows what the threads and CPUs do.
const LOOK: Duration = Duration::from_millis(300);
/// From one look at the events to the next.
const STEP: Duration = Duration::from_millis(20);
/// Time after its block at which the guardian puts a setting back.
const OVERDUE: Duration = Duration::from_secs(2);

/// What came of it.
#[derive(Debug, Default)]
pub struct Tried {
    /// One for each remedy.
    pub trials: Vec<Trial>,
    /// The settings that could not be put back.
    pub notices: Vec<Notice>,
}

impl Tried {
    /// Nothing was tried.
    #[must_use]
    pub fn none(why: &dyn std::error::Error) -> Self {
        let trial = |trial: Trial| Trial { refused: Some(refused(why.to_string(), None)), ..trial };
        Self { trials: remedies().into_iter().map(trial).collect(), notices: Vec::new() }
    }
}

/// The remedies, before they are tried.
#[must_use]
pub fn remedies() -> Vec<Trial> {
    REMEDIES.iter().map(|remedy| remedy.trial(0)).collect()
}

/// Which threads get remedies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Those of the process and of all its descendants.
    Descendants,
    /// Those of the process, and of the descendants that it has from now on.
    Process,
    /// These of its threads.
    Threads(Vec<i32>),
}

/// Tries remedies on a program.
#[derive(Debug)]
pub struct Advisor {
    family: Family,
    /// Only these threads, where not all were asked for.
    only: Option<Vec<i32>>,
    saved: Saved,
    guardian: Guardian,
    /// Holds the latency of idle states.
    latency: Option<Guard>,
    /// Why no thread may get a real-time policy.
    unbounded: Option<TrialRefused>,
    shares: HashMap<i32, f64>,
    cpu: usize,
    left: Vec<(String, Left)>,
}

/// A remedy on trial.
struct Entry {
    remedy: &'static Remedy,
    trial: Trial,
    /// Numbers of its blocks: off and on.
    blocks: Vec<[usize; 2]>,
    refused: bool,
}

impl Advisor {
    /// Prepares for a process. Call it from the thread that calls [`Advisor::run`].
    ///
    /// # Errors
    /// Without memory, or where no process can be started to put things back.
    pub fn open(pid: i32, reach: Reach) -> punctual_linux::Result<Self> {
        let family = if reach == Reach::Descendants { Family::so_far(pid) } else { Family::to_come(pid) };
        let saved = Saved::new()?;
        let unbounded = remedy::is_bounded(Path::new("/")).err();
        let guardian = Guardian::start(&saved, &family, unbounded.is_none())?;
        let only = if let Reach::Threads(tids) = reach { Some(tids) } else { None };
        let (shares, left) = (HashMap::new(), Vec::new());
        Ok(Self { family, only, saved, guardian, latency: None, unbounded, shares, cpu: 0, left })
    }

    /// Tries all remedies for this long, while `goes_on`. The wake-ups meanwhile are not among the causes that `watcher` finds.
    /// `each` sees all events.
    pub fn run(
        &mut self,
        watcher: &mut Watcher,
        time: Duration,
        goes_on: &dyn Fn() -> bool,
        each: &mut dyn FnMut(&Batch),
    ) -> Tried {
        let end = Instant::now() + time;
        watcher.set_apart(true);
        let mut course = Course { watcher, goes_on, each, blocks: Blocks::default(), unseen: None };
        let idle = idle_times();
        self.block(&mut course, LOOK);
        self.cpu = self.least_busy(&idle);
        let mut entries: Vec<Entry> = REMEDIES
            .iter()
            .map(|remedy| Entry { remedy, trial: remedy.trial(self.cpu), blocks: Vec::new(), refused: false })
            .collect();
        self.rehearse(&mut entries, &course);
        self.alternate(&mut entries, &mut course, end);
        course.watcher.set_apart(false);
        let mut blocks = course.blocks;
        let mut pair = |[off, on]: [usize; 2]| TrialPair { off: blocks.block(off), on: blocks.block(on) };
        let trials = entries.into_iter().map(|entry| {
            let pairs = entry.blocks.into_iter().map(&mut pair).collect();
            Trial { pairs, ..entry.trial }
        });
        Tried { trials: trials.collect(), notices: self.notices() }
    }

    /// Applies each remedy for a moment, which tells what is refused.
    fn rehearse(&mut self, entries: &mut [Entry], course: &Course<'_>) {
        for entry in entries {
            let set = match &course.unseen {
                Some(unseen) => Err(Some(unseen.clone())),
                // The caller knows what ended the time.
                None if !(course.goes_on)() => Err(None),
                None => self.on(entry, OVERDUE).map_err(Some),
            };
            self.off(entry);
            let why = match set {
                Ok(0) => entry
                    .trial
                    .refused
                    .take()
                    .or_else(|| (course.goes_on)().then(|| refused("the program has no thread", None))),
                Ok(_) => continue,
                Err(why) => why,
            };
            entry.trial.refused = why;
            entry.refused = true;
        }
    }

    /// Pairs of blocks, the remedies in random order, until the time is over.
    fn alternate(&mut self, entries: &mut [Entry], course: &mut Course<'_>, end: Instant) {
        let mut random = Random::new(now_ns(Clock::Monotonic).unsigned_abs());
        let mut order: Vec<usize> = (0..entries.len()).filter(|at| !entries[*at].refused).collect();
        for round in 0.. {
            // Blocks that took longer than planned leave less time for the others.
            let length = block_length(end.saturating_duration_since(Instant::now()), order.len(), round);
            random.shuffle(&mut order);
            for at in &order {
                let entry = &mut entries[*at];
                let begin = Instant::now();
                if begin + 2 * length.mul_f64(1.0 + BETWEEN) > end || !(course.goes_on)() {
                    return;
                }
                if !self.guardian.waits() {
                    let why = "the process ended that puts its settings back after SIGKILL";
                    entries.iter_mut().for_each(|entry| entry.trial.refused = Some(refused(why, None)));
                    return;
                }
                if let Some(pair) = self.pair(entry, course, length, random.below(2) == 0) {
                    entry.blocks.push(pair);
                }
            }
            if order.is_empty() {
                return;
            }
        }
    }

    /// A block without and one with the remedy. `None`: one of them is not complete.
    fn pair(
        &mut self,
        entry: &mut Entry,
        course: &mut Course<'_>,
        length: Duration,
        on_first: bool,
    ) -> Option<[usize; 2]> {
        let mut with = |advisor: &mut Self, course: &mut Course<'_>| {
            let set = advisor.on(entry, length + OVERDUE).unwrap_or(0);
            let block = advisor.block(course, length).filter(|_| set > 0);
            advisor.off(entry).then_some(block?)
        };
        if on_first {
            let on = with(self, course);
            Some([self.block(course, length)?, on?])
        } else {
            let off = self.block(course, length);
            Some([off?, with(self, course)?])
        }
    }

    /// Nothing changes for this long. Returns the number of the block; `None` if it was cut short.
    fn block(&mut self, course: &mut Course<'_>, length: Duration) -> Option<usize> {
        let before = Usage::now(self.threads());
        let from = now_ns(Clock::Monotonic);
        let number = course.blocks.begin(from.unsigned_abs());
        let begin = Instant::now();
        let mut left = length;
        while !left.is_zero() && (course.goes_on)() && course.unseen.is_none() {
            course.step(left.min(STEP));
            left = length.saturating_sub(begin.elapsed());
        }
        let to = now_ns(Clock::Monotonic);
        let used = Usage::now(self.threads());
        self.shares = used.shares(&before, (to - from).unsigned_abs());
        course.blocks.end(to.unsigned_abs(), used.since(&before));
        left.is_zero().then_some(number)
    }

    /// Applies the remedy. Returns how many threads have it; what the others lack is in the trial.
    fn on(&mut self, entry: &mut Entry, within: Duration) -> Result<u64, TrialRefused> {
        let value = (entry.remedy.value)(self.cpu);
        match &value {
            Value::DmaLatency(_) => return self.without_idle_states(value),
            Value::Policy(_) => self.may_take_precedence()?,
            _ => {}
        }
        let (mut reasons, mut set) = (Reasons::default(), 0);
        self.guardian.expect(within);
        self.saved.begin(value.condition());
        for thread in self.threads() {
            match self.set(&value, &thread) {
                Ok(()) => set += 1,
                Err(refused) if thread.lives() => reasons.add(refused),
                Err(_) => {}
            }
        }
        entry.trial.threads = entry.trial.threads.max(set);
        entry.trial.refused = reasons.refused(set);
        Ok(set)
    }

    fn without_idle_states(&mut self, value: Value) -> Result<u64, TrialRefused> {
        if !has_idle_states() {
            return Err(refused("the kernel has no idle states to leave out (cpuidle: no driver)", None));
        }
        let Applied { guard, refused } = Conditions::new().with(value).apply();
        refused.first().map(refused_by_kernel).map_or(Ok(()), Err)?;
        self.latency = Some(guard);
        Ok(1)
    }

    /// Whether threads may get a real-time policy: others get their part of each CPU, and the guardian can end it.
    fn may_take_precedence(&self) -> Result<(), TrialRefused> {
        self.unbounded.clone().map_or(Ok(()), Err)?;
        if self.guardian.takes_precedence() {
            return Ok(());
        }
        let why = "a real-time policy cannot be set and put back here";
        let remedy = "run as root or with CAP_SYS_NICE, in a cgroup that allows real-time policies";
        Err(refused(why, Some(remedy)))
    }

    fn set(&self, value: &Value, thread: &Thread) -> Result<(), TrialRefused> {
        let state = || ThreadState::read(value.condition(), thread.tid).map_err(|refused| refused_by_kernel(&refused));
        let now = state()?;
        if let Err(why) = admits(&now, value, self.shares.get(&thread.tid).copied()) {
            self.saved.keep(thread);
            return Err(refused(why, None));
        }
        let words = |state: &ThreadState| {
            state.to_words().ok_or_else(|| refused("none: the machine has more than 2048 CPUs", None))
        };
        let no_room = || refused("it has too many threads", None);
        let slot = self.saved.save(thread, &words(&now)?).ok_or_else(no_room)?;
        let Applied { guard, refused } =
            Conditions::new().with(value.clone()).allow_irreversible().apply_to(thread.tid);
        refused.first().map(refused_by_kernel).map_or(Ok(()), Err)?;
        // The guardian restores it too, by what is saved.
        guard.leave_in_force();
        self.saved.set(slot, &words(&state()?)?);
        Ok(())
    }

    /// Puts everything back. Returns whether the remedy was on until now.
    fn off(&mut self, entry: &Entry) -> bool {
        self.latency = None;
        let left = self.saved.put_back(&self.family);
        self.saved.clear();
        self.left.extend(left.into_iter().map(|left| (entry.trial.remedy.clone(), left)));
        self.guardian.over()
    }

    fn threads(&self) -> Vec<Thread> {
        let mut threads = self.family.threads();
        if let Some(only) = &self.only {
            threads.retain(|thread| only.contains(&thread.tid));
        }
        threads
    }

    /// The CPU that idled most since then, of those on which all threads may run.
    fn least_busy(&self, before: &HashMap<usize, u64>) -> usize {
        let now = idle_times();
        let mut allowed: Vec<usize> = now.keys().copied().collect();
        for thread in self.threads() {
            let cpus = ThreadState::read(Condition::CPU, thread.tid).ok();
            if let Some(Value::Cpu(cpus)) = cpus.and_then(|state| state.value()) {
                allowed.retain(|cpu| cpus.contains(*cpu));
            }
        }
        let idle = |cpu: &usize| now[cpu].saturating_sub(before.get(cpu).copied().unwrap_or(0));
        allowed.into_iter().max_by_key(|cpu| (idle(cpu), std::cmp::Reverse(*cpu))).unwrap_or(0)
    }

    fn notices(&mut self) -> Vec<Notice> {
        let notice = |(remedy, left): (String, Left)| Notice::NotRestored {
            what: format!("{} before {remedy}", left.thread),
            why: left.why,
            remedy: "set it by hand, or start the program again".to_owned(),
        };
        let mut notices: Vec<Notice> = std::mem::take(&mut self.left).into_iter().map(notice).collect();
        notices.dedup();
        notices
    }
}

impl Drop for Advisor {
    fn drop(&mut self) {
        // Also after a panic.
        self.saved.put_back(&self.family);
        self.saved.clear();
    }
}

/// What goes on meanwhile.
struct Course<'a> {
    watcher: &'a mut Watcher,
    goes_on: &'a dyn Fn() -> bool,
    each: &'a mut dyn FnMut(&Batch),
    blocks: Blocks,
    unseen: Option<TrialRefused>,
}

impl Course<'_> {
    fn step(&mut self, timeout: Duration) {
        self.watcher.step(timeout, self.each);
        match self.watcher.wake_ups() {
            Ok(wake_ups) => self.blocks.take(&wake_ups),
            Err(unseen) => self.unseen = Some(TrialRefused { why: unseen.text(), remedy: unseen.remedy }),
        }
    }
}

/// So long that the pairs which are left after these rounds fit into the time.
fn block_length(time: Duration, remedies: usize, rounds: u32) -> Duration {
    let remedies = u32::try_from(remedies.max(1)).unwrap_or(1);
    let blocks = |pairs: u32| time.mul_f64(1.0 - BETWEEN) / (2 * pairs.saturating_sub(rounds).max(1) * remedies);
    // Rather short blocks than few pairs.
    blocks(ENOUGH_PAIRS).clamp(BLOCK, LONGEST).min(blocks(PAIRS).max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_into_the_time() {
        let seconds = Duration::from_secs;
        assert_eq!(block_length(seconds(20), 5, 0), BLOCK);
        assert!(block_length(seconds(4), 5, 0) < BLOCK);
        assert!(block_length(seconds(4), 5, 4) > block_length(seconds(4), 5, 0), "fewer are left");
        assert_eq!(block_length(Duration::ZERO, 5, 20), SHORTEST);
        assert!(block_length(seconds(60), 5, 0) > BLOCK);
        assert_eq!(block_length(seconds(10_000), 1, 0), LONGEST);
    }
}

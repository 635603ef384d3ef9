//! The guard of applied conditions: what holds, what was refused, and the way back.

use std::fmt;
use std::marker::PhantomData;

use super::scheduling::{set_nice, set_policy};
use super::surroundings::Surroundings;
use super::{Applied, Condition, Conditions, Lost, NotRestored, Refused, affinity, dma_latency, kept, memory, slack};

/// One step back.
pub(super) trait Undo: fmt::Debug {
    /// Puts one condition back as it was found. Must not panic: it also runs while a panic unwinds.
    fn undo(self: Box<Self>) -> Result<(), NotRestored>;
}

/// The steps back, in the order in which the changes were made.
pub(super) type Steps = Vec<Box<dyn Undo>>;

/// Conditions in force. Dropping it puts back what was there before; [`Guard::restore`] does the same and says what failed.
///
/// Bound to the thread that applied them (it cannot be sent to another). Guards may be nested; the inner one must go first.
#[derive(Debug)]
#[must_use = "the conditions end when the guard is dropped"]
pub struct Guard {
    steps: Steps,
    applied: Applied,
    refused: Vec<Refused>,
    /// What was asked and not refused.
    granted: Conditions,
    bound_to_thread: PhantomData<*const ()>,
}

impl Guard {
    pub(super) fn apply(asked: &Conditions) -> Self {
        // The guard exists before the first change, so that a panic on the way undoes what was done so far.
        let mut guard = Self {
            steps: Steps::new(),
            applied: Applied::default(),
            refused: Vec::new(),
            granted: Conditions::default(),
            bound_to_thread: PhantomData,
        };
        if !asked.is_empty() {
            guard.make(asked, &Surroundings::read());
        }
        guard.applied = Applied::read();
        guard.granted = asked.without(&guard.refused);
        guard
    }

    fn make(&mut self, asked: &Conditions, here: &Surroundings) {
        let Self { steps, refused, .. } = self;
        let mut keep = |outcome: Result<(), Refused>| refused.extend(outcome.err());
        if asked.lock_memory {
            keep(memory::lock(here, steps));
        }
        if let Some(latency) = asked.dma_latency {
            keep(dma_latency::hold(latency, here, steps));
        }
        if let Some(cpus) = &asked.cpus {
            keep(affinity::set(cpus, here, steps));
        }
        if let Some(nice) = asked.nice {
            keep(set_nice(nice, asked.one_way, here, steps));
        }
        // Going under a real-time policy and back also resets the slack, so it is kept for the policy's sake too.
        if asked.timer_slack.is_some() || asked.policy.is_some() {
            slack::keep(steps);
        }
        let before_policy = asked.timer_slack.map(slack::set);
        let policy = asked.policy.map(|policy| set_policy(policy, asked.one_way, here, steps));
        policy.map(&mut keep);
        // Where the thread was under a real-time policy until now, the kernel has not taken the slack yet.
        let slack = match (asked.timer_slack, before_policy) {
            (Some(asked), Some(Ok(()))) => slack::settle(asked),
            (_, outcome) => outcome.unwrap_or(Ok(())),
        };
        keep(slack);
    }

    /// What held when the conditions had been applied, read back from the kernel: also what was not asked.
    #[must_use]
    pub const fn applied(&self) -> &Applied {
        &self.applied
    }

    /// What was asked and does not hold.
    #[must_use]
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Which of the granted conditions do not hold any more, for the calling thread, now. Asks the kernel; allocates only for what it
    /// tells of. A guard within this one may have set some of them to something else.
    #[must_use]
    pub fn lost(&self) -> Vec<Lost> {
        kept::lost(&self.granted)
    }

    /// Grants once more what [`Guard::lost`] told of; tells what is refused now. What was there before the first time is still what
    /// will be put back.
    pub fn renew(&mut self, lost: &[Lost]) -> Vec<Refused> {
        kept::renew(&self.granted, lost, &mut self.steps)
    }

    /// Whether this condition was asked and granted.
    #[must_use]
    pub fn grants(&self, condition: Condition) -> bool {
        let Conditions { policy, nice, cpus, lock_memory, timer_slack, dma_latency, one_way: _ } = &self.granted;
        match condition {
            Condition::Policy => policy.is_some(),
            Condition::Nice => nice.is_some(),
            Condition::Cpus => cpus.is_some(),
            Condition::LockMemory => *lock_memory,
            Condition::TimerSlack => timer_slack.is_some(),
            Condition::DmaLatency => dma_latency.is_some(),
        }
    }

    /// Puts back what was there before, and says what could not be put back. Nothing in the list: all is as it was.
    pub fn restore(mut self) -> Vec<NotRestored> {
        self.undo()
    }

    /// Leaves the conditions in force after all, for as long as the thread (memory and C-states: the process) lives; for a
    /// program that goes on to `exec` another, or a thread that does nothing else.
    pub fn leave_in_force(mut self) {
        for step in self.steps.drain(..) {
            std::mem::forget(step);
        }
    }

    fn undo(&mut self) -> Vec<NotRestored> {
        std::iter::from_fn(|| self.steps.pop()).filter_map(|step| step.undo().err()).collect()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody is there to hear what failed: who wants to know calls `restore`.
        drop(self.undo());
    }
}

//! The conditions a thread runs under: policy, nice value, CPUs, locked memory, timer slack, C-states.
//!
//! In goes a [`Conditions`]; [`Conditions::apply`] changes the calling thread (memory and C-states: the process and the machine)
//! and gives a [`Guard`], which knows what really holds, read back from the kernel, and what was refused, with the reason and
//! the remedy. Dropping the guard, also while a panic unwinds, puts back what was there before.
//!
//! Each condition stands alone: a refused one is reported, and the others are applied.
//!
//! ```no_run
//! use punctual::{Conditions, Policy};
//!
//! let conditions = Conditions { policy: Some(Policy::Fifo(40)), lock_memory: true, ..Conditions::default() };
//! let guard = conditions.apply();
//! for refused in guard.refused() {
//!     eprintln!("{refused}\n  {}", refused.remedy);
//! }
//! // ... what has to be on time ...
//! drop(guard);
//! ```

mod affinity;
mod cpu_set;
mod dma_latency;
mod guard;
mod kept;
mod memory;
mod policy;
mod remedy;
mod report;
mod scheduling;
mod slack;
mod surroundings;

use std::time::Duration;

pub use cpu_set::{CpuSet, CpuSetError, HIGHEST_CPU};
pub use guard::Guard;
pub use policy::{LEAST_DEADLINE_RUNTIME, Policy, PolicyError};
pub(crate) use surroundings::may_raise_limits;

pub use report::{Applied, Condition, Lost, NotRestored, Refused};

/// What to ask of the kernel for the calling thread. Absent: left as it is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Scheduling policy of the calling thread. Real-time policies are set with SCHED_FLAG_RESET_ON_FORK: threads and
    /// processes started meanwhile run under SCHED_OTHER.
    pub policy: Option<Policy>,
    /// Nice value of the calling thread, −20 (most) to 19 (least favoured).
    pub nice: Option<i32>,
    /// CPUs that the calling thread may run on.
    pub cpus: Option<CpuSet>,
    /// Locks all memory of the *process*, present and future, and touches 128 KiB of the calling thread's stack.
    /// Guards count: the last one to go unlocks, unless memory was locked before the first.
    pub lock_memory: bool,
    /// Timer slack of the calling thread: how much later than asked the kernel may end a wait. Zero asks for 1 ns, the least.
    /// Since Linux 6.13 a thread under a real-time policy has none, whatever is asked.
    pub timer_slack: Option<Duration>,
    /// Longest C-state exit latency tolerated on the whole *machine* (`/dev/cpu_dma_latency`, held open by the guard).
    /// Counted in µs, rounded down: what is kept is never more than what was asked.
    pub dma_latency: Option<Duration>,
    /// Applies also what cannot be put back afterwards, because the kernel lets only the privileged go that way: raising the
    /// nice value, SCHED_IDLE, and leaving a real-time policy. False: such a condition is refused. True suits a thread that
    /// ends with its guard.
    pub one_way: bool,
}

impl Conditions {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { policy, nice, cpus, lock_memory, timer_slack, dma_latency, one_way: _ } = self;
        policy.is_none()
            && nice.is_none()
            && cpus.is_none()
            && !lock_memory
            && timer_slack.is_none()
            && dma_latency.is_none()
    }

    /// Applies the conditions to the calling thread.
    ///
    /// The order is memory, C-states, CPUs, nice, timer slack, policy: the real-time policy comes last, so that nothing of this
    /// runs ahead of the rest of the machine, and the slack comes while the kernel still takes it. Undone in reverse.
    ///
    /// Never fails as a whole: see [`Guard::refused`].
    #[must_use = "the conditions end when the guard is dropped"]
    pub fn apply(&self) -> Guard {
        Guard::apply(self)
    }

    /// What of this no kernel setting and no privilege could make possible here: CPUs that the machine does not have. Nothing is tried.
    /// A command line can be refused by it before anything is touched.
    #[must_use]
    pub fn impossible_here(&self) -> Option<Refused> {
        let cpus = self.cpus.as_ref()?;
        affinity::missing(cpus, &surroundings::Surroundings::read())
    }

    /// What is asked here and stands in no refusal.
    fn without(&self, refused: &[Refused]) -> Self {
        let kept = |condition| !refused.iter().any(|its| its.condition == condition);
        Self {
            policy: self.policy.filter(|_| kept(Condition::Policy)),
            nice: self.nice.filter(|_| kept(Condition::Nice)),
            cpus: self.cpus.clone().filter(|_| kept(Condition::Cpus)),
            lock_memory: self.lock_memory && kept(Condition::LockMemory),
            timer_slack: self.timer_slack.filter(|_| kept(Condition::TimerSlack)),
            dma_latency: self.dma_latency.filter(|_| kept(Condition::DmaLatency)),
            one_way: self.one_way,
        }
    }

    /// What holds for the calling thread now, whoever set it.
    #[must_use]
    pub fn inspect() -> Applied {
        Applied::read()
    }
}

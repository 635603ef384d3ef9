//! What became of the conditions: [`Applied`], [`Refused`], [`NotRestored`].

use std::fmt;
use std::time::Duration;

use punctual_linux as linux;

use super::{CpuSet, Policy, affinity, dma_latency, memory};

/// One of the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Condition {
    /// Scheduling policy.
    Policy,
    /// Nice value.
    Nice,
    /// CPU affinity.
    Cpus,
    /// Locked memory.
    LockMemory,
    /// Timer slack.
    TimerSlack,
    /// `/dev/cpu_dma_latency`.
    DmaLatency,
}

impl Condition {
    /// Its name on the command line, without the dashes: `policy`, `nice`, `cpu`, `lock-memory`, `timer-slack`, `dma-latency`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Nice => "nice",
            Self::Cpus => "cpu",
            Self::LockMemory => "lock-memory",
            Self::TimerSlack => "timer-slack",
            Self::DmaLatency => "dma-latency",
        }
    }

    /// The condition of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Policy, Self::Nice, Self::Cpus, Self::LockMemory, Self::TimerSlack, Self::DmaLatency];
        all.into_iter().find(|condition| condition.name() == name)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What holds, as the kernel tells it. Absent: it could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Scheduling policy of the thread. Also absent under a policy unknown here (SCHED_EXT).
    pub policy: Option<Policy>,
    /// Nice value of the thread. Without effect under real-time policies.
    pub nice: Option<i32>,
    /// CPUs that the thread may run on.
    pub cpus: Option<CpuSet>,
    /// Whether at least as much memory is locked as the process has resident (`VmLck` and `VmRSS` in /proc/self/status).
    pub lock_memory: Option<bool>,
    /// Timer slack of the thread; zero under real-time policies since Linux 6.13.
    pub timer_slack: Option<Duration>,
    /// The least C-state exit latency that any process of the machine has asked for; 2000 s when none has.
    pub dma_latency: Option<Duration>,
}

impl Applied {
    pub(super) fn read() -> Self {
        Self {
            policy: linux::sched::attributes(0).ok().as_ref().and_then(Policy::of),
            nice: linux::sched::nice(0).ok(),
            cpus: affinity::current().ok(),
            lock_memory: memory::is_locked(),
            timer_slack: linux::prctl::timer_slack_ns().ok().map(Duration::from_nanos),
            dma_latency: dma_latency::effective(),
        }
    }
}

/// A condition that was asked and does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which.
    pub condition: Condition,
    /// What was asked, as typed; `yes` for locked memory.
    pub asked: String,
    /// What the kernel said, and why.
    pub why: String,
    /// What would make it work.
    pub remedy: String,
    /// The kernel's error number; absent where the kernel was not asked, or did something else without an error.
    pub errno: Option<i32>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.condition {
            Condition::LockMemory => write!(f, "{} was refused: {}", self.condition, self.why),
            condition => write!(f, "{condition} {} was refused: {}", self.asked, self.why),
        }
    }
}

/// A condition that was granted and does not hold any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} was set to {set}, and is {found} now")]
pub struct Lost {
    /// Which.
    pub condition: Condition,
    /// What was set, as typed; `yes` for locked memory.
    pub set: String,
    /// What holds now.
    pub found: String,
}

impl Lost {
    /// What usually takes this condition away, and what to do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self.condition {
            Condition::Cpus => {
                "keep the CPU online and in the cpuset of this process, and let no other program change the affinity"
            }
            Condition::Policy => {
                "let no other program (chrt, a real-time daemon, a watchdog) change the policy of this thread"
            }
            Condition::Nice => "let no other program (renice, a desktop daemon) change the nice value of this thread",
            Condition::TimerSlack => "let no other program write /proc/PID/timerslack_ns of this thread",
            Condition::LockMemory => "let nothing in this process call munlockall",
            Condition::DmaLatency => "let nothing in this process close the file of /dev/cpu_dma_latency",
        }
    }
}

/// A condition that could not be put back as it was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} could not be put back: it was {was}; {why}")]
pub struct NotRestored {
    /// Which.
    pub condition: Condition,
    /// What it was before.
    pub was: String,
    /// What the kernel said, and what holds now.
    pub why: String,
}

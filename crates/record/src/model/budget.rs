//! A budget of time: where the wall time of watched threads went, without remainder.

use serde::{Deserialize, Serialize};

use super::counters::{BudgetCheck, MemoryLimit, Pressure, Quota, Steal};

/// The wall time of the watched threads, cut into parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// How the times were found.
    pub source: BudgetSource,
    /// By thread, the one that lost the most first; at most 64.
    pub threads: Vec<ThreadBudget>,
    /// All other threads, summed under the name of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<ThreadBudget>,
    /// The control groups of the threads that limit their CPU time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<Quota>,
    /// The control groups of the threads that limit their memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryLimit>,
    /// For how long the machine and the control groups of the threads were short of CPU time, memory or disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pressure: Vec<Pressure>,
    /// What the host took from the CPUs that the threads may use; absent where the kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<Steal>,
    /// Acknowledgements of TCP that a timer sent late in the network namespaces of the program (`DelayedACKs` of `/proc/PID/net/netstat`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_acks: Option<u64>,
    /// The sums beside the kernel's own counters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<BudgetCheck>,
    /// Stretches of time that lack details, because a table of the kernel was full: who, which file, which lock.
    pub dropped: u64,
    /// What watching cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<WatchCost>,
    /// The tick of the kernel's coarse timers, ns: 1 s / CONFIG_HZ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_ns: Option<u64>,
    /// The process that watched: what it takes is the price of watching. Absent where nobody's name is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watcher: Option<u32>,
}

/// How a budget was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetSource {
    /// Sums of a BPF program at the scheduler's tracepoints.
    #[default]
    Kernel,
    /// Counters of `/proc` and of control groups: no privilege, no calls, nobody's name.
    Files,
}

/// The time of one thread. The parts sum to `wall_ns`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadBudget {
    /// Its name in the kernel.
    pub thread: String,
    /// Its number.
    pub tid: u32,
    /// The name of its process.
    pub process: String,
    /// Its process.
    pub pid: u32,
    /// Its policy.
    pub policy: ThreadPolicy,
    /// How long it was watched, ns.
    pub wall_ns: u64,
    /// The parts, the longest first.
    pub parts: Vec<TimePart>,
    /// Deadlines of a periodic thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Turns>,
    /// By how much the kernel may delay its sleeps, ns (PR_SET_TIMERSLACK); a real-time thread has none, whatever this says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// CPUs that it may not use, and that were idle for most of the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub barred_idle: Vec<u32>,
}

/// A part of a thread's time: all stretches that agree in everything but their length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimePart {
    /// What the thread did.
    pub spent: Spent,
    /// How long, in all, ns.
    pub ns: u64,
    /// Stretches; 0, and absent, where their number is not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub times: u64,
    /// The longest of them, ns; 0, and absent, where it is not known.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub longest_ns: u64,
    /// The system call in which it was; absent between calls, and where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Who had the CPU where the thread was ready; who ended the wait where it was blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// What the thread waited for, or was limited by.
    #[serde(default, skip_serializing_if = "Thing::is_empty")]
    pub thing: Thing,
}

impl TimePart {
    /// No CPU takes as long to wake up.
    const KEPT_NS: u64 = 1_000_000;

    /// Whether the thread was in the queue of a CPU for a long time on average, and nobody is known to have had the CPU meanwhile.
    #[must_use]
    pub fn is_kept_by_unknown(&self) -> bool {
        self.spent == Spent::Ready && self.who.is_none() && self.ns / self.times.max(1) >= Self::KEPT_NS
    }

    /// How many stretches these parts have together; 0 where nobody counted those that take most of their time. Of the time on a CPU, the part
    /// in no call has the number of all.
    #[must_use]
    pub fn stretches(parts: &[&Self]) -> u64 {
        let time = |is_so: &dyn Fn(&Self) -> bool| {
            parts.iter().filter(|part| is_so(part)).fold(0u64, |sum, part| sum.saturating_add(part.ns))
        };
        if time(&|part| part.times == 0 && part.spent != Spent::Running) > time(&|_| true) / 2 {
            return 0;
        }
        parts.iter().fold(0, |sum, part| sum.saturating_add(part.times))
    }
}

/// Figures of stretches are never 0 where they were counted.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_unknown(figure: &u64) -> bool {
    *figure == 0
}

/// What a thread did with its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Spent {
    /// It ran.
    Running,
    /// Interrupts and softirqs ran on its CPU while it was its turn.
    Interrupted,
    /// The host did not run the virtual CPU while it was its turn.
    Host,
    /// It was ready, and another thread had the CPU, or none had it yet.
    Ready,
    /// The quota of its control group was used up.
    ThrottledByQuota,
    /// The limit for real-time threads was used up.
    ThrottledRealTime,
    /// The runtime of SCHED_DEADLINE was used up.
    ThrottledDeadline,
    /// It was stopped by a signal.
    Stopped,
    /// It was stopped for a tracer.
    Traced,
    /// Its control group was frozen.
    Frozen,
    /// It slept for as long as it had asked.
    Asleep,
    /// It slept longer than it had asked for: from the deadline to the wake-up.
    SleptLonger,
    /// It waited for a disk.
    Disk,
    /// It waited at a futex whose word has an owner.
    Lock,
    /// It waited for the lock of a file (fcntl(2), flock(2)), or slept between its tries for one.
    FileLock,
    /// It waited at another futex: a condition variable, a semaphore, a barrier.
    Condition,
    /// It waited for a pipe.
    Pipe,
    /// It waited for a socket.
    Socket,
    /// It waited for any of several files (poll, select, epoll).
    Poll,
    /// It waited for a terminal or another file.
    OtherFile,
    /// A page fault read a file.
    FaultFile,
    /// A page fault read swap.
    FaultSwap,
    /// A page fault copied a page that another process shares.
    FaultCopy,
    /// A page fault made a page.
    FaultNew,
    /// The kernel reclaimed memory on the thread's behalf.
    Reclaim,
    /// It waited for the lock of the address space.
    MmapLock,
    /// It waited for a message, or for room for one, at a queue (mq_overview(7), sysvipc(7)).
    MessageQueue,
    /// It waited for a child to end.
    Child,
    /// It waited for a child to execute its program, or to end (vfork(2), posix_spawn(3)).
    Spawn,
    /// It waited for a signal of kill(2): pause(2), sigsuspend(2), sigtimedwait(2).
    Pause,
    /// A seccomp supervisor answered its call.
    Supervisor,
    /// It was blocked and no kind above is known for it.
    #[default]
    Blocked,
    /// Nothing is known of this time.
    Unknown,
}

/// A thread that had the CPU, or ended a wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Who {
    /// Its name in the kernel; that of an interrupt or softirq where it was one.
    pub thread: String,
    /// Its number; 0 for an interrupt.
    pub tid: u32,
    /// The name of its process.
    pub process: String,
    /// Its process.
    pub pid: u32,
    /// Its policy.
    pub policy: ThreadPolicy,
    /// Its control group, where it is another one than the thread's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// What this thread itself did meanwhile, where it was watched: the next link of a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meanwhile: Option<Box<TimePart>>,
}

/// The policy of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadPolicy {
    /// SCHED_OTHER or SCHED_BATCH at this nice value.
    Fair(i8),
    /// SCHED_IDLE.
    Idle,
    /// SCHED_FIFO or SCHED_RR at this priority.
    RealTime(u8),
    /// SCHED_DEADLINE.
    Deadline,
}

impl Default for ThreadPolicy {
    fn default() -> Self {
        Self::Fair(0)
    }
}

/// What a thread waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thing {
    /// The path of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The address of a futex in the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub futex: Option<u64>,
    /// A control group, by its path below the mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The signal that stopped the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
}

/// A signal that stopped a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stop {
    /// Which one.
    pub signal: StopSignal,
    /// The kernel sent it: for its terminal, or a tracer.
    #[serde(default)]
    pub by_kernel: bool,
}

/// The signals that stop a process unless it handles them (signal(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StopSignal {
    /// SIGSTOP, which no process can handle.
    #[serde(rename = "SIGSTOP")]
    Stop,
    /// SIGTSTP, that of Ctrl-Z.
    #[serde(rename = "SIGTSTP")]
    Tstp,
    /// SIGTTIN: a job in the background read from its terminal.
    #[serde(rename = "SIGTTIN")]
    Ttin,
    /// SIGTTOU: a job in the background wrote to its terminal, or set it.
    #[serde(rename = "SIGTTOU")]
    Ttou,
}

impl StopSignal {
    /// Its name in signal(7).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "SIGSTOP",
            Self::Tstp => "SIGTSTP",
            Self::Ttin => "SIGTTIN",
            Self::Ttou => "SIGTTOU",
        }
    }
}

impl Thing {
    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Deadlines of a thread: absolute sleeps, timerfd, waits with a period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turns {
    /// The call that waits for them.
    pub call: String,
    /// The median distance of deadlines, ns.
    pub period_ns: u64,
    /// How many were awaited.
    pub turns: u64,
    /// Those that were over when the call began; of a timerfd, expirations that a read found beside the first.
    pub missed: u64,
    /// How far behind its deadline the last turn began, ns.
    pub behind_ns: u64,
    /// How far behind a turn began at most, ns.
    pub most_behind_ns: u64,
}

/// What watching cost the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchCost {
    /// Events of the watched threads.
    pub events: u64,
    /// The price of one, ns: the run time of the programs in the kernel by their runs (`bpf_stats`), or measured on this machine.
    pub each_ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_counted_stretches_are_not_the_number_of_all() {
        let number = |spent, counted_ns| {
            let sampled = TimePart { spent, ns: 100_000_000, ..TimePart::default() };
            let counted = TimePart { ns: counted_ns, times: 3, ..sampled.clone() };
            TimePart::stretches(&[&sampled, &counted])
        };
        assert_eq!((number(Spent::FaultCopy, 1_000_000), number(Spent::FaultFile, 400_000_000)), (0, 3));
        assert_eq!(number(Spent::Running, 1_000_000), 3, "one stretch on a CPU may have calls");
        assert_eq!(TimePart::stretches(&[]), 0);
    }
}

//! A budget of time: where the wall time of watched threads went, without remainder; what they lost of it, as it is said; and the kernel's own
//! counters beside it.

use serde::{Deserialize, Serialize};

use super::caller::{Caller, SourceLine};
use super::summary::is_zero;
use crate::experiment::words;

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
    #[serde(default, skip_serializing_if = "is_zero")]
    pub times: u64,
    /// The longest of them, ns; 0, and absent, where it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
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
    /// Where in the program one of the longest of these waits began: one of 100 µs or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Box<Caller>>,
}

impl TimePart {
    /// No CPU takes as long to wake up.
    const KEPT_NS: u64 = 1_000_000;

    /// Whether the thread was in the queue of a CPU for a long time on average, and nobody is known to have had the CPU meanwhile. Where stretches
    /// were not counted, there is no average.
    #[must_use]
    pub fn is_kept_by_unknown(&self) -> bool {
        self.spent == Spent::Ready && self.who.is_none() && self.times > 0 && self.ns / self.times >= Self::KEPT_NS
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
    /// The path of a file; where the thread ran, of its program or library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The function of the program in which the thread ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The line of the function that took the most, of those in its own source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
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

words! {
    /// The signals that stop a process unless it handles them (signal(7)).
    pub enum StopSignal {
        /// SIGSTOP, which no process can handle.
        Stop = "SIGSTOP",
        /// SIGTSTP, that of Ctrl-Z.
        Tstp = "SIGTSTP",
        /// SIGTTIN: a job in the background read from its terminal.
        Ttin = "SIGTTIN",
        /// SIGTTOU: a job in the background wrote to its terminal, or set it.
        Ttou = "SIGTTOU",
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

/// A loss: time that a thread did not choose to spend, or the finding that it lost none. The kinds and what `ns` counts are those of
/// `culprits/losses.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Loss {
    /// What took the time.
    pub kind: LossKind,
    /// How much of the subject's wall time, ns.
    pub ns: u64,
    /// How often.
    pub times: u64,
    /// The thread that lost it.
    pub subject: String,
    /// Its number; 0: not known.
    #[serde(default)]
    pub tid: u32,
    /// Where, and who.
    pub place: LossPlace,
}

/// Where a loss arose, and by whom. What is not known is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LossPlace {
    /// Path of a control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Its limit: `25 % of a CPU`, `64 MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How often the memory limit was hit, by the kernel's count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// The function in which it ran for most of this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The line of it that took the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    /// Path of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Name of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Address of a lock, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// Address of a condition variable, semaphore or channel, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The thread that held the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The process or thread at the other end, or that sent most of an input. Of a wait for a signal: the process for which the thread that
    /// signals waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The thread or process that took the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// The system call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The signal that stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Of how many threads of one name it is the time in all, where that is not one. Of a lock: how many threads take it in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// The lock is one of `file`, and no word of memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub file_lock: bool,
}

/// The kinds of `culprits/losses.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "culprits/losses.toml says what each counts")]
pub enum LossKind {
    Quota,
    ThreadsOverQuota,
    RtLimit,
    DeadlineBudget,
    Stopped,
    Frozen,
    HogThread,
    HogProcess,
    HogFifo,
    Interrupts,
    Host,
    Nice,
    IdlePolicy,
    TimerSlack,
    CoarseTimeout,
    Disk,
    Lock,
    Condition,
    Pipe,
    MessageQueue,
    Socket,
    StarvedServer,
    DelayedAck,
    Chain,
    FaultFile,
    FaultSwap,
    FaultCopy,
    FaultNew,
    Reclaim,
    MmapLock,
    Child,
    Spawn,
    Tracer,
    Supervisor,
    OwnWork,
    Polling,
    Barrier,
    EventLoop,
    Allocator,
    Collector,
    InterpreterLock,
    OnTime,
    Computes,
    Input,
    Unknown,
}

/// The CPU quota of a control group while it was watched (`cpu.stat`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// Its path below the mount.
    pub cgroup: String,
    /// The quota, ns a period.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
    /// Threads of the group that were watched.
    pub threads: u64,
    /// Periods in which the group was throttled.
    pub throttled: u64,
    /// For how long its runqueues were throttled, summed over CPUs, ns.
    pub throttled_ns: u64,
}

/// A sum beside the kernel's own counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetCheck {
    /// Which counter.
    pub counter: Counter,
    /// What the budget has, ns.
    pub summed_ns: u64,
    /// What the kernel counted, ns.
    pub counted_ns: u64,
    /// Of the time ready in the budget, that in which the CPU was idle: it was not awake yet. The kernel counts from the time at which a CPU
    /// takes the thread into its queue, so it lacks some of this. 0, and absent, for other counters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_ns: u64,
}

/// A counter of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Time on a CPU (`/proc/TID/schedstat`, first field).
    Running,
    /// Time ready (`/proc/TID/schedstat`, second field); it holds throttled time too.
    Ready,
    /// Throttled time of control groups (`cpu.stat`).
    Throttled,
}

/// The memory limit of a control group while it was watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLimit {
    /// Its path below the mount.
    pub cgroup: String,
    /// The limit: the lower one of `memory.max` and `memory.high`; of version 1 `memory.limit_in_bytes`.
    pub limit_bytes: u64,
    /// How often the group was at its limit: `max` or `high` of `memory.events`; of version 1 `memory.failcnt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// Processes that the kernel killed because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Pages of files and of swap that were dropped and read again (`workingset_refault_*` of `memory.stat`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_again: Option<u64>,
}

impl MemoryLimit {
    /// The limit for people: `64 MiB`, `1.5 GiB`.
    #[must_use]
    pub fn limit(&self) -> String {
        let (shift, unit) = match self.limit_bytes {
            bytes if bytes < 1 << 20 => (10, "KiB"),
            bytes if bytes < 1 << 30 => (20, "MiB"),
            _ => (30, "GiB"),
        };
        let number = self.limit_bytes as f64 / (1_u64 << shift) as f64;
        format!("{} {unit}", (number * 10.0).round() / 10.0)
    }
}

/// For how long tasks waited for a resource (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// Of this control group; absent for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// What they waited for.
    pub of: Resource,
    /// For how long at least one of the tasks waited, ns.
    pub some_ns: u64,
    /// For how long all that were not idle waited, ns; absent where the kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_ns: Option<u64>,
}

/// A resource of which tasks may be short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// CPU time.
    #[default]
    Cpu,
    /// Memory.
    Memory,
    /// Disks.
    Io,
}

/// The time that the host gave to others (`/proc/stat`), of the CPUs that the threads may use. Of which thread it took the time is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Steal {
    /// How many CPUs.
    pub cpus: u32,
    /// What the host took, summed over them, ns. It counts in ticks of 10 ms.
    pub ns: u64,
    /// Of this time of the CPUs, ns.
    pub of_ns: u64,
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

    #[test]
    fn a_memory_limit_is_short_and_no_unit_is_rounded_away() {
        let limit = |limit_bytes| MemoryLimit { limit_bytes, ..MemoryLimit::default() }.limit();
        let said = [4096, 64 << 20, 1_610_612_736, 1 << 40].map(limit);
        assert_eq!(said, ["4 KiB", "64 MiB", "1.5 GiB", "1024 GiB"]);
    }
}

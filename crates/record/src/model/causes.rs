//! Why threads woke up late: the lateness of each wake-up, cut into parts with a cause each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::Spread;
use crate::model::budget::{Budget, Loss};
use crate::model::series::{Code, Price};
use crate::model::summary::is_zero;

/// What was found out about the wake-ups of a run, or of a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Causes {
    /// The program, where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// How the causes were found.
    pub source: CauseSource,
    /// How long the threads were watched, ns.
    pub watched_ns: u64,
    /// Blocking calls that ended while the threads were watched.
    pub wake_ups: u64,
    /// Those whose lateness was cut into parts completely.
    pub split: u64,
    /// Why the others were not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsplit: Vec<Unsplit>,
    /// Events that the kernel dropped because a ring was full.
    pub lost_events: u64,
    /// What watching itself adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<WatchEffect>,
    /// What could not be seen, and the remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Unseen>,
    /// By thread name and call, the most time lost first.
    pub calls: Vec<CallCauses>,
    /// The worst wake-ups, the worst first; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<LateWake>,
    /// Remedies that were tried on the running program, after the causes were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
    /// Where the wall time of the threads went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What they lost, the largest loss that is not the program's own choice first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
}

/// Another program that was watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Program {
    /// Its name (`/proc/PID/comm`), or the command.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Threads seen.
    pub threads: u64,
    /// CPU time of its threads while they were watched, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Times its threads waited for a CPU, summed (`/proc/TID/schedstat`), ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Its exit status, where it was started to be watched: 128 + n after signal n.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

/// How causes were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseSource {
    /// Tracepoints of the kernel (`perf_event_open(2)`).
    #[default]
    Tracepoints,
    /// Only the time that threads waited for a CPU (`/proc/TID/schedstat`): no privilege, no single wake-ups.
    RunDelay,
}

/// Wake-ups that were not cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unsplit {
    /// Why.
    pub why: String,
    /// How many.
    pub count: u64,
}

/// What watching adds to a wake-up, measured by switching it on and off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchEffect {
    /// Median of the differences of the p50 between watched and unwatched batches, ns.
    pub p50_ns: f64,
    /// Its 95 % confidence interval.
    pub low_ns: f64,
    /// Its 95 % confidence interval.
    pub high_ns: f64,
    /// Pairs of batches.
    pub pairs: u64,
}

/// Something that could not be seen. Older files have what and why in one text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unseen {
    /// What.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What would make it visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Unseen {
    /// What, and why, in one text.
    #[must_use]
    pub fn text(&self) -> String {
        [self.what.as_str(), self.why.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    }
}

/// The policy of a thread that was in the way, unless it is SCHED_OTHER at nice 0. The name of a culprit ends with it, in parentheses:
/// `irq/24 (real-time 50)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CulpritPolicy {
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_FIFO or SCHED_RR, with the priority.
    RealTime(i32),
    /// Another nice value.
    Nice(i32),
}

impl CulpritPolicy {
    /// The policy in the name of a culprit.
    #[must_use]
    pub fn in_name(culprit: &str) -> Option<Self> {
        let shown = culprit.strip_suffix(')')?.rsplit_once(" (")?.1;
        let number = |kind: &str| shown.strip_prefix(kind)?.strip_prefix(' ')?.parse().ok();
        match shown {
            DEADLINE => Some(Self::Deadline),
            _ => number(REAL_TIME).map(Self::RealTime).or_else(|| number(NICENESS).map(Self::Nice)),
        }
    }
}

const DEADLINE: &str = "SCHED_DEADLINE";
const REAL_TIME: &str = "real-time";
const NICENESS: &str = "nice";

impl fmt::Display for CulpritPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str(DEADLINE),
            Self::RealTime(priority) => write!(f, "{REAL_TIME} {priority}"),
            Self::Nice(nice) => write!(f, "{NICENESS} {nice}"),
        }
    }
}

/// A call of one or more threads of the same name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallCauses {
    /// The name of the threads.
    pub thread: String,
    /// The system call.
    pub call: String,
    /// Nominal wait, where it was one of our own series, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_ns: Option<u64>,
    /// How often it was made.
    pub calls: u64,
    /// How often it gave up the CPU.
    pub blocked: u64,
    /// How often it returned without giving up the CPU.
    pub at_once: u64,
    /// How long the thread asked to wait, where a timer ended the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Spread>,
    /// How long those took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Spread>,
    /// Lateness: from the timer's deadline, or from the waker's wake-up, to the return of the call. Only cut wake-ups.
    pub late: Spread,
    /// The lateness by part and cause, the most time first. Sums to `late.total_ns`.
    pub causes: Vec<CauseTime>,
    /// Who woke the threads, where no timer did; the most frequent first, at most five.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakers: Vec<Waker>,
}

/// A part of a wake-up's lateness, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LatePart {
    /// The timer was set to fire later than asked.
    TimerSet,
    /// From the expiry to the timer interrupt.
    TimerInterrupt,
    /// From the timer interrupt to this timer's function.
    TimerFunction,
    /// From the timer's function to the wake-up.
    WakeUp,
    /// From the wake-up to the thread running.
    RunQueue,
    /// From the thread running to the return of the call.
    Return,
}

/// Why a part took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The thread's timer slack (`PR_SET_TIMERSLACK`).
    TimerSlack,
    /// The CPU left an idle state. In a virtual machine this holds the hypervisor's time too.
    IdleState,
    /// A device's interrupt was served.
    DeviceInterrupt,
    /// A softirq was served.
    Softirq,
    /// A non-maskable interrupt was served.
    Nmi,
    /// The CPU ran a thread and served no interrupt: interrupts were off, or the host or firmware had the CPU.
    InterruptsOff,
    /// No CPU of the machine did anything: the host or firmware had them.
    Host,
    /// Timers that expired earlier were served first.
    OtherTimers,
    /// The kernel's own way through the timer interrupt.
    TimerPath,
    /// Another thread ran, which the scheduler preferred or let run on.
    OtherThread,
    /// A thread of lower real-time priority ran on: preemption was off, or the kernel has none there.
    NotPreempted,
    /// The switch of contexts itself.
    ContextSwitch,
    /// The quota of the thread's cgroup was used up: the CPU idled although the thread was ready, or others ran until the kernel filled
    /// a quota up that it counted as used up.
    Quota,
    /// The thread was ready at a real-time priority and a fair thread ran or the CPU idled: real-time throttling, or since Linux 6.12
    /// the fair server.
    RtThrottling,
    /// The thread was moved to another CPU.
    Migration,
    /// The process was stopped, by a signal or for a tracer.
    Stopped,
    /// Page faults.
    PageFault,
    /// A signal was delivered.
    Signal,
    /// Others ran after the thread had begun to return.
    Preempted,
    /// The kernel's own way back from the call.
    ReturnPath,
}

/// A cause and the time lost by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CauseTime {
    /// The part of the lateness.
    pub part: LatePart,
    /// The cause.
    pub cause: Cause,
    /// Who or what: `kworker/1:2`, `C1`, `NET_RX`. Absent where the cause has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// Time lost in the wake-ups that it made late.
    pub time: Spread,
    /// Mean time lost per wake-up, in consecutive stretches of the run, ns. What varies between them is scatter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stretches_ns: Vec<f64>,
}

/// A thread that wakes others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waker {
    /// Its name; that of an interrupt in parentheses.
    pub name: String,
    /// Its number, where it was always the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// The system call in which it woke, where it is watched too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// How often.
    pub count: u64,
    /// How long the thread waited for it, from the beginning of the wait to the wake-up. Waits for one futex that time out and are
    /// repeated at once are one wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<Spread>,
    /// How long it waited for a CPU itself, within that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_delay: Option<Spread>,
    /// How long it ran within that time, since its own wake-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worked: Option<Spread>,
    /// How often a mutex lent it the higher priority of the thread that waited (`sched_pi_setprio`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inherited: u64,
    /// How often it waited for a CPU at a lower priority than that thread, and none was lent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inverted: u64,
}

/// A single late wake-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateWake {
    /// The thread's name.
    pub thread: String,
    /// Its number.
    pub tid: u32,
    /// The system call.
    pub call: String,
    /// Since watching began, ns: when it should have run.
    pub at_ns: u64,
    /// The CPU it came to run on.
    pub cpu: u32,
    /// How late it was, ns.
    pub late_ns: u64,
    /// Its parts in the order of time; they sum to `late_ns`.
    pub parts: Vec<WakePart>,
    /// Who woke it, and who woke the waker, back to the first cause: the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<ChainLink>,
    /// What the CPUs did meanwhile, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Stretch>,
}

/// A part of one wake-up's lateness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WakePart {
    /// Which.
    pub part: LatePart,
    /// Why.
    pub cause: Cause,
    /// Who or what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<String>,
    /// How long, ns.
    pub ns: u64,
}

/// A thread in a chain of wake-ups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainLink {
    /// Its name; that of an interrupt in parentheses.
    pub name: String,
    /// Its number.
    pub tid: u32,
    /// From its own wake-up until it ran, ns.
    pub delay_ns: u64,
    /// From then until it woke the next, ns.
    pub worked_ns: u64,
    /// Its priority was lower than that of the thread that waited: whether a mutex lent it that one, or it waited for a
    /// CPU without. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited: Option<bool>,
}

/// What a CPU did for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stretch {
    /// The CPU.
    pub cpu: u32,
    /// From the wake-up's deadline, ns; negative before it.
    pub from_ns: i64,
    /// How long, ns.
    pub ns: u64,
    /// What it did.
    pub activity: Activity,
    /// The thread, interrupt, softirq or idle state.
    pub name: String,
}

/// What a CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The thread in question.
    Itself,
    /// Another thread.
    Thread,
    /// Nothing.
    Idle,
    /// A device's interrupt.
    Interrupt,
    /// A softirq.
    Softirq,
    /// A timer's function.
    Timer,
}

// Remedies that were tried on a running program, on and off by turns.

/// A remedy and what the program did with it and without.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Its stable name, that of the condition: `timer-slack`.
    pub id: String,
    /// Its value, as the condition of that name takes it: `1ns`.
    pub value: String,
    /// The remedy: `timer slack 1 ns`.
    pub remedy: String,
    /// What was set, in the words of the man pages.
    pub what: String,
    /// What to write.
    pub code: Code,
    /// What it costs whoever keeps it.
    pub price: Price,
    /// How many threads had it set, at most.
    pub threads: u64,
    /// Blocks without and with it, each pair in random order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<TrialPair>,
    /// Why it was not tried, or not on all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<TrialRefused>,
}

/// Two adjacent blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialPair {
    /// Without the remedy.
    pub off: TrialBlock,
    /// With it.
    pub on: TrialBlock,
}

/// A stretch of time in which nothing was changed. A call that began before it is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialBlock {
    /// How long, ns.
    pub ns: u64,
    /// CPU time of the program's threads, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Time for which the program's threads waited for a CPU, summed, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Time that the host gave to others, of all CPUs, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<u64>,
    /// Lateness of the wake-ups by the threads' own timers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Spread>,
    /// Lateness of all others: by threads, interrupts and other processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Spread>,
}

/// Why a remedy was not tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialRefused {
    /// Why.
    pub why: String,
    /// What would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

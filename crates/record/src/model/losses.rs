//! What threads lost of their time, as it is said.

use serde::{Deserialize, Serialize};

use super::budget::Stop;

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

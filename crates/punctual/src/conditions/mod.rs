//! Conditions of a thread: policy, nice value, CPUs, locked memory, timer slack, C-states, CPU frequency.
//!
//! [`Conditions::apply`] changes the calling thread, its process or the machine, and [`Conditions::apply_to`] another thread. They return
//! a [`Guard`] and the refused conditions, each with its reason and what it needs. The guard knows the values in force, read back from the
//! kernel. Dropping it restores the previous state, even during unwinding. A [`ThreadState`] lets another process do that.
//!
//! Conditions are independent: a refused one is reported, and the others are applied. Each has its own file, which implements
//! `Definition`. It has a variant of [`Value`] and a line in [`CONDITIONS`] here; other code finds it through these.
//!
//! ```no_run
//! use punctual::{Applied, Conditions, Policy};
//!
//! let Applied { guard, refused } = Conditions::new().policy(Policy::Fifo(40)).lock_memory().apply();
//! for refused in &refused {
//!     eprintln!("{refused}");
//! }
//! // ... what has to be on time ...
//! drop(guard);
//! ```
//!
//! Layers: surroundings < this file < set < the conditions < thread_state < guard.

mod cpu;
mod dma_latency;
mod frequency;
mod guard;
mod irqs_away;
mod lock_memory;
mod nice;
mod policy;
mod set;
mod slice;
mod surroundings;
mod thread_state;
mod timer_slack;

#[cfg(test)]
mod diagnoses;

use std::any::Any;
use std::cell::LazyCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use punctual_linux::sched;
use surroundings::{Reason, Surroundings};

use crate::cpu_set::{CpuSet, CpuSetError};
use crate::cpufreq::{Cpufreq, FREQUENCY, format_frequency};
use crate::duration::{DurationError, format_duration};
use crate::need::Need;
use crate::policy::{Policy, PolicyError};
use crate::restore::{NotRestored, StateDir};

pub use guard::{Applied, Guard, recover};
pub use set::{Conditions, Lost, Refused};
pub(crate) use surroundings::may_raise_limits;
pub use thread_state::ThreadState;

/// A condition with its value. [`fmt::Display`] writes the value as it is typed: `fifo:40`, `1ns`, `0-3`, `yes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The scheduling policy.
    Policy(Policy),
    /// The nice value.
    Nice(i32),
    /// The CPUs that the thread may run on.
    Cpu(CpuSet),
    /// The timer slack.
    TimerSlack(Duration),
    /// The time slice under SCHED_OTHER and SCHED_BATCH.
    Slice(Duration),
    /// Whether the memory of the process is locked.
    LockMemory(bool),
    /// The longest exit latency of idle states.
    DmaLatency(Duration),
    /// The lowest CPU frequency.
    MinFrequency(Frequency),
    /// The highest CPU frequency.
    MaxFrequency(Frequency),
    /// The energy-performance preference.
    Epp(String),
    /// The CPU frequency governor.
    Governor(String),
    /// Whether interrupts leave the CPUs.
    IrqsAway(bool),
}

/// A limit of CPU frequency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frequency {
    /// In kHz.
    Khz(u64),
    /// The highest that is allowed.
    Highest,
    /// Read from CPUs with different limits, in kHz; it cannot be set.
    Mixed(Vec<u64>),
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Khz(khz) => f.write_str(&format_frequency(*khz)),
            Self::Highest => f.write_str("max"),
            Self::Mixed(all) => f.write_str(&all.iter().copied().map(format_frequency).collect::<Vec<_>>().join("/")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::Nice(nice) => nice.fmt(f),
            Self::Cpu(cpus) => cpus.fmt(f),
            Self::TimerSlack(duration) | Self::Slice(duration) => f.write_str(&format_duration(*duration)),
            Self::DmaLatency(Duration::ZERO) => f.write_str("0us"),
            Self::DmaLatency(latency) => f.write_str(&format_duration(*latency)),
            Self::LockMemory(held) | Self::IrqsAway(held) => f.write_str(if *held { "yes" } else { "no" }),
            Self::MinFrequency(limit) | Self::MaxFrequency(limit) => limit.fmt(f),
            Self::Epp(name) | Self::Governor(name) => f.write_str(name),
        }
    }
}

/// All conditions, in display order. They are applied from the last to the first, so the policy comes last. Until then, no real-time thread
/// preempts the rest of the machine, and no policy hides a setting from the kernel.
pub const CONDITIONS: &[Condition] = &[
    Condition::POLICY,
    Condition::NICE,
    Condition::CPU,
    Condition::TIMER_SLACK,
    Condition::SLICE,
    Condition::LOCK_MEMORY,
    Condition::DMA_LATENCY,
    Condition::MIN_FREQUENCY,
    Condition::MAX_FREQUENCY,
    Condition::EPP,
    Condition::GOVERNOR,
    Condition::IRQS_AWAY,
];

impl Condition {
    /// The condition of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        CONDITIONS.iter().copied().find(|condition| condition.name() == name)
    }
}

impl Value {
    /// The condition whose value it is.
    #[must_use]
    pub const fn condition(&self) -> Condition {
        match self {
            Self::Policy(_) => Condition::POLICY,
            Self::Nice(_) => Condition::NICE,
            Self::Cpu(_) => Condition::CPU,
            Self::TimerSlack(_) => Condition::TIMER_SLACK,
            Self::Slice(_) => Condition::SLICE,
            Self::LockMemory(_) => Condition::LOCK_MEMORY,
            Self::DmaLatency(_) => Condition::DMA_LATENCY,
            Self::MinFrequency(_) => Condition::MIN_FREQUENCY,
            Self::MaxFrequency(_) => Condition::MAX_FREQUENCY,
            Self::Epp(_) => Condition::EPP,
            Self::Governor(_) => Condition::GOVERNOR,
            Self::IrqsAway(_) => Condition::IRQS_AWAY,
        }
    }
}

/// A condition of the table. Two are equal if they have the same name.
#[derive(Clone, Copy)]
pub struct Condition(&'static Facts);

/// What each condition says of itself where it is declared.
struct Facts {
    /// As it is typed: `timer-slack`.
    name: &'static str,
    scope: Scope,
    definition: &'static dyn Definition,
}

impl Condition {
    pub(crate) fn definition(self) -> &'static dyn Definition {
        self.0.definition
    }

    /// Its name: `policy`, `lock-memory`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Its scope.
    #[must_use]
    pub fn scope(self) -> Scope {
        self.0.scope
    }

    /// A value from the text form that [`Value`] writes: `fifo:40`, `1ns`, `yes`.
    ///
    /// # Errors
    /// Says which values are valid.
    pub fn parse(self, text: &str) -> Result<Value, InvalidValue> {
        self.0.definition.parse(text)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Condition {}

impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.name())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a text is no value of a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// No policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No list of CPUs.
    #[error(transparent)]
    Cpus(#[from] CpuSetError),
    /// No duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// No frequency, and not `max`.
    #[error("expected max, or {FREQUENCY}")]
    MaxOrFrequency,
    /// Another value: these are valid, with an example.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The condition has no value but `yes`.
    #[error("takes no value")]
    TakesNone,
}

/// The scope of a condition's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The thread that applies it. Programs started by this thread inherit it.
    Thread,
    /// The process. Programs that it starts do not inherit it.
    Process,
    /// The machine, while the guard lives.
    Machine,
}

/// How to check whether a condition is available.
pub(crate) enum Probe {
    /// Try this value on a separate thread.
    Try(Value),
    /// Use this finding.
    Found(Result<(), Reason>),
}

/// The thread whose conditions are read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thread {
    /// The one that asks.
    Calling,
    /// Another one of the machine, by its kernel ID.
    Other(i32),
}

impl Thread {
    /// The thread of this ID; 0 is the calling one, as in the kernel's calls.
    pub(crate) fn with_id(tid: i32) -> Self {
        if tid == 0 || tid == sched::current_thread_id() { Self::Calling } else { Self::Other(tid) }
    }

    /// Its ID in the kernel's calls, 0 for the calling one.
    pub(crate) const fn id(self) -> i32 {
        match self {
            Self::Calling => 0,
            Self::Other(tid) => tid,
        }
    }

    /// Its folder in /proc. The folder of a thread's ID is not listed there, but it exists.
    pub(crate) fn folder(self) -> PathBuf {
        match self {
            Self::Calling => "/proc/thread-self".into(),
            Self::Other(tid) => format!("/proc/{tid}").into(),
        }
    }
}

/// What conditions act on: a thread, and a machine with the root of its files and the folder of its journals.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) thread: Thread,
    pub(crate) root: PathBuf,
    pub(crate) state: StateDir,
}

impl Target {
    /// This thread of the running machine.
    pub(crate) fn thread(thread: Thread) -> Self {
        Self { thread, root: "/".into(), state: StateDir::system() }
    }

    /// The calling thread of the running machine.
    pub(crate) fn calling_thread() -> Self {
        Self::thread(Thread::Calling)
    }

    pub(crate) fn cpufreq(&self) -> Cpufreq {
        Cpufreq::at(&self.root, self.state.clone())
    }
}

/// What a condition does. Each has its file.
pub(crate) trait Definition: Send + Sync {
    /// A value from its text form, or what is valid.
    fn parse(&self, text: &str) -> Result<Value, InvalidValue>;

    /// The value in force; `None` if it cannot be read.
    fn read(&self, target: &Target) -> Option<Value>;

    fn probe(&self, target: &Target) -> Probe;

    /// A request that no kernel setting and no privilege could fulfil here. Changes nothing.
    fn impossible(&self, _value: &Value, _here: &Surroundings) -> Option<Reason> {
        None
    }

    /// Sets [`Applying::value`] and reads it back. [`Applying::hold`] takes over each change.
    fn apply(&self, applying: &mut Applying<'_>) -> Result<(), Reason>;

    /// Restores changes that a dead program left behind; returns a sentence for each.
    fn recover(&self, _target: &Target) -> Result<Vec<String>, Reason> {
        Ok(Vec::new())
    }
}

/// An applied condition: its state, and how to undo it. Without [`Held::undo`] it stays in force when dropped.
pub(crate) trait Held: Any + fmt::Debug {
    /// The value in force, if it differs. An unreadable condition counts as kept.
    fn lost(&self) -> Option<String>;

    /// The value in force, for a condition that only its guard can read.
    fn holds(&self) -> Option<Value> {
        None
    }

    /// Sets the condition again. Undo still restores the original value.
    fn renew(&mut self, here: &LazyCell<Surroundings>) -> Result<(), Reason>;

    /// Called once all conditions are applied; makes the condition hold among them.
    fn settle(&mut self) -> Result<(), Reason> {
        Ok(())
    }

    /// Restores the original value. Must not panic: it also runs during unwinding.
    fn undo(self: Box<Self>) -> Vec<NotRestored>;
}

/// A condition in a guard.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) condition: Condition,
    pub(crate) value: Value,
    /// Requested, and not refused.
    pub(crate) granted: bool,
    pub(crate) held: Box<dyn Held>,
}

/// Context of a condition while it is applied.
pub(crate) struct Applying<'a> {
    pub(crate) condition: Condition,
    pub(crate) value: &'a Value,
    /// Read at the first use: it takes more time than most conditions.
    pub(crate) here: &'a LazyCell<Surroundings>,
    pub(crate) target: &'a Target,
    /// All requested conditions.
    pub(crate) asked: &'a [Value],
    /// Whether irreversible changes are allowed.
    pub(crate) allow_irreversible: bool,
    pub(crate) kept: &'a mut Vec<Kept>,
    pub(crate) notes: &'a mut Vec<String>,
}

impl Applying<'_> {
    /// The thread whose conditions change.
    pub(crate) const fn thread(&self) -> Thread {
        self.target.thread
    }

    /// The refusal of a value that can be read, and not be set.
    pub(crate) fn read_only() -> Reason {
        Reason::new("this value can be read, and not be set", Need::NoRequest)
    }

    /// Hands over a change to the guard, at once, even if the value is refused afterwards.
    pub(crate) fn hold(&mut self, held: impl Held) {
        let (condition, value) = (self.condition, self.value.clone());
        self.kept.push(Kept { condition, value, granted: false, held: Box::new(held) });
    }

    /// The state that an earlier condition of the same guard holds.
    pub(crate) fn earlier<T: Held>(&self) -> Option<&T> {
        self.kept.iter().find_map(|kept| (&*kept.held as &dyn Any).downcast_ref())
    }

    /// The CPUs requested at the same time.
    pub(crate) fn cpus(&self) -> Option<&CpuSet> {
        self.asked.iter().find_map(|value| if let Value::Cpu(cpus) = value { Some(cpus) } else { None })
    }
}

/// A duration as typed: `100us`.
pub(crate) fn shown(ns: u64) -> String {
    format_duration(Duration::from_nanos(ns))
}

/// The error for a change of a thread or process that could not be undone.
pub(crate) fn not_restored(what: &str, was: impl fmt::Display, why: impl fmt::Display) -> NotRestored {
    NotRestored { what: what.into(), was: was.to_string(), why: why.to_string(), needs: Need::EndOfProcess }
}

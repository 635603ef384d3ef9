//! Definition of a condition: the trait that each condition's file implements, and the handle that other code uses.

use std::any::Any;
use std::cell::LazyCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use punctual_linux::sched;

use super::reason::Reason;
use super::surroundings::Surroundings;
use super::value::Value;
use crate::cpu_set::CpuSet;
use crate::cpufreq::Cpufreq;
use crate::duration::format_duration;
use crate::need::Need;
use crate::restore::{NotRestored, StateDir};

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

/// What a condition is, beside [`Value::apply`](super::Value). Each has its file.
pub(crate) trait Definition: fmt::Debug + Send + Sync {
    /// Its name: `timer-slack`.
    fn name(&self) -> &'static str;

    fn scope(&self) -> Scope {
        Scope::Thread
    }

    /// A value from its text form, or the list of valid values.
    fn parse(&self, text: &str) -> Result<Value, String>;

    /// The value in force; `None` if it cannot be read.
    fn read(&self, target: &Target) -> Option<Value>;

    fn probe(&self, target: &Target) -> Probe;

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

/// A condition of the table. Two are equal if they have the same name.
#[derive(Clone, Copy)]
pub struct Condition(&'static dyn Definition);

impl Condition {
    pub(crate) const fn defined_by(definition: &'static dyn Definition) -> Self {
        Self(definition)
    }

    pub(crate) fn definition(self) -> &'static dyn Definition {
        self.0
    }

    /// Its name: `policy`, `lock-memory`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Its scope.
    #[must_use]
    pub fn scope(self) -> Scope {
        self.0.scope()
    }

    /// A value from the text form that [`Value`] writes: `fifo:40`, `1ns`, `yes`.
    ///
    /// # Errors
    /// Lists the valid values.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        self.0.parse(text)
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

/// A duration as typed: `100us`.
pub(crate) fn shown(ns: u64) -> String {
    format_duration(Duration::from_nanos(ns))
}

/// The error for a change of a thread or process that could not be undone.
pub(crate) fn not_restored(what: &str, was: impl fmt::Display, why: impl fmt::Display) -> NotRestored {
    NotRestored { what: what.into(), was: was.to_string(), why: why.to_string(), needs: Need::EndOfProcess }
}

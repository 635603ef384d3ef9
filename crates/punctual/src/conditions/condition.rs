//! Definition of a condition: the trait that each condition's file implements, and the handle that other code uses.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use super::reason::Reason;
use super::surroundings::Surroundings;
use super::value::Value;
use crate::cpufreq::Cpufreq;
use crate::duration::format_duration;
use crate::restore::{NotRestored, StateDir};

/// The value of a condition on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value with this name in the help.
    Value(&'static str),
    /// An optional value with this name in the help; `default` without it.
    OptionalValue {
        /// Its name in the help.
        name: &'static str,
        /// Value of the flag alone.
        default: &'static str,
    },
    /// No value: the flag alone means `yes`.
    Nothing,
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
    Try(String),
    /// Use this finding.
    Found(Result<(), Reason>),
}

/// A root of the file system, and the folder of the journals.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) root: PathBuf,
    pub(crate) state: StateDir,
}

impl Machine {
    pub(crate) fn system() -> Self {
        Self { root: "/".into(), state: StateDir::system() }
    }

    pub(crate) fn cpufreq(&self) -> Cpufreq {
        Cpufreq::at(&self.root, self.state.clone())
    }
}

/// A condition, complete in one file. A value is text, as typed.
pub(crate) trait Definition: fmt::Debug + Send + Sync {
    /// Its name on the command line, without dashes.
    fn name(&self) -> &'static str;

    /// One line of help.
    fn help(&self) -> &'static str;

    fn takes(&self) -> Takes;

    fn scope(&self) -> Scope {
        Scope::Thread
    }

    /// Whether a comma-separated list of values may be measured side by side.
    fn compares(&self) -> bool {
        false
    }

    /// Normalises a typed value to its shortest form, or fails with the list of valid values.
    fn parse(&self, typed: &str) -> Result<String, String>;

    /// The current value, as typed; `None` if it cannot be read.
    fn read(&self, machine: &Machine) -> Option<String>;

    /// Sets the value and reads it back. [`Applying::hold`] takes over each change at once, even if the value is
    /// refused afterwards.
    fn apply(&self, value: &str, applying: &mut Applying<'_>) -> Result<(), Reason>;

    /// A request that no kernel setting and no privilege could fulfil here. Changes nothing.
    fn impossible(&self, _value: &str, _here: &Surroundings) -> Option<Reason> {
        None
    }

    fn probe(&self, machine: &Machine) -> Probe;

    /// The value as its type; `None` for text that is no value.
    fn typed(&self, value: &str) -> Option<Value>;

    /// The usual cause of its loss, and the remedy.
    fn if_lost(&self) -> &'static str;

    /// Restores changes that a dead program left behind; returns a sentence for each.
    fn recover(&self, _machine: &Machine) -> Result<Vec<String>, Reason> {
        Ok(Vec::new())
    }
}

/// An applied condition: its state, and how to undo it. Without [`Held::undo`] it stays in force when dropped.
pub(crate) trait Held: Any + fmt::Debug {
    /// The value in force, if it differs. An unreadable condition counts as kept.
    fn lost(&self) -> Option<String>;

    /// The value in force, for a condition that only its guard can read.
    fn holds(&self) -> Option<String> {
        None
    }

    /// Sets the condition again. Undo still restores the original value.
    fn renew(&mut self, here: &Surroundings) -> Result<(), Reason>;

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
    pub(crate) value: String,
    /// Requested, and not refused.
    pub(crate) granted: bool,
    pub(crate) held: Box<dyn Held>,
}

/// Context of a condition while it is applied.
pub(crate) struct Applying<'a> {
    pub(crate) condition: Condition,
    pub(crate) here: &'a Surroundings,
    pub(crate) machine: &'a Machine,
    /// All requested conditions.
    pub(crate) asked: &'a [(Condition, String)],
    /// Whether irreversible changes are allowed.
    pub(crate) allow_irreversible: bool,
    pub(crate) kept: &'a mut Vec<Kept>,
    pub(crate) notes: &'a mut Vec<String>,
}

impl Applying<'_> {
    /// Hands over a change to the guard.
    pub(crate) fn hold(&mut self, value: &str, held: impl Held) {
        let (condition, value) = (self.condition, value.to_owned());
        self.kept.push(Kept { condition, value, granted: false, held: Box::new(held) });
    }

    /// The state that an earlier condition of the same guard holds.
    pub(crate) fn earlier<T: Held>(&self) -> Option<&T> {
        self.kept.iter().find_map(|kept| (&*kept.held as &dyn Any).downcast_ref())
    }

    /// The value requested of another condition at the same time.
    pub(crate) fn asked(&self, condition: Condition) -> Option<&str> {
        self.asked.iter().find(|(its, _)| *its == condition).map(|(_, value)| value.as_str())
    }
}

/// A condition of the table. Two are equal if they have the same name.
#[derive(Clone, Copy)]
pub struct Condition(&'static dyn Definition);

impl Condition {
    pub(crate) const fn of(definition: &'static dyn Definition) -> Self {
        Self(definition)
    }

    pub(crate) fn definition(self) -> &'static dyn Definition {
        self.0
    }

    /// Its name on the command line, without dashes: `policy`, `lock-memory`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// One line of help.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.0.help()
    }

    /// Its value on the command line.
    #[must_use]
    pub fn takes(self) -> Takes {
        self.0.takes()
    }

    /// Its scope.
    #[must_use]
    pub fn scope(self) -> Scope {
        self.0.scope()
    }

    /// Whether several values may be measured side by side.
    #[must_use]
    pub fn compares(self) -> bool {
        self.0.compares()
    }

    /// Normalises a typed value to its shortest form.
    ///
    /// # Errors
    /// Lists the valid values.
    pub fn parse(self, typed: &str) -> Result<String, String> {
        self.0.parse(typed)
    }

    /// The value as its type; `None` for text that is no value of this condition.
    #[must_use]
    pub fn typed(self, value: &str) -> Option<Value> {
        self.0.typed(value)
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

/// The error for a change of the calling thread or process that could not be undone.
pub(crate) fn not_restored(what: &str, was: impl fmt::Display, why: impl fmt::Display) -> NotRestored {
    let remedy = "it ends with this process; a program started later is not affected".into();
    NotRestored { what: what.into(), was: was.to_string(), why: why.to_string(), remedy }
}

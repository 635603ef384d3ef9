//! [`Conditions`]: values of the table's conditions, requested or in force; [`Refused`] and [`Lost`]: those that do not hold; and the reasons that several conditions share: missing capabilities.

use std::fmt;

use punctual_linux::Error;
use rustix::io::Errno;

use super::surroundings::{CAP_SYS_NICE, Reason, Surroundings};
use super::{CONDITIONS, Condition, Scope, Thread, Value};
use crate::need::Need;

/// Values of conditions: requests for the calling thread, or the values in force. An absent value is left unchanged, or
/// could not be read.
///
/// Each condition has a method to request it, such as [`Conditions::policy`], and one to read it, such as
/// [`Conditions::get_policy`].
#[derive(Debug, Clone, Default)]
#[must_use = "conditions do nothing until they are applied"]
pub struct Conditions {
    values: Vec<Value>,
    irreversible: bool,
}

impl Conditions {
    /// An empty set.
    pub const fn new() -> Self {
        Self { values: Vec::new(), irreversible: false }
    }

    /// Requests this value of its condition.
    pub fn with(self, value: Value) -> Self {
        let mut others = self.without(value.condition());
        others.values.push(value);
        others
    }

    /// Requests a condition if there is a value for it: `conditions.maybe(policy, Conditions::policy)`.
    pub fn maybe<T>(self, value: Option<T>, ask: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => ask(self, value),
            None => self,
        }
    }

    /// Removes the request for this condition.
    pub fn without(mut self, condition: Condition) -> Self {
        self.values.retain(|value| value.condition() != condition);
        self
    }

    /// Only the conditions of these scopes.
    pub fn only(mut self, scopes: &[Scope]) -> Self {
        self.values.retain(|value| scopes.contains(&value.condition().scope()));
        self
    }

    /// Also applies conditions that the kernel cannot undo without a privilege. These are a higher nice value, SCHED_IDLE, and leaving a
    /// real-time policy. By default such conditions are refused. Suits a thread that ends with its guard.
    pub const fn allow_irreversible(mut self) -> Self {
        self.irreversible = true;
        self
    }

    pub(crate) const fn allows_irreversible(&self) -> bool {
        self.irreversible
    }

    /// These conditions, completed from `base`.
    pub fn over(mut self, base: &Self) -> Self {
        let more: Vec<_> =
            base.values.iter().filter(|value| self.value(value.condition()).is_none()).cloned().collect();
        self.values.extend(more);
        self.irreversible |= base.irreversible;
        self
    }

    /// The values, in the order of the table.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Value> {
        CONDITIONS.iter().filter_map(|condition| self.value(*condition))
    }

    /// The value of a condition.
    #[must_use]
    pub fn value(&self, condition: Condition) -> Option<&Value> {
        self.values.iter().find(|value| value.condition() == condition)
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl PartialEq for Conditions {
    fn eq(&self, other: &Self) -> bool {
        self.values.len() == other.values.len()
            && self.values.iter().all(|value| other.values.contains(value))
            && self.irreversible == other.irreversible
    }
}

impl Eq for Conditions {}

/// A requested condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The condition.
    pub condition: Condition,
    /// The requested value; absent where none was, as for the availability of a condition.
    pub asked: Option<Value>,
    /// The kernel's message, and its cause.
    pub why: String,
    /// What would let the request succeed.
    pub needs: Need,
    /// The kernel's error number; absent if no call was made, or if the call succeeded with another result.
    pub errno: Option<i32>,
}

impl Refused {
    pub(crate) fn new(condition: Condition, asked: Option<&Value>, reason: Reason) -> Self {
        let Reason { why, needs, errno } = reason;
        Self { condition, asked: asked.cloned(), why, needs, errno }
    }

    /// The requested value as text; empty where none was requested.
    #[must_use]
    pub fn value(&self) -> String {
        self.asked.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.asked {
            None | Some(Value::LockMemory(_) | Value::IrqsAway(_)) => {
                write!(f, "{} was refused: {}", self.condition, self.why)
            }
            Some(value) => write!(f, "{} {value} was refused: {}", self.condition, self.why),
        }
    }
}

/// A granted condition that does not hold any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{condition} was set to {set}, and is {found} now")]
pub struct Lost {
    /// The condition.
    pub condition: Condition,
    /// The value set.
    pub set: Value,
    /// The value in force now.
    pub found: String,
}

/// Whether the error is this kernel error.
pub(super) fn is(error: &Error, errno: Errno) -> bool {
    error.errno() == errno.raw_os_error()
}

/// The refusal of a change to another thread. The kernel looks at its user and at the limits of its process, which are not read here.
pub(super) fn of_another_thread(error: &Error, thread: Thread, here: &Surroundings) -> Option<Reason> {
    let refused = is(error, Errno::PERM) || is(error, Errno::ACCESS);
    let of_other = matches!(thread, Thread::Other(_)) && refused;
    of_other.then(|| Reason::new(error, Need::OtherThread(here.withheld(CAP_SYS_NICE))))
}

/// The refusal of a change that could be applied but not undone. `what` names it.
pub(super) fn irreversible(what: &str, here: &Surroundings) -> Reason {
    let lacking = if here.user_namespace {
        "CAP_SYS_NICE does not reach beyond its user namespace"
    } else {
        "the thread has no CAP_SYS_NICE and its limits (RLIMIT_NICE, RLIMIT_RTPRIO) do not allow it"
    };
    Reason::new(format!("{what}: {lacking}"), Need::WayBack(here.withheld(CAP_SYS_NICE)))
}

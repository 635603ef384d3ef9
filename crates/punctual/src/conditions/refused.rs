//! [`Refused`] and [`Lost`]: conditions that do not hold; and the reasons that several conditions share: missing capabilities.

use std::fmt;

use punctual_linux::Error;
use rustix::io::Errno;

use super::surroundings::{Reason, Surroundings};
use super::{Condition, Thread, Value};
use crate::need::{Need, Withheld};

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

/// Who withholds a capability; `container` is the one that withholds it even from its root.
pub(super) fn withheld(here: &Surroundings, container: Option<&str>) -> Withheld {
    match container {
        _ if here.user_namespace => Withheld::ByUserNamespace,
        Some(container) => Withheld::ByContainer(container.to_owned()),
        None if here.root => Withheld::FromRoot,
        None => Withheld::FromUser,
    }
}

/// Who withholds CAP_SYS_NICE.
pub(super) fn sys_nice_withheld(here: &Surroundings) -> Withheld {
    withheld(here, here.container_without_sys_nice())
}

/// The refusal of a change to another thread. The kernel looks at its user and at the limits of its process, which are not read here.
pub(super) fn of_another_thread(error: &Error, thread: Thread, here: &Surroundings) -> Option<Reason> {
    let refused = is(error, Errno::PERM) || is(error, Errno::ACCESS);
    let of_other = matches!(thread, Thread::Other(_)) && refused;
    of_other.then(|| Reason::new(error, Need::OtherThread(sys_nice_withheld(here))))
}

/// The refusal of a change that could be applied but not undone. `what` names it.
pub(super) fn irreversible(what: &str, here: &Surroundings) -> Reason {
    let lacking = if here.user_namespace {
        "CAP_SYS_NICE does not reach beyond its user namespace"
    } else {
        "the thread has no CAP_SYS_NICE and its limits (RLIMIT_NICE, RLIMIT_RTPRIO) do not allow it"
    };
    Reason::new(format!("{what}: {lacking}"), Need::WayBack(sys_nice_withheld(here)))
}

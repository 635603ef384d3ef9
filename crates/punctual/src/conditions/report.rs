//! [`Refused`] and [`Lost`]: conditions that do not hold.

use std::fmt;

use super::condition::Condition;
use super::reason::Reason;
use super::value::Value;
use crate::need::Need;

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

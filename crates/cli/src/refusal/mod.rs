//! Bad input, in one form: `invalid --nice '30': expected an integer from -20 to 19 (example: -5)`. Nothing was touched, and the status is 2.

pub(crate) mod explanation;
mod line;
pub(crate) mod nearest;

use std::fmt;

use crate::terminal;

/// A command line that asks for something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadUsage(pub(crate) String);

impl BadUsage {
    /// `value` of `what` (a flag or an argument) breaks a constraint. The constraint names what is accepted and an example.
    pub(crate) fn invalid(what: impl fmt::Display, value: impl fmt::Display, constraint: impl fmt::Display) -> Self {
        Self(format!("invalid {what} '{}': {constraint}", terminal::shown(value.to_string())))
    }

    /// Refuses a list of `what` in which a value stands twice.
    pub(crate) fn unless_different<T: PartialEq + fmt::Display>(what: &str, list: &[T]) -> Result<(), Self> {
        let twice = list.iter().enumerate().find(|(at, value)| list[..*at].contains(value));
        twice.map_or(Ok(()), |(_, value)| {
            Err(Self(format!("invalid {what}: '{value}' is asked for twice; name each once")))
        })
    }
}

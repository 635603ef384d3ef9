//! [`Remedy`]: a condition as a remedy, in words. What it acts on, the code that sets it, its price, and its flag.
//!
//! Input: a [`Value`] of the library, or a [`Setting`] of a record. `condition` has the words of each, and is the only place with
//! them; a method's own code is in its series. Text in a record that is no value of its condition has no remedy.

mod condition;
mod loss;
mod need;

pub use punctual::Policy;
use punctual::conditions::Condition;
pub use punctual::conditions::{Frequency, Value};

pub use condition::{Flag, Switch, Takes, acts_on, if_lost, param, phrase, phrase_of, switch_of};
use condition::{code, flag, price, running, value};
pub use loss::{LossRemedy, LossThreads, of_loss};
pub use need::{of_need, of_refused};

use crate::model::{Cause, Code, Price, Setting};

/// A condition as a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// Its stable name, that of the condition: `timer-slack`.
    pub id: &'static str,
    /// Its name for people: `slack 1 ns`.
    pub name: String,
    /// The causes that it acts on; empty: it may change anything.
    pub acts_on: &'static [Cause],
    /// What to write.
    pub code: Code,
    /// A line for the shell that changes a running thread, `TID`.
    pub running: Option<String>,
    /// What it costs.
    pub price: Price,
    /// The flag that sets it.
    pub flag: Flag,
}

impl Remedy {
    /// The remedy that this value is.
    #[must_use]
    pub fn for_value(value: &Value) -> Self {
        let id = value.condition().name();
        Self {
            id,
            name: phrase(value),
            acts_on: acts_on(id),
            code: code(value),
            running: running(value),
            price: price(value),
            flag: flag(value),
        }
    }

    /// The remedy that a setting of a record is, with the value that held, or that was asked where that could not be read.
    #[must_use]
    pub fn of_setting(setting: &Setting) -> Option<Self> {
        let condition = Condition::named(&setting.condition)?;
        let shown = setting.applied.as_ref().or(setting.asked.as_ref())?;
        Some(Self::for_value(&value(condition, shown)?))
    }
}

#[cfg(test)]
mod tests;

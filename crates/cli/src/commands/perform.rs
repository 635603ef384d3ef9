//! [`Perform`]: what each command does with its arguments, and what it is going to measure. So a limit that is about nothing of it is
//! refused before anything is measured.

use punctual_record::{Limit, Quantity};

use crate::args::limits;
use crate::exit::Exit;
use crate::refusal::BadUsage;

/// A command with its arguments.
pub(crate) trait Perform {
    /// Does it.
    fn perform(&self) -> anyhow::Result<Exit>;

    /// Whether the conditions are to be listed instead.
    fn lists_conditions(&self) -> bool {
        false
    }

    /// Its limits, and what it may measure. `None`: it measures nothing, or compares.
    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        None
    }
}

/// A figure that a command may measure.
#[derive(Debug)]
pub(crate) struct Planned {
    experiment: &'static str,
    subject: String,
    quantity: Quantity,
}

impl Planned {
    pub(crate) fn new(experiment: &'static str, subject: impl Into<String>, quantity: Quantity) -> Self {
        Self { experiment, subject: subject.into(), quantity }
    }

    pub(super) fn named(&self) -> (&str, &str, Quantity) {
        (self.experiment, &self.subject, self.quantity)
    }
}

/// Refuses a limit that is about nothing that the command measures.
pub(super) fn check(command: &dyn Perform) -> Result<(), BadUsage> {
    let Some((limits, planned)) = command.planned() else { return Ok(()) };
    let named: Vec<_> = planned.iter().map(Planned::named).collect();
    limits::check(limits, &named)
}

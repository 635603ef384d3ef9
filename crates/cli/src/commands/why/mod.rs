//! `punctual why`: of own waits, of a program, of a running process.

mod advise;
mod args;
mod own;
mod process;
mod program;

use punctual_record::Limit;

use super::measure::{Perform, Planned};
use crate::exit::Exit;
use crate::refusal::BadUsage;
pub(crate) use args::WhyArgs;

impl Perform for WhyArgs {
    /// Watches what the arguments name.
    fn perform(&self) -> anyhow::Result<Exit> {
        if !self.program.is_empty() && self.measure.amount.duration.is_some() && !self.advise {
            let text = "invalid --duration: a program is watched until it ends; the time of --advise can be given (example: --advise --duration 60s)";
            return Err(BadUsage(text.into()).into());
        }
        if self.advise && self.program.is_empty() && self.pid.is_none() {
            let text = "invalid --advise: it takes a program (example: punctual why --advise --pid 1234)";
            return Err(BadUsage(text.into()).into());
        }
        match self.pid {
            Some(pid) => process::run(self, pid),
            None if !self.path.is_empty() => own::paths(self, &self.path),
            None if self.program.is_empty() => own::run(self),
            None => program::run(self),
        }
    }

    fn lists_conditions(&self) -> bool {
        self.measure.conditions.list
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        Some((&self.measure.output.fail_if, Self::method().into_iter().map(super::wait::planned).collect()))
    }
}

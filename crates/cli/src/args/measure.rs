//! What all measuring commands take.

use std::time::Duration;

use clap::Args;
use punctual_lab::{Request, Watched};

use super::{AmountArgs, ConditionArgs, OutputArgs};
use crate::refusal::BadUsage;

/// What all measuring commands take.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl MeasureArgs {
    /// The request; `usual` is the default measuring time. Refuses conditions that this machine could not meet.
    pub(crate) fn request(&self, usual: Duration) -> Result<Request, BadUsage> {
        self.conditions.check()?;
        Ok(Request {
            variants: self.conditions.variants()?,
            base: self.conditions.base(),
            amount: self.amount.or(usual),
            rounds: self.amount.rounds,
            warmup: self.amount.warmup,
            require: self.conditions.require,
            watch: Watched::Never,
        })
    }
}

//! How much to measure.

use std::time::Duration;

use clap::Args;
use punctual_lab::schedule::Amount;

use super::values;

/// How much to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Amount")]
pub(crate) struct AmountArgs {
    /// Samples of every series (500, 10k, 1M)
    #[arg(long, value_name = "N", value_parser = values::count, conflicts_with = "duration")]
    pub(crate) samples: Option<u64>,
    /// How long to measure altogether (20s, 5m); shorter operations get more samples
    #[arg(long, value_name = "DUR", value_parser = values::positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Rounds in which the subjects take turns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::integer(1u32, 10_000, "--rounds 20"))]
    pub(crate) rounds: u32,
    /// Operations at the beginning of each batch that are not recorded
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::integer(0u32, 1_000_000, "--warmup 10"))]
    pub(crate) warmup: u32,
}

impl AmountArgs {
    /// What was asked, if anything was.
    pub(crate) fn given(&self) -> Option<Amount> {
        self.samples.map(Amount::Samples).or(self.duration.map(Amount::Time))
    }

    /// What was asked, or so long.
    pub(crate) fn or(&self, usual: Duration) -> Amount {
        match self.samples {
            Some(n) => Amount::Samples(n),
            None => Amount::Time(self.duration.unwrap_or(usual)),
        }
    }
}

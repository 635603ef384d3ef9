//! How much to measure.

use std::time::Duration;

use clap::Args;
use punctual_lab::Amount;

use super::values;

/// How much to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Amount")]
pub(crate) struct AmountArgs {
    /// Samples per series, 1 to 1000M (500, 10k, 1M)
    #[arg(long, value_name = "N", value_parser = values::count, conflicts_with = "duration")]
    pub(crate) samples: Option<u64>,
    /// Total measuring time (20s, 5m); short operations get more samples
    #[arg(long, value_name = "DUR", value_parser = values::positive_duration)]
    pub(crate) duration: Option<Duration>,
    /// Interleaved rounds, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::integer(1u32, 10_000, "20"))]
    pub(crate) rounds: u32,
    /// Operations discarded at the start of each batch, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::integer(0u32, 1_000_000, "10"))]
    pub(crate) warmup: u32,
}

impl AmountArgs {
    /// The amount asked for, if any.
    pub(crate) fn given(&self) -> Option<Amount> {
        self.samples.map(Amount::Samples).or(self.duration.map(Amount::Time))
    }

    /// The amount asked for, or `usual`.
    pub(crate) fn or(&self, usual: Duration) -> Amount {
        self.given().unwrap_or(Amount::Time(usual))
    }
}

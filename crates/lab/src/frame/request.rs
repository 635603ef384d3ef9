//! The part of a request that all families share: conditions, amount, rounds.

use std::time::Duration;

use punctual::conditions::Conditions;

use super::plan::{Input, PlanError, rough};
use super::schedule::Schedule;
use super::variant::Variant;

pub use super::schedule::Amount;

/// Longest run without explicit consent: ten minutes.
pub(crate) const LONGEST_UNASKED: Duration = Duration::from_secs(600);

/// The part of a request that all families share.
#[derive(Debug, Clone)]
pub struct Request {
    /// Compared condition sets.
    pub variants: Vec<Variant>,
    /// Conditions of the whole run.
    pub base: Conditions,
    /// How much to measure.
    pub amount: Amount,
    /// Number of rounds.
    pub rounds: u32,
    /// Operations at the beginning of each batch that are not recorded.
    pub warmup: u32,
    /// A refused condition is an error.
    pub require: bool,
    /// Whether the measuring thread is watched.
    pub watch: Watched,
}

/// Whether the measuring thread is watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watched {
    /// It is not.
    #[default]
    Never,
    /// In every second round: the figures come from the others, the causes from these.
    Half,
    /// Likewise, but the causes alone are wanted: where they cannot be had, nothing is measured.
    ForCauses,
}

impl Request {
    /// This amount in this many rounds, under the conditions as found.
    #[must_use]
    pub fn as_found(amount: Amount, rounds: u32) -> Self {
        let (variants, base) = (vec![Variant::as_found()], Conditions::new());
        Self { variants, base, amount, rounds, warmup: 1, require: false, watch: Watched::Never }
    }

    /// The same, watched if `wanted`: with as many rounds for the causes as for the figures.
    #[must_use]
    pub fn watched(self, wanted: bool) -> Self {
        if !wanted {
            return self;
        }
        let amount = match self.amount {
            Amount::Samples(samples) => Amount::Samples(samples.saturating_mul(2)),
            time @ Amount::Time(_) => time,
        };
        Self { amount, rounds: self.rounds.saturating_mul(2), watch: Watched::Half, ..self }
    }

    /// The same for the causes alone.
    pub(crate) fn for_causes(self) -> Self {
        Self { watch: Watched::ForCauses, ..self.watched(true) }
    }

    /// Whether a thread under one of the variants can monopolise a CPU.
    #[must_use]
    pub fn is_real_time(&self) -> bool {
        self.variants.iter().any(Variant::is_real_time)
    }

    /// Refuses an amount of zero.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        at_least_one(Input::Rounds, self.rounds)?;
        at_least_one(Input::Samples, u32::from(self.amount != Amount::Samples(0)))
    }

    /// Refuses a number of samples that would take too long.
    pub(crate) fn check_time(&self, schedule: &Schedule, series: usize) -> Result<(), PlanError> {
        let Amount::Samples(samples) = self.amount else { return Ok(()) };
        let would_take = schedule.expected();
        if would_take <= LONGEST_UNASKED {
            return Ok(());
        }
        let why = format!(
            "{samples} of {series} series would take about {}, longest {}; give the time instead, or fewer samples",
            rough(would_take),
            rough(LONGEST_UNASKED)
        );
        Err(PlanError::new(Input::Samples, why))
    }
}

/// Refuses zero.
pub(crate) fn at_least_one(input: Input, number: u32) -> Result<(), PlanError> {
    if number > 0 { Ok(()) } else { Err(PlanError::new(input, "must be at least 1")) }
}

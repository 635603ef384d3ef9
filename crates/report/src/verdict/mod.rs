//! The verdict on a run: the answer to its question, advice with gain and price, and how far to trust it.
//!
//! A family proposes `Candidate`s: what could be changed, and the series that show it. `tested` answers all of
//! them at once, on the rounds that both series share and corrected for their number, and groups equal remedies. Every
//! form of a report has the same advice.

mod advice;
mod candidate;
mod rank;
mod trust;

pub use advice::{Advice, Case, Code, Goal, Price, Standing, Variant};
pub use trust::{Level, Trust};

pub(crate) use candidate::{Candidate, Trial};
pub(crate) use rank::{grouped, rank, standing, tested};

use schemars::JsonSchema;
use serde::Serialize;

use crate::document::{Album, Table};
use crate::gate::Gate;

/// The verdict on a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// Whether the run keeps its limits; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// Sentences that answer the question of the command, most important first.
    pub answer: Vec<String>,
    /// How far to trust the figures.
    pub trust: Trust,
    /// What to do, the largest gain for its price first.
    pub advice: Vec<Advice>,
    /// What was tried and is no advice: mixed, worse, no difference shown, or not tested.
    pub tried: Vec<Advice>,
    /// What could not be tried: what, why, and what would allow it, in a sentence each.
    pub untried: Vec<String>,
}

/// What a family says of its series, given the outcome of all tests.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    /// The sentences.
    pub(crate) sentences: Vec<String>,
    /// One table for the first screen.
    pub(crate) table: Option<Table>,
    /// One picture for the first screen of a page: small panels, side by side.
    pub(crate) picture: Option<Album>,
}

impl Answer {
    /// Sentences alone.
    pub(crate) fn of(sentences: Vec<String>) -> Self {
        Self { sentences, ..Self::default() }
    }
}

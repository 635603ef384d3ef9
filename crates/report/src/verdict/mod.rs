//! The verdict on a run. It has the answer to its question, advice with gain and price, and how far to trust it.
//!
//! A family proposes `Candidate`s: what could be changed, and the series that show it. `tested` answers all of them at
//! once, on the rounds that both series share. It corrects for their number, and groups equal remedies. Every form of
//! a report has the same advice.

use std::fmt;

use gate::Gate;
use serde::Serialize;

use crate::document::{Album, Table};
use crate::format::sentence;

mod advice;
pub mod gate;
mod rank;
mod trust;

pub use advice::{Advice, Case, Equality, Goal, Standing, Variant};
pub use punctual_record::{Code, Price};
pub use trust::Trust;

pub(crate) use advice::{Candidate, Trial, line_of, lines, share_instead};
pub(crate) use rank::{equality, grouped, rank, standing, tested};
pub(crate) use trust::{EMULATED, is_busy};

/// The verdict on a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub untried: Vec<Untried>,
}

/// What could not be tried; in JSON one text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Untried {
    /// What.
    pub what: String,
    /// Why, and what would allow it.
    pub why: String,
}

impl Untried {
    /// With the remedy, where one is known.
    pub(crate) fn new(what: String, why: &str, remedy: Option<&str>) -> Self {
        let needs = remedy.map(sentence).filter(|needs| !needs.is_empty());
        let needs = needs.map_or(String::new(), |needs| format!(" To allow it: {needs}"));
        Self { what, why: sentence(why) + &needs }
    }
}

impl fmt::Display for Untried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl From<Untried> for String {
    fn from(reason: Untried) -> Self {
        reason.to_string()
    }
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
    pub(crate) fn in_words(sentences: Vec<String>) -> Self {
        Self { sentences, ..Self::default() }
    }
}

/// How far to trust figures, or an advice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Of figures: the machine was quiet and the rounds agree. Of an advice: its gain is known to within half, and no tail looks longer.
    Good,
    /// Of figures: something disturbed them, or the rounds differ. Of an advice: its gain is shown, and not how large it is.
    Fair,
    /// Of figures: another run may have quite different ones. Of an advice: its tail may be longer, or only its tail is shorter.
    Poor,
    /// The run does not tell.
    #[default]
    Unknown,
}

impl Level {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
            Self::Unknown => "unknown",
        }
    }
}

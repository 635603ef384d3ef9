//! What became of the series that both sides have: their figures and differences, as plain data.

use std::collections::BTreeMap;

use punctual_record::{Param, Quantity};
use serde::Serialize;

use crate::evidence::{Figure, SCALE, difference};

use super::outcome::{Range, Verdict};

/// One series on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesComparison {
    /// The experiment.
    pub experiment: String,
    /// The subject.
    pub subject: String,
    /// The label of its conditions in the new run.
    pub conditions: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, Param>,
    /// What its figures are.
    pub quantity: Quantity,
    /// Samples on the old side.
    pub old_count: u64,
    /// Samples on the new side.
    pub new_count: u64,
    /// One each of [`Figure::ALL`], in that order.
    pub figures: Vec<FigureComparison>,
}

/// One figure of one series on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureComparison {
    /// Which.
    pub figure: Figure,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The difference, where it can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// A difference, new against old.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The old figure in ns; of several runs the mean, taken on a logarithmic scale.
    pub old_ns: f64,
    /// The new figure in ns.
    pub new_ns: f64,
    /// New minus old in ns.
    pub by_ns: Range,
    /// The same as a share of the old figure; absent where that is not above zero.
    pub by_share: Option<Range>,
    /// The probability of a difference at least as large where there is none; not corrected.
    pub probability: f64,
    /// The smallest increase, in ns, that nine of ten comparisons like this one would show although nothing else differs.
    pub shows_ns: f64,
    /// The same as a share of the old figure.
    pub shows_share: Option<f64>,
    /// The variance between neighbours on the comparison's scale, and the strictest error probability of the correction.
    #[serde(skip)]
    pub(crate) noise: (f64, f64),
}

impl Difference {
    /// The fewest interleaved runs a side that show an increase by this much, with 90 % power. `None`: no number in reach.
    #[must_use]
    pub fn runs_to_show(&self, ns: f64) -> Option<u32> {
        let by = SCALE.place(self.old_ns + ns) - SCALE.place(self.old_ns);
        difference::runs_to_show(by, self.noise.0, self.noise.1)
    }
}

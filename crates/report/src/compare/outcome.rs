//! What became of the series that both sides have: verdicts, estimates with their intervals and differences, as plain data.

use std::collections::BTreeMap;

use punctual_record::{Param, Quantity};
use serde::Serialize;

use crate::evidence::difference::{self};
use crate::evidence::{Figure, SCALE, Shift};
use crate::pictures::Curve;

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Shown to be larger: later, slower, more CPU time.
    Worse,
    /// Shown to be smaller.
    Better,
    /// No difference that this data can show.
    NoDifference,
    /// Cannot be compared.
    NotComparable,
}

impl Verdict {
    /// Of a difference, and whether it is shown; `None`: not tested.
    pub(super) fn judged(shift: Option<&Shift>, shown: bool) -> Self {
        match shift {
            None => Self::NotComparable,
            Some(shift) if shown && shift.by > 0.0 => Self::Worse,
            Some(_) if shown => Self::Better,
            Some(_) => Self::NoDifference,
        }
    }

    /// In words, for what the figure is of.
    #[must_use]
    pub fn word(self, figure: Figure, quantity: Quantity) -> &'static str {
        let call = matches!(
            quantity,
            Quantity::CallCost
                | Quantity::Loop
                | Quantity::FirstLoops
                | Quantity::RoundTrip
                | Quantity::Away
                | Quantity::Settling
                | Quantity::Response
        );
        match (self, figure, call) {
            (Self::Worse, Figure::Cpu, _) => "more CPU",
            (Self::Better, Figure::Cpu, _) => "less CPU",
            (Self::Worse, _, true) => "longer",
            (Self::Better, _, true) => "shorter",
            (Self::Worse, ..) => "later",
            (Self::Better, ..) => "sooner",
            (Self::NoDifference, ..) => "no difference shown",
            (Self::NotComparable, ..) => "not comparable",
        }
    }
}

/// A fact that differs between the sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name, for instance `kernel` or `cpufreq governors`.
    pub what: String,
    /// On the old side; several values where its runs differ.
    pub old: String,
    /// On the new side.
    pub new: String,
}

/// An estimate and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

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
    /// Settings that held otherwise on the new side: the machine's, where nothing else was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Change>,
    /// Samples on the old side.
    pub old_count: u64,
    /// Samples on the new side.
    pub new_count: u64,
    /// One each of [`Figure::ALL`], in that order.
    pub figures: Vec<FigureComparison>,
    /// The percentiles of the old and the new side, for a picture.
    #[serde(skip)]
    pub(crate) curves: [Curve; 2],
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
    /// The same on the comparison's scale, with its error.
    #[serde(skip)]
    pub(crate) shift: Shift,
}

impl Difference {
    /// The fewest interleaved runs a side that show an increase by this much, with 90 % power. `None`: no number in reach.
    #[must_use]
    pub fn runs_to_show(&self, ns: f64) -> Option<u32> {
        let by = SCALE.place(self.old_ns + ns) - SCALE.place(self.old_ns);
        difference::runs_to_show(by, self.noise.0, self.noise.1)
    }
}

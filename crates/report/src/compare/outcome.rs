//! What became of a figure: a verdict, and an estimate with its interval.

use punctual_record::Quantity;
use serde::Serialize;

use crate::evidence::{Figure, Shift};

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
    pub(super) fn of(shift: Option<&Shift>, shown: bool) -> Self {
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

//! The record of a cell: its subject and parameters ([`Asked`]), its measurements ([`Measured`]), and the family's
//! record of them ([`Report`]).

use punctual::conditions::Refused;
use punctual_record::{About, Experiment, Notice, Quantity, Series, SeriesId, SeriesTally};

use super::unavailable::Unavailable;

/// The subject and parameters of a cell.
pub(crate) struct Asked {
    /// The subject, for instance `nanosleep`.
    pub(crate) subject: String,
    /// Details of the subject.
    pub(crate) about: About,
    /// The experiment with its parameters and no metrics yet.
    pub(crate) experiment: Experiment,
}

/// The measurements of a cell.
pub(crate) struct Measured<'a, X> {
    /// Its samples.
    pub(crate) tally: &'a SeriesTally,
    /// Its results beside them.
    pub(crate) extra: &'a X,
    /// Metrics that all cells have.
    pub(crate) extras: &'a [X],
    /// The conditions that the kernel refused.
    pub(crate) refused: &'a [Refused],
    pub(super) asked: Asked,
    /// Label of its condition set.
    pub(super) conditions: &'a str,
}

impl<X> Measured<'_, X> {
    /// The subject of this cell.
    pub(crate) fn subject(&self) -> String {
        self.asked.subject.clone()
    }

    /// A series of this cell.
    pub(crate) fn series(&self, tally: &SeriesTally, quantity: Quantity, experiment: Experiment) -> Series {
        tally.to_series(SeriesId {
            experiment,
            subject: self.asked.subject.clone(),
            about: self.asked.about.clone(),
            conditions: self.conditions.to_owned(),
            quantity,
        })
    }
}

/// The record of a cell.
#[derive(Default)]
pub(crate) struct Report {
    /// Its series. The first is judged for its steadiness.
    pub(crate) series: Vec<Series>,
    /// Its subjects without a series, and why.
    pub(crate) missing: Vec<(String, Unavailable)>,
    /// Notices for the reader.
    pub(crate) notices: Vec<Notice>,
    /// Errors of a cell that has figures, in words.
    pub(crate) wrong: Option<String>,
}

impl Report {
    /// Only these series.
    pub(crate) fn of(series: Vec<Series>) -> Self {
        Self { series, ..Self::default() }
    }
}

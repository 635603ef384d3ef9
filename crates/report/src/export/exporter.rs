//! What all output forms of a run or a comparison have, and the form that holds everything: JSON, for programs.

use std::io;

use punctual_record::{Run, WriteError};

use crate::compare::{Compared, Comparison};
use crate::document::Document;
use crate::verdict::Verdict;
use crate::verdict::gate::Gate;

/// A form of a `T`.
pub struct Exporter<T> {
    /// Its name, which is also its flag and its file extension: `html`.
    pub name: &'static str,
    /// The line of help of its flag.
    pub about: &'static str,
    /// Whether it is for people. Such a form takes at most [`MOST_SERIES`] series.
    pub is_for_people: bool,
    /// Writes it. Its errors are those of the writer, and data that this form cannot hold.
    pub write: Write<T>,
}

impl<T> Exporter<T> {
    /// A form of documents.
    pub(super) const fn for_people(name: &'static str, about: &'static str, write: Write<T>) -> Self {
        Self { name, about, is_for_people: true, write }
    }

    /// A form for programs.
    pub(super) const fn of_figures(name: &'static str, about: &'static str, write: Write<T>) -> Self {
        Self { name, about, is_for_people: false, write }
    }
}

/// Writes a `T` in one form.
pub type Write<T> = fn(&T, &mut dyn io::Write) -> Result<(), Error>;

/// What has a document, and JSON that holds everything.
pub trait Reported {
    /// Its report, with all pictures or only those that can be drawn in letters.
    fn document(&self, illustrated: bool) -> Document;

    /// All of it as JSON.
    ///
    /// # Errors
    /// Errors of the writer, and a number that JSON cannot hold.
    fn write_json(&self, out: &mut dyn io::Write) -> Result<(), Error>;

    /// The run, for a page that holds it as data.
    fn run(&self) -> Option<&Run> {
        None
    }
}

impl Reported for Run {
    fn document(&self, illustrated: bool) -> Document {
        if illustrated { Document::illustrated(self) } else { Document::from_run(self) }
    }

    fn write_json(&self, out: &mut dyn io::Write) -> Result<(), Error> {
        Ok(self.to_json_with(&Verdict::from_run(self), out)?)
    }

    fn run(&self) -> Option<&Run> {
        Some(self)
    }
}

impl Reported for Compared {
    fn document(&self, _: bool) -> Document {
        Document::of_comparison(self)
    }

    fn write_json(&self, out: &mut dyn io::Write) -> Result<(), Error> {
        let file = ComparisonFile { comparison: &self.comparison, gate: self.gate() };
        Ok(punctual_record::to_json(&file, out)?)
    }
}

/// The most series of a report for people.
pub const MOST_SERIES: usize = 10_000;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The writer.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A number that JSON cannot hold, or the writer.
    #[error(transparent)]
    Json(#[from] WriteError),
    /// A histogram that is missing or damaged.
    #[error(transparent)]
    Histogram(#[from] punctual_record::Error),
    /// The form holds one series.
    #[error("the run has {0} series, and this form holds one")]
    ManySeries(usize),
}

/// The schema of a run's file: the run and, in the same object, the verdict on it. Readers ignore the verdict, since it is
/// computed anew.
#[cfg(feature = "schema")]
#[must_use]
pub fn json_schema() -> serde_json::Value {
    punctual_record::json_schema::<Verdict>()
}

/// A comparison's file: the comparison and, in the same object, the verdict on its limits.
#[derive(serde::Serialize)]
struct ComparisonFile<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
}

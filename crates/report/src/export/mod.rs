//! Documents, runs and comparisons in the forms that others read. Each form is an [`Exporter`]; a command offers the forms of
//! these lists.
//!
//! Text, pages and Markdown lay out a [`crate::document::Document`]; CSV, OpenMetrics, HdrHistogram's text and JSON hold the
//! figures. A run may come from anywhere: nothing of it becomes markup, an escape sequence or a second label.

pub mod csv;
mod exporter;
pub mod hgrm;
pub mod html;
pub mod markdown;
pub mod openmetrics;
pub mod text;

use punctual_record::Run;

use text::Style;

use crate::compare::Compared;

pub use csv::Csv;
#[cfg(feature = "schema")]
pub use exporter::json_schema;
pub use exporter::{Error, Exporter, Json, MOST_SERIES, Reported};
pub use hgrm::Hgrm;
pub use html::Html;
pub use markdown::Markdown;
pub use openmetrics::OpenMetrics;
pub use text::Text;

/// The forms of a run.
pub const OF_RUNS: [&dyn Exporter<Run>; 7] = [&Text(Style::PLAIN), &Html, &Markdown, &Csv, &OpenMetrics, &Hgrm, &Json];
/// The forms of a comparison.
pub const OF_COMPARISONS: [&dyn Exporter<Compared>; 4] = [&Text(Style::PLAIN), &Html, &Markdown, &Json];

/// The form of a run with this name.
#[must_use]
pub fn of_run(name: &str) -> Option<&'static dyn Exporter<Run>> {
    OF_RUNS.into_iter().find(|form| form.name() == name)
}

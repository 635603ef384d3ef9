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

use crate::compare::Compared;

#[cfg(feature = "schema")]
pub use exporter::json_schema;
pub use exporter::{Error, Exporter, MOST_SERIES, Reported, Write};

/// The forms of a run.
pub static OF_RUNS: [Exporter<Run>; 7] = [
    Exporter::TEXT,
    Exporter::PAGE,
    Exporter::MARKDOWN,
    Exporter::of_figures("csv", "CSV, a line per series", csv::write),
    Exporter::of_figures("openmetrics", "OpenMetrics text, for Prometheus", openmetrics::write),
    Exporter::of_figures("hgrm", "HdrHistogram percentile distribution, for its plotters", hgrm::write_run),
    Exporter::JSON,
];
/// The forms of a comparison.
pub static OF_COMPARISONS: [Exporter<Compared>; 4] =
    [Exporter::TEXT, Exporter::PAGE, Exporter::MARKDOWN, Exporter::JSON];

/// The forms of whatever has a document.
impl<T: Reported> Exporter<T> {
    const TEXT: Self = Self::for_people("text", "All tables, as text", text::write);
    const PAGE: Self =
        Self::for_people("html", "HTML page with charts; works offline and holds the whole run", html::write);
    const MARKDOWN: Self = Self::for_people("markdown", "Markdown, for a ticket or a pull request", markdown::write);
    const JSON: Self = Self::of_figures("json", "JSON, the whole run", T::write_json);
}

/// The form of a run with this name.
#[must_use]
pub fn of_run(name: &str) -> Option<&'static Exporter<Run>> {
    OF_RUNS.iter().find(|form| form.name == name)
}

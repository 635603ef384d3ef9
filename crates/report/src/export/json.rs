//! A run or a comparison as JSON: everything, for programs.

use std::io::Write;

use punctual_record::Run;

use crate::compare::{Compared, Comparison};
use crate::gate::Gate;
use crate::verdict::Verdict;

use super::exporter::{Error, Exporter};

/// The schema of a run's file: the run and, in the same object, the verdict on it. Readers ignore the verdict, since it is
/// computed anew.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    punctual_record::json_schema_with::<Verdict>()
}

/// A comparison's file: the comparison and, in the same object, the verdict on its limits.
#[derive(serde::Serialize)]
struct ComparisonFile<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<Gate>,
}

/// JSON.
#[derive(Debug, Clone, Copy)]
pub struct Json;

impl Exporter<Run> for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn write(&self, run: &Run, out: &mut dyn Write) -> Result<(), Error> {
        Ok(run.to_json_with(&Verdict::of(run), out)?)
    }
}

impl Exporter<Compared> for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn write(&self, compared: &Compared, out: &mut dyn Write) -> Result<(), Error> {
        let file = ComparisonFile { comparison: &compared.comparison, gate: compared.gate() };
        Ok(punctual_record::to_json(&file, out)?)
    }
}

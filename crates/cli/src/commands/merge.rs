//! `punctual merge`: saved runs of one kind as one.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use punctual_record::Tool;
use punctual_record::merge::Merger;

use super::measure::{Perform, command_line};
use crate::exit::Exit;
use crate::output::{Outputs, Target};
use crate::saved;

/// Options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Saved runs (JSON or pages), or `last`; merged runs included
    #[arg(value_name = "RUN.json", required = true, value_parser = saved::run_name())]
    pub(crate) files: Vec<PathBuf>,
    /// File for the merged run, in JSON (-: stdout)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Target,
}

impl Perform for MergeArgs {
    /// Merges the runs and writes the result.
    fn perform(&self) -> anyhow::Result<Exit> {
        saved::check_distinct(&self.files)?;
        let output = Outputs::open([("--output", &self.output)], &self.files)?.into_only()?;
        let mut merger: Option<Merger> = None;
        for file in &self.files {
            let run = saved::read_run(file)?;
            let outcome = match merger.as_mut() {
                None => Merger::new(run).map(|first| merger = Some(first)),
                Some(merger) => merger.add(run),
            };
            outcome.with_context(|| file.display().to_string())?;
        }
        let merger = merger.context("no runs to merge")?;
        let tool = Tool { name: "punctual".into(), version: env!("CARGO_PKG_VERSION").into() };
        let run = merger.finish(tool, command_line("merge"))?;
        output.write(|out| Ok(run.to_json(out)?))?;
        Ok(Exit::Done)
    }
}

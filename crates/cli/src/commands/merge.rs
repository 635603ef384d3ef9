//! `punctual merge`.

use anyhow::Context as _;
use punctual_record::Tool;
use punctual_record::merge::Merger;

use super::measure::command_line;
use crate::args::MergeArgs;
use crate::exit::Exit;
use crate::input;
use crate::output::Outputs;

/// Merges the runs and writes the result.
pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<Exit> {
    input::check_distinct(&args.files)?;
    let output = Outputs::open([("--output", &args.output)], &args.files)?.into_only()?;
    let mut merger: Option<Merger> = None;
    for file in &args.files {
        let run = input::read_run(file)?;
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

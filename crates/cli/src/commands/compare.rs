//! `punctual compare`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use punctual_report::compare::limit::{self, Judgement};
use punctual_report::compare::{Comparison, Options, Side, compare, markdown, text};
use punctual_report::html;

use crate::args::{CompareArgs, Form};
use crate::exit::{BadUsage, Exit, with_causes};
use crate::output::Outputs;
use crate::{input, terminal};

/// Compares, shows, judges.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let (old_files, new_files) = args.sides()?;
    let files = [old_files.as_slice(), &new_files].concat();
    input::check_distinct(&files)?;
    let outputs = args.open_outputs(&files)?;
    let (old, new) = (side(&old_files)?, side(&new_files)?);
    if let Some(started) = old.shared_with(&new) {
        let why = "it would be compared with itself";
        return Err(BadUsage(format!("the run that began at {started} is among old and new runs: {why}")).into());
    }
    let comparison = compare(&old, &new, Options { across_conditions: args.across_conditions });
    let judgement = (!args.fail_if.is_empty()).then(|| limit::evaluate(&args.fail_if, &comparison));
    // Judged before anything is written: whatever becomes of the readers, the limits decide.
    let status = status(args, &comparison, judgement.as_ref());
    let failed = show(args, &comparison, judgement.as_ref(), outputs);
    failed.iter().for_each(|error| terminal::complain(&format!("error: {}", with_causes(error))));
    if comparison.compared == 0 {
        terminal::complain("error: nothing could be compared: no series is in both, under the same conditions");
    }
    Ok(status.unless_lost(failed.is_empty()))
}

fn side(files: &[PathBuf]) -> anyhow::Result<Side> {
    let mut side = Side::new();
    for file in files {
        // One at a time: what is kept of a run is small, the file need not be.
        let run = input::read_run(file)?;
        side.add(&name(file), &run).with_context(|| file.display().to_string())?;
    }
    Ok(side)
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Shows it in the forms that were asked for, each although another fails. What failed.
fn show(
    args: &CompareArgs,
    comparison: &Comparison,
    judgement: Option<&Judgement>,
    outputs: Outputs,
) -> Vec<anyhow::Error> {
    let mut failed = Vec::new();
    let words = !outputs.takes_stdout();
    for output in outputs.into_all() {
        failed.extend(output.write(|out| Ok(html::write_comparison(comparison, judgement, out)?)).err());
    }
    if words {
        let text = match args.format {
            Form::Text => Ok(text::render(comparison, &terminal::style(args.color))),
            Form::Markdown => Ok(markdown::render(comparison, judgement)),
            Form::Json => serde_json::to_string_pretty(comparison).map(|json| json + "\n"),
        };
        failed.extend(text.map_err(anyhow::Error::from).and_then(|text| terminal::print(&text)).err());
    }
    if let Some(judgement) = judgement {
        terminal::say(&text::judgement(judgement, comparison, &terminal::style_for_notices(args.color)));
    }
    failed
}

fn status(args: &CompareArgs, comparison: &Comparison, judgement: Option<&Judgement>) -> Exit {
    match judgement {
        Some(judgement) if !judgement.failed.is_empty() => Exit::Exceeded,
        Some(judgement) if !judgement.all_kept() && !args.allow_unjudged => Exit::Exceeded,
        Some(_) => Exit::Done,
        None if comparison.compared == 0 => Exit::Failed,
        None => Exit::Done,
    }
}

//! `punctual compare`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use punctual_report::compare::limit::{self, Judgement};
use punctual_report::compare::{Comparison, Options, Side, compare, markdown, text};
use punctual_report::html;

use crate::args::{CompareArgs, Form};
use crate::exit::{BadUsage, Exit};
use crate::output::Target;
use crate::{input, output};

/// Compares, shows, judges.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let (old_files, new_files) = args.sides()?;
    args.check_outputs()?;
    input::check_distinct(&[old_files.as_slice(), &new_files].concat())?;
    let (old, new) = (side(&old_files)?, side(&new_files)?);
    if let Some(started) = old.shared_with(&new) {
        let why = "it would be compared with itself";
        return Err(BadUsage(format!("the run that began at {started} is among old and new runs: {why}")).into());
    }
    let comparison = compare(&old, &new, Options { across_conditions: args.across_conditions });
    let judgement = (!args.fail_if.is_empty()).then(|| limit::evaluate(&args.fail_if, &comparison));
    show(args, &comparison, judgement.as_ref())?;
    Ok(status(args, &comparison, judgement.as_ref()))
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

fn show(args: &CompareArgs, comparison: &Comparison, judgement: Option<&Judgement>) -> anyhow::Result<()> {
    if let Some(target) = &args.html {
        target.write(|out| Ok(html::write_comparison(comparison, judgement, out)?))?;
    }
    match args.format {
        _ if args.html == Some(Target::Stdout) => {}
        Form::Text => output::print(&text::render(comparison, &output::style(args.color)))?,
        Form::Markdown => output::print(&markdown::render(comparison, judgement))?,
        Form::Json => output::print(&(serde_json::to_string_pretty(comparison)? + "\n"))?,
    }
    if let Some(judgement) = judgement {
        output::say(&text::judgement(judgement, comparison, &output::style_for_notices(args.color)));
    }
    Ok(())
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

//! `punctual compare`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use punctual_report::Document;
use punctual_report::compare::{Compared, Options, Side, compare, limit};
use punctual_report::export::{Exporter, Html, Json, Markdown, Text, text};

use crate::args::{CompareArgs, Form, about_nothing};
use crate::exit::{Exit, with_causes};
use crate::output::Outputs;
use crate::refusal::BadUsage;
use crate::{input, terminal};

/// Compares, shows, judges.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Exit> {
    let (old_files, new_files) = args.sides()?;
    let files = [old_files.as_slice(), &new_files].concat();
    input::check_distinct(&files)?;
    let outputs = args.open_outputs(&files)?;
    let (old, new) = (side(&old_files)?, side(&new_files)?);
    if let Some(started) = old.shared_with(&new) {
        let why = "a run cannot be compared with itself";
        return Err(
            BadUsage(format!("invalid runs: the one that began at {started} is an old and a new one: {why}")).into()
        );
    }
    let comparison = compare(&old, &new, Options { across_conditions: args.across_conditions });
    limit::check_subjects(&args.fail_if, &comparison).map_err(|missing| about_nothing(&missing))?;
    let judgement = (!args.fail_if.is_empty()).then(|| limit::evaluate(&args.fail_if, &comparison));
    // Judged before anything is written: a failed write must not hide an exceeded limit.
    let compared = Compared { comparison, judgement };
    let status = status(args, &compared);
    let failed = show(args, &compared, outputs);
    failed.iter().for_each(|error| terminal::complain(&format!("error: {}", with_causes(error))));
    if compared.comparison.compared == 0 {
        terminal::complain("error: nothing could be compared: the runs share no series under the same conditions");
    }
    Ok(status.unless_lost(failed.is_empty()))
}

fn side(files: &[PathBuf]) -> anyhow::Result<Side> {
    let mut side = Side::new();
    for file in files {
        // One at a time: files may be large, the part kept of a run is small.
        let run = input::read_run(file)?;
        side.add(&name(file), &run).with_context(|| file.display().to_string())?;
    }
    Ok(side)
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// Writes every requested form, even if another fails. Returns the errors.
fn show(args: &CompareArgs, compared: &Compared, outputs: Outputs) -> Vec<anyhow::Error> {
    let mut failed = Vec::new();
    let words = !outputs.takes_stdout();
    for output in outputs.into_all() {
        failed.extend(output.write(|out| Ok(Html.write(compared, out)?)).err());
    }
    if words {
        let text = Text(terminal::style(args.color));
        let form: &dyn Exporter<Compared> = match args.format {
            Form::Text => &text,
            Form::Markdown => &Markdown,
            Form::Json => &Json,
        };
        failed.extend(printed(form, compared).err());
    }
    let notices = text::notices(&Document::of_comparison(compared), &terminal::style_for_notices(args.color));
    terminal::say(&notices);
    failed
}

fn printed(form: &dyn Exporter<Compared>, compared: &Compared) -> anyhow::Result<()> {
    let mut text = Vec::new();
    form.write(compared, &mut text)?;
    terminal::print(&String::from_utf8_lossy(&text))
}

fn status(args: &CompareArgs, compared: &Compared) -> Exit {
    match &compared.judgement {
        Some(judgement) if !judgement.failed.is_empty() => Exit::Exceeded,
        Some(judgement) if !judgement.all_kept() && !args.allow_unjudged => Exit::Exceeded,
        Some(_) => Exit::Done,
        None if compared.comparison.compared == 0 => Exit::Failed,
        None => Exit::Done,
    }
}

//! Delivers a run: files, tables, notices. Keeps it in the state folder if no file could be written.

use anyhow::Context as _;
use punctual_record::{Ask, Hint, Notice, Run};
use punctual_report::document::{Level, Paint, Phrase};
use punctual_report::export::{self, text};
use punctual_report::{Document, Style};

use crate::args::{Flags, OutputArgs};
use crate::exit::with_causes;
use crate::output::{Output, Outputs};
use crate::{saved, terminal};

/// The lines of the first screen. A terminal has 24: one is for the prompt, one says where the rest is.
const FIRST_SCREEN_ROWS: usize = 22;

/// Writes every requested output, even if another fails, and prints the errors. Returns whether all were written.
pub(super) fn deliver(run: &Run, wanted: &OutputArgs, outputs: Outputs) -> bool {
    terminal::heed_signals();
    let tables = wanted.tables_on_stderr || !outputs.takes_stdout();
    let tables = tables && !wanted.without_tables && wanted.output.is_none();
    let mut failed = Vec::new();
    let mut kept_by = None;
    let mut page = None;
    for output in outputs.into_all() {
        let (flag, target, stays) = (output.flag, output.target.clone(), output.stays());
        match write(run, output, wanted) {
            Err(error) => failed.push(error),
            // A page holds the whole run; CSV and tables do not.
            Ok(()) if matches!(flag, "--csv" | "--output") => {}
            Ok(()) => {
                kept_by.get_or_insert_with(|| target.to_string());
                page = (flag == "--html" && stays).then_some(target).or(page);
            }
        }
    }
    let last = keep_last(run, wanted);
    let document = Document::of(run);
    if tables && let Err(error) = print(&document, wanted, last) {
        failed.push(error);
    }
    if !wanted.quiet {
        let style = terminal::style_for_notices(wanted.color);
        // The first screen has notes and warnings as a word. Only a condition that did not hold needs its warning.
        let least = match wanted.first_screen {
            true if run.notices.iter().any(is_about_a_condition) => Level::Warning,
            true => Level::Unjudged,
            false => Level::Note,
        };
        let flags = Flags::taken_by(&run.subcommand);
        let shown = document.notices().filter(|phrase| phrase.level >= least);
        let phrases: Vec<Phrase> = shown.map(|phrase| flags.named(phrase)).collect();
        terminal::say(&text::phrases(&phrases, &style));
        if let Some(page) = page {
            terminal::say(&format!("Page: {page} (opens in any browser, offline)\n"));
        }
    }
    failed.iter().for_each(|error| terminal::complain(&format!("error: {}", with_causes(error))));
    match kept_by {
        _ if failed.is_empty() => {}
        Some(place) => {
            terminal::complain(&format!("the run is in {place}; `punctual report` converts it to the other forms"))
        }
        None => keep(run),
    }
    failed.is_empty()
}

fn is_about_a_condition(notice: &Notice) -> bool {
    matches!(notice, Notice::ConditionRefused { .. } | Notice::ConditionNotKept { .. })
}

/// Prints the tables where they belong.
fn print(document: &Document, wanted: &OutputArgs, last: bool) -> anyhow::Result<()> {
    if wanted.tables_on_stderr {
        terminal::say(&laid_out(document, wanted, last, terminal::style_for_notices(wanted.color)));
        return Ok(());
    }
    terminal::print(&laid_out(document, wanted, last, terminal::style(wanted.color)))
}

/// All tables; or the first screen, and where the rest is.
fn laid_out(document: &Document, wanted: &OutputArgs, last: bool, style: Style) -> String {
    if !wanted.first_screen {
        return text::render(document, &style);
    }
    let rest = if last { "punctual report last, or --full" } else { "--full" };
    let rest = style.paint(Paint::Faint, &format!("  All tables: {rest}. Page with charts: --html FILE."));
    format!("{}{rest}\n", text::head(document, &style, FIRST_SCREEN_ROWS))
}

/// Keeps a run that measured something as the last one. Returns whether it did.
fn keep_last(run: &Run, wanted: &OutputArgs) -> bool {
    if wanted.no_keep || (is_empty(run) && run.causes.is_none()) {
        return false;
    }
    let mut json = Vec::new();
    let kept = run.to_json(&mut json).map_err(anyhow::Error::from).and_then(|()| saved::keep_last(&json));
    match &kept {
        // An older run may still be the last.
        Err(error) if !wanted.quiet => {
            terminal::complain(&format!("note: `report last` will not show this run: {}", with_causes(error)));
        }
        Ok((folder, Some(passed_over))) if !wanted.quiet => {
            terminal::complain(&format!("note: the run is kept in {}: {passed_over}", terminal::shown(folder)));
        }
        _ => {}
    }
    kept.is_ok()
}

/// Writes the tables, or the form that the output's flag names.
fn write(run: &Run, output: Output, wanted: &OutputArgs) -> anyhow::Result<()> {
    if output.flag == "--output" {
        let style = terminal::style_for_file(wanted.color);
        let tables = text::render(&Document::of(run), &style);
        return output.write(|out| {
            out.extend(tables.as_bytes());
            Ok(())
        });
    }
    let form = export::of_run(output.flag.trim_start_matches('-'));
    let form = form.with_context(|| format!("{}: no form of a run has this name", output.flag))?;
    output.write(|out| Ok(form.write(run, out)?))
}

/// Keeps a run that no file holds.
fn keep(run: &Run) {
    let mut json = Vec::new();
    let kept = run.to_json(&mut json).map_err(anyhow::Error::from).and_then(|()| saved::keep_unwritten(&json));
    terminal::complain(&match kept {
        Ok(path) => {
            let path = terminal::shown(path);
            format!("the run is kept in {path}; see it with: punctual report {path}")
        }
        Err(error) => format!("error: the run could not be kept either: {}", with_causes(&error)),
    });
}

/// Whether a run has no results.
pub(super) fn is_empty(run: &Run) -> bool {
    run.series.is_empty() && run.paths.is_empty()
}

/// The error for a run without results.
pub(super) fn nothing_measured(run: &Run) -> anyhow::Error {
    let failed = |notice: &Notice| match notice {
        Notice::PartFailed { part, why, .. } => Some((format!("{part}: {why}"), None)),
        _ => None,
    };
    let not_measured = run
        .not_measured
        .iter()
        .map(|missing| (format!("{}: {}", missing.subject, missing.why), missing.remedy.clone()));
    let reasons: Vec<(String, Option<Hint>)> = not_measured.chain(run.notices.iter().filter_map(failed)).collect();
    let Some((why, remedy)) = reasons.first() else {
        let more_time = Flags::taken_by(&run.subcommand).in_hint(Ask::MoreTime);
        return anyhow::anyhow!("nothing was measured; {more_time}, or see the notices above");
    };
    let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    let more = match reasons.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more reason above)".to_owned(),
        n => format!(" (and {n} more reasons above)"),
    };
    anyhow::anyhow!("nothing was measured: {why}{remedy}{more}")
}

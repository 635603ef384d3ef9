//! Delivers a run: files, tables, notices. Keeps it in the state folder if no file could be written.

use anyhow::Context as _;
use punctual_record::Run;
use punctual_report::Document;
use punctual_report::document::Level;
use punctual_report::export::{self, text};

use crate::args::OutputArgs;
use crate::exit::with_causes;
use crate::output::{Output, Outputs};
use crate::{state, stream, terminal};

/// The lines of the first screen: those of a terminal, but one for the prompt.
const FIRST_SCREEN_ROWS: usize = 23;

/// Writes every requested output, even if another fails, and prints the errors. Returns whether all were written.
pub(super) fn deliver(run: &Run, wanted: &OutputArgs, outputs: Outputs) -> bool {
    stream::heed_signals();
    let tables = !outputs.takes_stdout() && !wanted.without_tables;
    let mut failed = Vec::new();
    let mut kept_by = None;
    let mut page = None;
    for output in outputs.into_all() {
        let (flag, target, stays) = (output.flag, output.target.clone(), output.stays());
        match write(run, output) {
            Err(error) => failed.push(error),
            // A page holds the whole run; CSV does not.
            Ok(()) if flag == "--csv" => {}
            Ok(()) => {
                kept_by.get_or_insert_with(|| target.to_string());
                page = (flag == "--html" && stays).then_some(target).or(page);
            }
        }
    }
    let document = Document::of(run);
    let style = terminal::style(wanted.color);
    let laid_out = || match wanted.first_screen {
        true => text::head(&document, &style, FIRST_SCREEN_ROWS),
        false => text::render(&document, &style),
    };
    if tables && let Err(error) = terminal::print(&laid_out()) {
        failed.push(error);
    }
    if !wanted.quiet {
        let style = terminal::style_for_notices(wanted.color);
        // The first screen says in a word what notes and warnings explain.
        let least = if wanted.first_screen { Level::Unjudged } else { Level::Note };
        terminal::say(&text::phrases(document.notices().filter(|phrase| phrase.level >= least), &style));
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

/// Writes the form that the output's flag names.
fn write(run: &Run, output: Output) -> anyhow::Result<()> {
    let form = export::of_run(output.flag.trim_start_matches('-'));
    let form = form.with_context(|| format!("{}: no form of a run has this name", output.flag))?;
    output.write(|out| Ok(form.write(run, out)?))
}

/// Keeps a run that no file holds.
fn keep(run: &Run) {
    let mut json = Vec::new();
    let kept = run.to_json(&mut json).map_err(anyhow::Error::from).and_then(|()| state::keep_unwritten(&json));
    terminal::complain(&match kept {
        Ok(path) => {
            let path = terminal::shown(path);
            format!("the run is kept in {path}; see it with: punctual report {path}")
        }
        Err(error) => format!("error: the run could not be kept either: {}", with_causes(&error)),
    });
}

//! Delivers a run: files, tables, notices. Keeps it in the state folder if no file could be written. And the first screen of a run in the
//! lines of a terminal: the commands that measure print it, and so do `report` and `compare`.

use std::path::PathBuf;

use anyhow::Context as _;
use punctual_record::{Ask, Hint, Notice, Run};
use punctual_report::document::{Block, Level, Paint, Phrase};
use punctual_report::export::{self, text};
use punctual_report::{Document, Style};

use crate::args::{Flags, OutputArgs, Tables};
use crate::exit::with_causes;
use crate::output::{Output, Outputs};
use crate::saved;
use crate::terminal::{self, Color};

/// Writes every requested output, even if another fails, and prints the errors. Returns whether all were written.
pub(super) fn deliver(run: &Run, wanted: &OutputArgs, outputs: Outputs) -> bool {
    terminal::heed_signals();
    let printed = match wanted.tables {
        Tables::Stdout => !outputs.takes_stdout(),
        Tables::Stderr => true,
        Tables::Nowhere => false,
    };
    let tables = printed && wanted.output.is_none();
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
    let kept = keep_last(run, wanted);
    let document = Document::from_run(run);
    let mut beside = kept.note.map_or_else(String::new, |note| format!("punctual: {note}\n"));
    // A file of all tables has no first screen beside it.
    let look = Look { full: wanted.full || !tables, quiet: wanted.quiet, measured_now: true, color: wanted.color };
    let (shown, more) = notices(run, &document, look);
    beside.push_str(&shown);
    if let Some(page) = page {
        beside.push_str(&format!("Page: {page} (opens in any browser, offline)\n"));
    }
    if !wanted.quiet {
        terminal::say(&beside);
    }
    if tables {
        let around = Around { file: kept.file.clone(), flags: FLAGS, more, beside: beside.lines().count() };
        failed.extend(print(&document, wanted, look, &around).err());
    }
    failed.iter().for_each(|error| terminal::complain(&format!("error: {}", with_causes(error))));
    match kept_by {
        _ if failed.is_empty() => {}
        Some(place) => {
            terminal::complain(&format!("the run is in {place}; `punctual report` converts it to the other forms"))
        }
        None => keep(run, kept.file),
    }
    failed.is_empty()
}

/// Prints the tables where they belong.
fn print(document: &Document, wanted: &OutputArgs, look: Look, around: &Around) -> anyhow::Result<()> {
    if wanted.tables == Tables::Stderr {
        terminal::say(&laid_out(document, look, around, terminal::style_for_notices(wanted.color)));
        return Ok(());
    }
    terminal::print(&laid_out(document, look, around, look.style()))
}

/// What shows the rest of a run that is not kept.
pub(super) const FLAGS: &str = "--full. Page with charts: --html FILE.";

/// What became of a run that is to be kept.
#[derive(Default)]
struct Kept {
    file: Option<PathBuf>,
    /// What the reader should know of it.
    note: Option<String>,
}

/// Keeps a run that measured something as the last one.
fn keep_last(run: &Run, wanted: &OutputArgs) -> Kept {
    if wanted.no_keep || (is_empty(run) && run.causes.is_none()) {
        return Kept::default();
    }
    let mut json = Vec::new();
    match run.to_json(&mut json).map_err(anyhow::Error::from).and_then(|()| saved::keep_last(&json)) {
        // An older run may still be the last.
        Err(error) => {
            let note = format!("note: `report last` will not show this run: {}", with_causes(&error));
            Kept { file: None, note: Some(note) }
        }
        Ok((file, passed_over)) => {
            let folder = file.parent().unwrap_or(&file);
            let why = |error| format!("note: the run is kept in {}: {error}", terminal::shown(folder));
            Kept { note: passed_over.map(why), file: Some(file) }
        }
    }
}

/// Writes the tables, or the form that the output's flag names.
fn write(run: &Run, output: Output, wanted: &OutputArgs) -> anyhow::Result<()> {
    if output.flag == "--output" {
        let style = terminal::style_for_file(wanted.color);
        let tables = text::render(&Document::from_run(run), &style);
        return output.write(|out| {
            out.extend(tables.as_bytes());
            Ok(())
        });
    }
    let form = export::of_run(output.flag.trim_start_matches('-'));
    let form = form.with_context(|| format!("{}: no form of a run has this name", output.flag))?;
    output.write(|out| Ok((form.write)(run, out)?))
}

/// Keeps a run that no file of the caller holds, unless it is kept already.
fn keep(run: &Run, already: Option<PathBuf>) {
    let mut json = Vec::new();
    let written = || run.to_json(&mut json).map_err(anyhow::Error::from).and_then(|()| saved::keep_unwritten(&json));
    terminal::complain(&match already.map_or_else(written, Ok) {
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

/// The lines of a terminal that a first screen fills. One is for the prompt.
const SCREEN: usize = 24 - 1;
/// Fewest lines of an answer, however many notices there are.
const LEAST: usize = 12;
/// Most lines that the name of a file may take of a first screen.
const MOST_OF_A_NAME: usize = 3;
/// Most notices above a first screen.
const MOST_NOTICES: usize = 1;

/// How a run is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// All tables instead of the first screen.
    pub(super) full: bool,
    /// Without notices.
    pub(super) quiet: bool,
    /// Without what was said before the run began, which was just now.
    pub(super) measured_now: bool,
    pub(super) color: Color,
}

impl Look {
    /// The style for stdout.
    pub(super) fn style(self) -> Style {
        if self.full { terminal::style_of_tables(self.color) } else { terminal::style(self.color) }
    }
}

/// What stands around a first screen.
pub(super) struct Around {
    /// Where the run is kept.
    pub(super) file: Option<PathBuf>,
    /// The flags of this command that show the rest.
    pub(super) flags: &'static str,
    /// Notices that are not shown.
    pub(super) more: usize,
    /// Lines of text for standard error.
    pub(super) beside: usize,
}

/// The notices, and how many a first screen leaves out. It has notes, and who else was busy. A check-up has warnings as a word, but for a
/// condition that did not hold.
pub(super) fn notices(run: &Run, document: &Document, look: Look) -> (String, usize) {
    let first_screen = !look.full;
    let least = match first_screen {
        true if !run.is_checkup() || run.notices.iter().any(is_about_a_condition) => Level::Warning,
        true => Level::Unjudged,
        false => Level::Note,
    };
    let flags = Flags::taken_by(&run.subcommand);
    let is_said = |phrase: &Phrase| (first_screen && phrase.on_screen) || (look.measured_now && phrase.at_once);
    let all: Vec<&Phrase> = document.notices().filter(|phrase| !is_said(phrase)).collect();
    let most = if first_screen { MOST_NOTICES } else { usize::MAX };
    let shown: Vec<&Phrase> = all.iter().copied().filter(|phrase| phrase.level >= least).take(most).collect();
    let more = if first_screen && !run.is_checkup() { all.len() - shown.len() } else { 0 };
    let shown: Vec<Phrase> = shown.into_iter().map(|phrase| flags.named(phrase)).collect();
    (text::phrases(&shown, &terminal::style_for_notices(look.color)), more)
}

fn is_about_a_condition(notice: &Notice) -> bool {
    matches!(notice, Notice::ConditionRefused { .. } | Notice::ConditionNotKept { .. })
}

/// All tables; or the first screen, and where the rest is.
pub(super) fn laid_out(document: &Document, look: Look, around: &Around, style: Style) -> String {
    if look.full {
        return text::render(document, &style);
    }
    let mut blocks = document.chapters.iter().flat_map(|chapter| &chapter.sections).flat_map(|section| &section.blocks);
    let (rest, lines) = match blocks.any(|block| matches!(block, Block::Table(_))) {
        true => where_the_rest_is(around, &style),
        false => (String::new(), 0),
    };
    // A terminal that shows both streams has both in its lines.
    let taken = if terminal::has_both() && !look.quiet { around.beside } else { 0 };
    let rows = SCREEN.saturating_sub(lines + taken).max(LEAST);
    format!("{}{}", text::head(document, &style, rows), style.paint(Paint::Faint, &rest))
}

/// `All tables: punctual report --full FILE`, and the lines of a terminal that it takes. The command has a line of its own where both do
/// not fit. The name is not broken, so that it can be copied; a very long one would fill the screen.
fn where_the_rest_is(around: &Around, style: &Style) -> (String, usize) {
    let all = match around.more {
        0 => "All tables".to_owned(),
        1 => "All tables and 1 more notice".to_owned(),
        more => format!("All tables and {more} more notices"),
    };
    // As many lines as with a file, so that a saved run has the screen that its command gave.
    let Some(file) = &around.file else { return (format!("  {all}: {}\n", around.flags), 2) };
    let named = |name: &str| {
        let line = format!("  {all}: punctual report --full {name}");
        let fits = line.chars().count() <= style.columns();
        if fits { line } else { format!("  {all}:\n  punctual report --full {name}") }
    };
    let lines = |text: &str| text.lines().map(|line| line.chars().count().div_ceil(style.columns())).sum::<usize>();
    let whole = Some(named(&terminal::typed(file))).filter(|text| lines(text) <= MOST_OF_A_NAME);
    let text = whole.unwrap_or_else(|| named("last"));
    let taken = lines(&text) + 1;
    (format!("{text}\n  Page with charts: --html -o FILE instead of --full.\n"), taken)
}

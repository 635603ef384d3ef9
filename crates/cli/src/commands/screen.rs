//! The first screen of a run in the lines of a terminal: the commands that measure print it, and so does `report`.
//!
//! Input: a run, its document, and how it is to be looked at. Output: text for standard output, and the notices that go beside it.

use std::path::PathBuf;

use punctual_record::{Notice, Run};
use punctual_report::document::{Block, Level, Paint, Phrase};
use punctual_report::export::text;
use punctual_report::{Document, Style};

use crate::args::Flags;
use crate::terminal::{self, Color};

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

//! The report of a run or a comparison as data: a [`Document`] of chapters, sections and blocks.
//!
//! It is built once, in Unicode, without a width or colours ([`Document::from_run`], [`Document::of_comparison`]); the
//! exporters ([`crate::export`]) lay it out. This module is independent of the experiments: every family builds its sections
//! from the same few blocks.
//!
//! Blocks hold sanitized text. A no-break space keeps a number and its unit on one line; it is printed as an ordinary
//! space.

pub(crate) mod machine;
pub mod notice;
mod picture;
mod table;

use punctual_record::Hint;

use crate::format::sentence;

pub use picture::{Album, Axis, Form, Line, Picture, Point, Scale};
pub(crate) use picture::{ends, sorted};
pub(crate) use table::Columns;
pub use table::{Align, Column, Ranking, Row, Table};

/// A whole report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// What it is of: the question, the machine and the date.
    pub title: String,
    /// The command line that it answers; empty where the title says it.
    pub command: String,
    /// When, for how long, and with what it was measured; empty where the lead says it.
    pub made: String,
    /// The first screen: the answer, one table, what to do, how far to trust it.
    pub head: Vec<Section>,
    /// The introduction: the machine, the merged runs, whether the run is complete.
    pub lead: Vec<Section>,
    /// The rest, in reading order.
    pub chapters: Vec<Chapter>,
}

/// Sections with an entry among the contents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chapter {
    /// Its title. A section with the same heading shows it once.
    pub title: String,
    /// Its sections.
    pub sections: Vec<Section>,
}

impl Chapter {
    /// A chapter of one section, whose heading is its title.
    #[must_use]
    pub fn from_section(section: Section) -> Self {
        Self { title: section.heading.clone(), sections: vec![section] }
    }
}

impl Document {
    /// All sections in reading order.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        let chapters = self.chapters.iter().flat_map(|chapter| &chapter.sections);
        self.head.iter().chain(&self.lead).chain(chapters)
    }

    /// All notices.
    pub fn notices(&self) -> impl Iterator<Item = &Phrase> {
        let blocks = self.sections().flat_map(|section| &section.blocks);
        blocks.filter_map(|block| if let Block::Notices(all) = block { Some(all) } else { None }).flatten()
    }
}

/// A heading and what stands under it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// One line, wrapped where it is too long; empty: no heading.
    pub heading: String,
    /// What stands under it, with no empty lines between, except before a heading.
    pub blocks: Vec<Block>,
    /// Detail that few readers need: Markdown folds it away.
    pub folded: bool,
    /// Whether more rounds may change its sentences.
    pub undecided: bool,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A table.
    Table(Table),
    /// Sentences that explain the table before, in faint text.
    Legend(Vec<Note>),
    /// Sentences, as one paragraph.
    Paragraph(String),
    /// A caveat that stands before the figures.
    Warning(String),
    /// The subject of the report, without indentation.
    Line(String),
    /// Names and facts, in two columns.
    Facts(Vec<(String, String)>),
    /// Items, each with its mark.
    Items(Vec<Item>),
    /// Items, numbered from 1.
    Numbered(Vec<Item>),
    /// Pictures.
    Album(Album),
    /// Notices; a terminal gets them on standard error.
    Notices(Vec<Phrase>),
}

/// A sentence of a legend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The heading of the column that it explains, a joined one after that of its owner. It goes when that one goes.
    pub column: Option<&'static str>,
    /// The sentence.
    pub text: String,
}

impl Note {
    /// A sentence that is always shown.
    #[must_use]
    pub fn always(text: impl Into<String>) -> Self {
        Self { column: None, text: text.into() }
    }

    /// A sentence that explains a column.
    #[must_use]
    pub fn on(column: &'static str, text: impl Into<String>) -> Self {
        Self { column: Some(column), text: text.into() }
    }
}

/// An item of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    /// What it says.
    pub text: String,
    /// The exact line of code or the command, never wrapped. It may have several lines.
    pub code: Option<String>,
    /// What stands for it where there is no room; empty: nothing does.
    pub name: String,
    /// Whether more rounds may change it.
    pub undecided: bool,
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Block {
    /// Sentences, an item each.
    pub(crate) fn said(texts: impl IntoIterator<Item = String>) -> Self {
        Self::Items(texts.into_iter().map(Item::from).collect())
    }
}

impl Section {
    /// A section with a heading and nothing under it yet.
    #[must_use]
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Marks the sentences and the items that more rounds may change.
    pub(crate) fn mark_undecided(&mut self) {
        let mark = |text: &mut String| text.insert_str(0, "? ");
        for block in &mut self.blocks {
            match block {
                Block::Line(text) if self.undecided => mark(text),
                Block::Numbered(items) => {
                    items.iter_mut().filter(|item| item.undecided).for_each(|item| mark(&mut item.text));
                }
                _ => {}
            }
        }
    }

    /// Adds a block.
    #[must_use]
    pub fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

/// The severity of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Good to know; the figures stand.
    Note,
    /// The figures do not mean what was requested, or are less certain than they look.
    Warning,
    /// A limit could not be judged.
    Unjudged,
    /// Something failed and needs attention.
    Failure,
    /// A limit is exceeded.
    Exceeded,
}

impl Level {
    /// `note`, `warning`, `unjudged`, `failure` or `exceeded`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Unjudged => "unjudged",
            Self::Failure => "failure",
            Self::Exceeded => "exceeded",
        }
    }
}

/// A notice in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// How much it matters.
    pub level: Level,
    /// One or two sentences.
    pub text: String,
    /// The remedy, if there is one.
    pub remedy: Option<Hint>,
    /// Whether the first screen says it: who else was busy, what could not be tried.
    pub on_screen: bool,
    /// Whether it was said before the run began: who measures has read it.
    pub at_once: bool,
}

impl Phrase {
    /// A phrase without a remedy.
    pub(crate) fn new(level: Level, text: String) -> Self {
        Self { level, text, remedy: None, on_screen: false, at_once: false }
    }

    pub(super) fn note(text: String) -> Self {
        Self::new(Level::Note, text)
    }

    pub(super) fn warning(text: String) -> Self {
        Self::new(Level::Warning, text)
    }

    pub(super) fn failure(text: String) -> Self {
        Self::new(Level::Failure, text)
    }

    /// Adds a remedy; an empty one is ignored.
    pub(crate) fn remedy(mut self, remedy: impl Into<Hint>) -> Self {
        self.remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty()).map(with_stop);
        self
    }
}

/// A hint with a full stop, unless it ends a sentence already.
fn with_stop(hint: Hint) -> Hint {
    let text = hint.to_string();
    let stop = sentence(&text).split_off(text.trim_end().len());
    hint.and(stop)
}

/// The role of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Ordinary text.
    Plain,
    /// A heading.
    Heading,
    /// Less important text: legends, rows that do not fulfil the request.
    Faint,
    /// A subject's name.
    Name,
    /// A warning.
    Warning,
    /// A failure.
    Failure,
}

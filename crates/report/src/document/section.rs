//! A section of a document: a heading with blocks. Every family of experiments builds its sections from the same few
//! blocks.
//!
//! Blocks hold sanitized text. A no-break space keeps a number and its unit on one line; it is printed as an ordinary
//! space.

use super::{Album, Phrase, Table};

/// A heading and what stands under it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// One line, wrapped where it is too long; empty: no heading.
    pub heading: String,
    /// What stands under it, with no empty lines between, except before a heading.
    pub blocks: Vec<Block>,
    /// Detail that few readers need: Markdown folds it away.
    pub folded: bool,
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
}

impl From<String> for Item {
    fn from(text: String) -> Self {
        Self { text, code: None }
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

    /// Adds a block.
    #[must_use]
    pub fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

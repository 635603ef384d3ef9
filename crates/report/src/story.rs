//! What is told of a run, before it is text: a [`Story`] of [`Section`]s. Every family of experiments makes its own
//! sections out of the same few blocks, and only this module turns blocks into lines.
//!
//! Blocks hold text that is already neutralised. A no-break space keeps a number and its unit on one line; it is printed
//! as an ordinary space.

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

use crate::style::{Paint, Style};
use crate::table::Table;

/// Sections in the order in which they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Story {
    /// The sections.
    pub sections: Vec<Section>,
}

/// A heading and what stands under it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    /// One line, wrapped where it is too long; empty: no heading.
    pub heading: String,
    /// What stands under it, with no empty lines between, except before a heading.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A table with its drawings; columns that found no room are named below it.
    Table(Table),
    /// Sentences that explain the table before, in faint text.
    Legend(Vec<Note>),
    /// Sentences, as one paragraph.
    Paragraph(String),
    /// What the report is about, from the left edge.
    Line(String),
    /// Names and what is to be said of each, in two columns.
    Facts(Vec<(String, String)>),
    /// Items, each with its mark.
    Items(Vec<Item>),
    /// Lines that are drawn within the style's columns already.
    Drawing(String),
}

/// A sentence of a legend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The column that it explains, as [`crate::table::Rendered::dropped`] names it: it goes when that one goes.
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
    /// The exact line of code or the command, on a line of its own that is never wrapped; several where it holds line ends.
    pub code: Option<String>,
}

impl Story {
    /// The story as text, with an empty line between sections and one line end at the end.
    #[must_use]
    pub fn render(&self, style: &Style) -> String {
        let mut dropped = Vec::new();
        let sections: Vec<String> = self.sections.iter().map(|section| section.render(&mut dropped, style)).collect();
        sections.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

impl Section {
    /// A section with a heading and nothing under it yet.
    #[must_use]
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), blocks: Vec::new() }
    }

    /// Adds a block.
    #[must_use]
    pub fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    fn render(&self, dropped: &mut Vec<String>, style: &Style) -> String {
        let mut out = String::new();
        if !self.heading.is_empty() {
            for line in self.heading.lines() {
                out.push_str(&heading(line, style));
            }
        }
        for block in &self.blocks {
            out.push_str(&block.render(dropped, style));
        }
        out
    }
}

/// A heading, wrapped where it is too long.
fn heading(line: &str, style: &Style) -> String {
    let options = Options::new(style.columns()).subsequent_indent("  ").word_splitter(WordSplitter::NoHyphenation);
    // A number stays with what it counts or names.
    let line =
        ["CPU ", "CPUs ", "slack "].iter().fold(line.to_owned(), |line, name| line.replace(name, &unbroken(name)));
    let line = [" ns", " µs", " us", " ms"].iter().fold(line, |line, unit| line.replace(unit, &unbroken(unit)));
    let wrapped = textwrap::wrap(&line, options);
    let ended = |line: &std::borrow::Cow<'_, str>| {
        let line = line.replace('\u{a0}', " ");
        format!("{}\n", style.paint(Paint::Heading, line.trim_end()))
    };
    wrapped.iter().map(ended).collect()
}

impl Block {
    /// The block as text. `dropped`: the columns that the table before found no room for; the same ones are not named twice.
    fn render(&self, dropped: &mut Vec<String>, style: &Style) -> String {
        match self {
            Self::Table(table) => {
                let rendered = table.render(style);
                let mut text = rendered.text;
                if !rendered.dropped.is_empty() && rendered.dropped != *dropped {
                    let names: Vec<String> = rendered.dropped.iter().map(|name| unbroken(name)).collect();
                    let note = format!("Not shown for want of width: {} (--json has everything).", names.join(", "));
                    text.push_str(&paragraph(&note, "  ", "  ", Paint::Faint, style));
                }
                *dropped = rendered.dropped;
                text
            }
            Self::Legend(notes) => {
                let shown = |note: &&Note| !dropped.iter().any(|column| note.column == Some(column.as_str()));
                let text: Vec<&str> = notes.iter().filter(shown).map(|note| note.text.as_str()).collect();
                paragraph(&text.join(" "), "  ", "  ", Paint::Faint, style)
            }
            Self::Paragraph(text) => paragraph(text, "  ", "  ", Paint::Plain, style),
            Self::Line(text) => paragraph(text, "", "  ", Paint::Heading, style),
            Self::Facts(facts) => facts_text(facts, style),
            Self::Items(items) => items.iter().map(|item| item.render(style)).collect(),
            Self::Drawing(text) => text.clone(),
        }
    }
}

impl Item {
    fn render(&self, style: &Style) -> String {
        let first = format!("  {}", style.bullet());
        let mut out = paragraph(&self.text, &first, "    ", Paint::Plain, style);
        for line in self.code.iter().flat_map(|code| code.lines()) {
            out.push_str("      ");
            out.push_str(&style.paint(Paint::Name, line));
            out.push('\n');
        }
        out
    }
}

fn facts_text(facts: &[(String, String)], style: &Style) -> String {
    let widest = facts.iter().map(|(name, _)| display_width(name)).max().unwrap_or(0);
    let margin = " ".repeat(widest + 4);
    let line = |(name, fact): &(String, String)| {
        let first = format!("  {name}{}  ", " ".repeat(widest - display_width(name)));
        paragraph(fact, &first, &margin, Paint::Plain, style)
    };
    facts.iter().map(line).collect()
}

/// Text wrapped to the style's columns (to 100 at most, for the eye), each line ended.
pub(crate) fn paragraph(text: &str, first: &str, rest: &str, paint: Paint, style: &Style) -> String {
    const READABLE: usize = 100;
    if text.trim().is_empty() {
        return String::new();
    }
    let options = Options::new(style.columns().min(READABLE))
        .initial_indent(first)
        .subsequent_indent(rest)
        .word_splitter(WordSplitter::NoHyphenation);
    let mut out = String::new();
    for line in textwrap::wrap(text, options) {
        out.push_str(&style.paint(paint, line.replace('\u{a0}', " ").trim_end()));
        out.push('\n');
    }
    out
}

/// Text whose words stay on one line: every space in it becomes a no-break space.
#[must_use]
pub fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

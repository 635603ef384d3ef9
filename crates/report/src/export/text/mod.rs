//! A document as text for a terminal: wrapped, in as many columns of a table as fit, with drawings in letters.
//!
//! Notices are not in it: tables go to standard output and notices to standard error ([`notices`]).

mod blocks;
mod chart;
pub mod list;
mod map;
mod screen;
mod style;
mod table;

use std::io::Write;

use crate::document::{Block, Document, Level, Paint, Phrase, Section};
use crate::export::exporter::{Error, Exporter, Reported};
use style::paragraph;

pub(super) use blocks::in_letters;
pub use style::Style;

/// Text in this style.
#[derive(Debug, Clone, Copy)]
pub struct Text(pub Style);

impl<T: Reported> Exporter<T> for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn about(&self) -> &'static str {
        "All tables, as text"
    }

    fn is_for_people(&self) -> bool {
        true
    }

    fn write(&self, subject: &T, out: &mut dyn Write) -> Result<(), Error> {
        Ok(out.write_all(render(&subject.document(false), &self.0).as_bytes())?)
    }
}

/// The document as text, each line ended, none wider than the style says (but for a long word).
#[must_use]
pub fn render(document: &Document, style: &Style) -> String {
    let source = source(document);
    let (head, rest) = (document.head.iter(), document.sections().skip(document.head.len()));
    sections(head.chain(&source).chain(rest), style)
}

/// When a run was measured, and by which command line: text is kept, and pasted elsewhere.
fn source(document: &Document) -> Option<Section> {
    let command = Some(&document.command).filter(|command| !command.is_empty());
    let known =
        [Some(&document.made).filter(|made| !made.is_empty()).cloned(), command.map(|line| format!("Command: {line}"))];
    let text = known.into_iter().flatten().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then(|| Section::default().with(Block::Paragraph(text)))
}

/// The first screen as text, in at most `rows` lines where possible.
#[must_use]
pub fn head(document: &Document, style: &Style, rows: usize) -> String {
    screen::fitted(document, style, rows)
}

/// The same while more is measured: what further rounds may change is marked.
#[must_use]
pub fn unfinished(document: &Document, style: &Style, rows: usize) -> String {
    let mut head = document.clone();
    head.head.iter_mut().for_each(Section::mark_undecided);
    if let Some(last) = head.head.last_mut() {
        last.blocks.push(Block::Paragraph(MARKED.to_owned()));
    }
    screen::fitted(&head, style, rows)
}

/// What the mark means.
const MARKED: &str = "Measuring goes on. ? marks what it may still change. Ctrl-C ends it and keeps what is here.";

/// Sections as text, with an empty line between them and one line end at the end.
#[must_use]
pub fn sections<'a>(sections: impl IntoIterator<Item = &'a Section>, style: &Style) -> String {
    let mut dropped = Vec::new();
    let texts = sections.into_iter().map(|section| blocks::section(section, &mut dropped, style));
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// All notices, one paragraph each; empty when there are none. For standard error.
#[must_use]
pub fn notices(document: &Document, style: &Style) -> String {
    phrases(document.notices(), style)
}

/// Notices, one paragraph each, for standard error.
#[must_use]
pub fn phrases<'a>(phrases: impl IntoIterator<Item = &'a Phrase>, style: &Style) -> String {
    phrases.into_iter().map(|phrase| notice(phrase, style)).collect()
}

fn notice(phrase: &Phrase, style: &Style) -> String {
    let paint = match phrase.level {
        Level::Note => Paint::Faint,
        Level::Warning | Level::Unjudged => Paint::Warning,
        Level::Failure | Level::Exceeded => Paint::Failure,
    };
    let mut text = format!("{}: {}", phrase.level.word(), phrase.text);
    if let Some(remedy) = &phrase.remedy {
        text.push_str(&format!(" Remedy: {remedy}"));
    }
    paragraph(&with_units(&text), "", "  ", paint, style)
}

/// Numbers kept on one line with their units.
fn with_units(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out = String::with_capacity(text.len());
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            let number = words[i - 1].ends_with(|c: char| c.is_ascii_digit());
            let unit = ["ns", "µs", "us", "ms", "s", "%"].contains(&word.trim_end_matches(['.', ',', ':']));
            out.push(if number && unit { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
    out
}

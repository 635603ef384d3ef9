//! A document as text for a terminal: wrapped, in as many columns of a table as fit, with drawings in letters.
//!
//! The first screen fits the terminal. Where it has more lines, advice, rows of tables and sentences are left out by turns, the least
//! important first. It names the advice that it leaves out, and counts the rows of ranked tables. Notices are not in the text: tables
//! go to standard output and notices to standard error ([`notices`]).

mod blocks;
mod letters;
pub mod list;
mod style;
mod table;

use std::io::Write;

use crate::document::{Block, Document, Level, Note, Paint, Phrase, Section};
use crate::export::exporter::{Error, Reported};
use crate::export::text::blocks::of_first_screen;
use crate::export::text::style::paragraph;

pub(super) use letters::in_letters;
pub use style::Style;

/// Writes all tables as plain text.
pub(super) fn write<T: Reported>(subject: &T, out: &mut dyn Write) -> Result<(), Error> {
    Ok(out.write_all(render(&subject.document(false), &Style::PLAIN).as_bytes())?)
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
    let mut screen = Screen { head: document.head.clone(), also: Vec::new(), tight: false };
    for cut in CUTS {
        loop {
            let text = screen.text(style);
            if text.lines().count() <= rows {
                return text;
            }
            if cut(&mut screen).is_none() {
                break;
            }
        }
    }
    screen.text(style)
}

/// The same while more is measured: what further rounds may change is marked.
#[must_use]
pub fn unfinished(document: &Document, style: &Style, rows: usize) -> String {
    let mut head = document.clone();
    head.head.iter_mut().for_each(Section::mark_undecided);
    if let Some(last) = head.head.last_mut() {
        last.blocks.push(Block::Paragraph(MARKED.to_owned()));
    }
    self::head(&head, style, rows)
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

/// Leaves out one thing of a kind. Returns whether there was one.
type Cut = fn(&mut Screen) -> Option<()>;

/// What a first screen can do without, in this order.
const CUTS: [Cut; 15] = [
    |screen| screen.one_row_less(8),
    |screen| screen.one_advice_less(2),
    |screen| screen.one_row_less(5),
    Screen::no_detail,
    |screen| screen.one_sentence_less(6),
    |screen| screen.one_row_less(4),
    Screen::no_machine,
    |screen| screen.one_advice_less(1),
    |screen| screen.one_sentence_less(4),
    |screen| screen.one_row_less(3),
    |screen| screen.one_sentence_less(2),
    |screen| screen.one_row_less(1),
    Screen::no_space,
    Screen::no_code,
    Screen::no_last_block,
];

struct Screen {
    head: Vec<Section>,
    /// The names of the advice that is left out.
    also: Vec<String>,
    /// Whether empty lines are left out.
    tight: bool,
}

impl Screen {
    fn text(&self, style: &Style) -> String {
        let mut all = String::new();
        for section in &self.head {
            let text = of_first_screen(section, style);
            let joined = all.is_empty() || text.is_empty() || (self.tight && section.heading.is_empty());
            all.push_str(if joined { "" } else { "\n" });
            all.push_str(&text);
        }
        all
    }

    /// All blocks, the last one first.
    fn blocks(&mut self) -> impl Iterator<Item = &mut Block> {
        self.head.iter_mut().rev().flat_map(|section| section.blocks.iter_mut().rev())
    }

    /// Of the last table that has more rows.
    fn one_row_less(&mut self, least: usize) -> Option<()> {
        let is_less =
            |block: &mut Block| if let Block::Table(table) = block { table.leave_one_out(least) } else { false };
        self.blocks().any(is_less).then_some(())
    }

    fn one_advice_less(&mut self, least: usize) -> Option<()> {
        let advice = |block: &Block| matches!(block, Block::Numbered(items) if items.len() > least);
        let mut blocks = self.head.iter_mut().map(|section| &mut section.blocks);
        let blocks = blocks.find(|blocks| blocks.iter().any(advice))?;
        let at = blocks.iter().position(advice)?;
        let Block::Numbered(items) = &mut blocks[at] else { return None };
        self.also.splice(0..0, items.pop().map(|item| item.name));
        let names = Block::Legend(vec![Note::always(format!("Also: {}.", self.also.join(", ")))]);
        match self.also.len() {
            1 => blocks.insert(at + 1, names),
            _ => blocks[at + 1] = names,
        }
        Some(())
    }

    /// The answer is the last section of sentences: that of limits is before it.
    fn one_sentence_less(&mut self, least: usize) -> Option<()> {
        let line = |block: &Block| matches!(block, Block::Line(_));
        let answer = self.head.iter_mut().rfind(|section| section.blocks.iter().any(line))?;
        let lines = answer.blocks.iter().filter(|block| line(block)).count();
        let last = answer.blocks.iter().rposition(line).filter(|_| lines > least)?;
        answer.blocks.remove(last);
        Some(())
    }

    /// The last section begins with the trust in a word and its first reason; what else decides it follows.
    fn no_detail(&mut self) -> Option<()> {
        let last = &mut self.head.last_mut()?.blocks;
        let detail = |pair: &[Block]| matches!(pair, [Block::Paragraph(_), Block::Legend(_), ..]);
        detail(last).then(|| last.remove(1)).map(drop)
    }

    /// Empty lines stand before headings only.
    fn no_space(&mut self) -> Option<()> {
        (!std::mem::replace(&mut self.tight, true)).then_some(())
    }

    /// The first code of advice.
    fn no_code(&mut self) -> Option<()> {
        let blocks = self.head.iter_mut().flat_map(|section| &mut section.blocks);
        let items = blocks.filter_map(|block| if let Block::Numbered(items) = block { Some(items) } else { None });
        items.flatten().find_map(|item| item.code.take()).map(drop)
    }

    /// What stands last; the first sentences of the last section stay.
    fn no_last_block(&mut self) -> Option<()> {
        let last = &mut self.head.last_mut()?.blocks;
        if last.len() > 1 { last.pop().map(drop) } else { None }
    }

    /// The machine is what stands above the table of figures.
    fn no_machine(&mut self) -> Option<()> {
        let named = |section: &&mut Section| {
            matches!(section.blocks.as_slice(), [Block::Paragraph(_), Block::Table(_), ..])
                && section.heading.is_empty()
        };
        self.head.iter_mut().find(named)?.blocks.remove(0);
        Some(())
    }
}

//! A run as Markdown (GitHub's dialect, for its tables), for a pull request, a ticket or a wiki.
//!
//! The words and tables are those of the text report; below them stand the notices. Nothing in a run becomes markup: what Markdown or HTML would read
//! is escaped, mentions (`@name`) included.

use std::io::{self, Write};

use punctual_record::Run;

use crate::notice::{self, Phrase};
use crate::plain::plain;
use crate::story::{Block, Item, Section};
use crate::style::Style;
use crate::table::{Align, Row, Table};
use crate::text;

/// Writes the run.
///
/// # Errors
/// What the writer reports.
pub fn write(run: &Run, mut writer: impl Write) -> io::Result<()> {
    let style = Style { width: 160, color: false, unicode: true };
    let command: Vec<String> = run.command.iter().map(|word| plain(word, &style)).collect();
    writeln!(writer, "# {}\n", escaped(&command.join(" ")))?;
    let seconds = run.elapsed_ns as f64 / 1e9;
    let tool = escaped(&plain(&format!("{} {}", run.tool.name, run.tool.version), &style));
    writeln!(writer, "Measured {:.0} for {seconds:.1} s with {tool}.\n", run.started)?;
    for section in &text::story(run, &style).sections {
        writer.write_all(self::section(section).as_bytes())?;
    }
    let mut phrases: Vec<Phrase> = run.notices.iter().map(notice::phrase).collect();
    phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.level));
    phrases.dedup();
    if !phrases.is_empty() {
        writeln!(writer, "## Notices\n")?;
    }
    for phrase in &phrases {
        let remedy = phrase.remedy.as_deref().map_or(String::new(), |remedy| format!(" Remedy: {remedy}"));
        let text = escaped(&plain(&format!("{}{remedy}", phrase.text), &style));
        writeln!(writer, "- **{}**: {text}", phrase.level.word())?;
    }
    writer.flush()
}

fn section(section: &Section) -> String {
    let mut out = String::new();
    if !section.heading.is_empty() {
        out.push_str(&format!("## {}\n\n", escaped(&section.heading)));
    }
    for block in &section.blocks {
        out.push_str(&self::block(block));
        out.push('\n');
    }
    out
}

fn block(block: &Block) -> String {
    match block {
        Block::Table(table) => self::table(table),
        Block::Legend(notes) => {
            let text: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
            format!("<sub>{}</sub>\n", escaped(&text.join(" ")))
        }
        Block::Paragraph(text) => format!("{}\n", escaped(text)),
        Block::Drawing(text) => format!("```\n{}\n```\n", text.trim_end()),
        Block::Line(text) => format!("**{}**\n", escaped(text)),
        Block::Facts(facts) => {
            facts.iter().map(|(name, fact)| format!("- {}: {}\n", escaped(name), escaped(fact))).collect()
        }
        Block::Items(items) => items.iter().map(item).collect(),
    }
}

fn item(item: &Item) -> String {
    let mut out = format!("- {}\n", escaped(&item.text));
    if let Some(code) = &item.code {
        let fence = "`".repeat(longest_ticks(code).max(2) + 1);
        out.push_str(&format!("\n  {fence}\n"));
        code.lines().for_each(|line| out.push_str(&format!("  {line}\n")));
        out.push_str(&format!("  {fence}\n\n"));
    }
    out
}

/// The most back ticks in a row: a fence has to be longer.
fn longest_ticks(code: &str) -> usize {
    code.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A table with all its columns. A line that heads rows becomes a row with its first cell set in italics.
fn table(table: &Table) -> String {
    // A drawing made of characters needs letters of one width, which a Markdown table has not.
    let drawn: Vec<usize> = (0..table.columns.len()).filter(|i| table.columns[*i].heading != "distribution").collect();
    let mut out = String::new();
    let mut line = |cells: Vec<String>| out.push_str(&format!("| {} |\n", cells.join(" | ")));
    line(drawn.iter().map(|i| escaped(&table.columns[*i].heading)).collect());
    let rule = |i: &usize| if table.columns[*i].align == Align::Right { "---:" } else { "---" }.to_owned();
    line(drawn.iter().map(rule).collect());
    for row in &table.rows {
        match row {
            Row::Cells(cells, _) => {
                line(drawn.iter().map(|&i| cells.get(i).map_or(String::new(), |cell| escaped(cell))).collect());
            }
            Row::Label(label) => {
                let mut cells = vec![String::new(); drawn.len()];
                if let Some(first) = cells.first_mut() {
                    *first = format!("*{}*", escaped(label));
                }
                line(cells);
            }
        }
    }
    out
}

/// Text that Markdown shows as it is.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let within_word = before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        before = c;
        match c {
            // Within a word it is no mark in GitHub's dialect.
            '_' if within_word => out.push(c),
            '\u{a0}' => out.push(' '),
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A backslash does not keep a mention from being one.
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '$' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

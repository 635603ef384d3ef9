//! A document as Markdown (GitHub's dialect, for its tables), for a pull request, a ticket or a wiki.
//!
//! Text of a document never becomes markup: Markdown and HTML characters are escaped, including mentions (`@name`) and
//! links. Of the pictures, it contains those that can be drawn in letters.

use std::io::Write;

use crate::document::{Album, Align, Block, Column, Document, Item, Phrase, Row, Section, Table};

use super::text::{self, Style};
use crate::export::exporter::{Error, Reported};

/// Writes Markdown.
///
/// # Errors
/// Errors of the writer.
pub fn write<T: Reported>(subject: &T, out: &mut dyn Write) -> Result<(), Error> {
    // A comparison stands below the headings of the pull request that it is a comment to.
    let level = if subject.run().is_some() { "#" } else { "###" };
    let document = &subject.document(false);
    writeln!(out, "{level} {}\n", escaped(&document.title))?;
    for line in [&document.command, &document.made].into_iter().filter(|line| !line.is_empty()) {
        writeln!(out, "{}\n", escaped(line))?;
    }
    let hidden = hidden(document);
    for section in document.sections() {
        out.write_all(self::section(section, level, &hidden).as_bytes())?;
    }
    Ok(out.flush()?)
}

/// The headings of columns of drawings: a Markdown table has no letters of one width.
fn hidden(document: &Document) -> Vec<&str> {
    let blocks = document.sections().flat_map(|section| &section.blocks);
    let tables = blocks.filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
    let drawn = tables.flat_map(|table| &table.columns).filter(|column| column.align == Align::Drawn);
    drawn.map(|column| column.heading.as_ref()).collect()
}

fn section(section: &Section, level: &str, hidden: &[&str]) -> String {
    let texts = section.blocks.iter().map(|content| block(content, hidden)).filter(|text| !text.is_empty());
    let body: String = texts.map(|text| text + "\n").collect();
    let heading = escaped(&section.heading);
    match section {
        _ if body.is_empty() => body,
        _ if heading.is_empty() => body,
        Section { folded: true, .. } => format!("<details><summary>{heading}</summary>\n\n{body}</details>\n\n"),
        _ => format!("{level}# {heading}\n\n{body}"),
    }
}

fn block(block: &Block, hidden: &[&str]) -> String {
    match block {
        Block::Table(content) => table(content),
        Block::Legend(notes) => {
            let shown = notes.iter().filter(|note| !note.column.is_some_and(|column| hidden.contains(&column)));
            let text = shown.map(|note| note.text.as_str()).collect::<Vec<_>>().join(" ");
            if text.is_empty() { text } else { format!("<sub>{}</sub>\n", escaped(&text)) }
        }
        Block::Paragraph(text) => format!("{}\n", escaped(text)),
        Block::Warning(text) | Block::Line(text) => format!("**{}**\n", escaped(text)),
        Block::Facts(facts) => {
            facts.iter().map(|(name, fact)| format!("- {}: {}\n", escaped(name), escaped(fact))).collect()
        }
        Block::Items(items) => items.iter().map(|content| item("-", content)).collect(),
        Block::Numbered(items) => (1..).zip(items).map(|(n, content)| item(&format!("{n}."), content)).collect(),
        Block::Album(content) => album(content),
        Block::Notices(phrases) => phrases.iter().map(notice).collect(),
    }
}

fn album(album: &Album) -> String {
    let style = Style { width: 160, color: false, unicode: true };
    let drawn = album.pictures.iter().map(|(_, picture)| text::in_letters(picture, &style));
    drawn.filter(|text| !text.is_empty()).map(|text| format!("```\n{}\n```\n", text.trim_end())).collect()
}

fn notice(phrase: &Phrase) -> String {
    let remedy = phrase.remedy.as_ref().map_or(String::new(), |remedy| format!(" Remedy: {remedy}"));
    format!("- **{}**: {}\n", phrase.level.word(), escaped(&format!("{}{remedy}", phrase.text)))
}

fn item(mark: &str, item: &Item) -> String {
    let mut out = format!("{mark} {}\n", escaped(&item.text));
    if let Some(code) = &item.code {
        // Longer than the most back ticks in a row.
        let ticks = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(ticks.max(2) + 1);
        out.push_str(&format!("\n  {fence}\n"));
        code.lines().for_each(|line| out.push_str(&format!("  {line}\n")));
        out.push_str(&format!("  {fence}\n\n"));
    }
    out
}

/// A table with all its columns. A line that heads rows becomes a row with its first cell set in italics.
fn table(table: &Table) -> String {
    let drawn: Vec<usize> = (0..table.columns.len()).filter(|i| table.columns[*i].align != Align::Drawn).collect();
    let mut out = String::new();
    let mut line = |cells: Vec<String>| out.push_str(&format!("| {} |\n", cells.join(" | ")));
    let heading = |column: &Column| escaped(format!("{} {}", column.over, column.heading).trim_start());
    line(drawn.iter().map(|i| heading(&table.columns[*i])).collect());
    let rule = |i: &usize| if table.columns[*i].align == Align::Right { "---:" } else { "---" }.to_owned();
    line(drawn.iter().map(rule).collect());
    let rest = table.rest().map(Row::Label);
    for row in table.rows.iter().chain(&rest) {
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
fn escaped(text: &str) -> String {
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
    // A link needs no brackets: the colon is what makes one.
    out.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(escaped("<b>|`x`* @me https://a.b"), "&lt;b&gt;\\|\\`x\\`\\* &#64;me https:&#47;&#47;a.b");
    }
}

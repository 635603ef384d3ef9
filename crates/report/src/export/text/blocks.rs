//! Blocks of a document as lines.

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

use crate::document::{Block, Item, Note, Paint, Section};
use crate::export::text::letters::in_letters;
use crate::export::text::style::{Style, paragraph};
use crate::format::unbroken;

/// A section. `dropped`: the columns that the previous table had no room for; they are not named twice.
pub(super) fn section(section: &Section, dropped: &mut Vec<String>, style: &Style) -> String {
    laid_out(section, dropped, (style, true))
}

/// The same without a word on columns that find no room: what precedes a first screen's other tables says where they are.
pub(super) fn of_first_screen(section: &Section, style: &Style) -> String {
    laid_out(section, &mut Vec::new(), (style, false))
}

fn laid_out(section: &Section, dropped: &mut Vec<String>, (style, names_hidden): (&Style, bool)) -> String {
    let body: String = section.blocks.iter().map(|content| block(content, dropped, (style, names_hidden))).collect();
    let is_elsewhere = |content: &Block| matches!(content, Block::Album(_) | Block::Notices(_));
    if body.is_empty() && section.blocks.iter().any(is_elsewhere) {
        return String::new();
    }
    section.heading.lines().map(|line| heading(line, style)).collect::<String>() + &body
}

/// A heading, wrapped where it is too long.
fn heading(line: &str, style: &Style) -> String {
    let options = Options::new(style.columns()).subsequent_indent("  ").word_splitter(WordSplitter::NoHyphenation);
    // A number stays with what it counts or names.
    let line =
        ["CPU ", "CPUs ", "slack "].iter().fold(line.to_owned(), |line, name| line.replace(name, &unbroken(name)));
    let line = [" ns", " µs", " ms"].iter().fold(line, |line, unit| line.replace(unit, &unbroken(unit)));
    let line = style.spelled(&line);
    let ended = |line: &std::borrow::Cow<'_, str>| {
        format!("{}\n", style.paint(Paint::Heading, line.replace('\u{a0}', " ").trim_end()))
    };
    textwrap::wrap(&line, options).iter().map(ended).collect()
}

fn block(block: &Block, dropped: &mut Vec<String>, (style, names_hidden): (&Style, bool)) -> String {
    match block {
        Block::Table(content) => {
            let rendered = content.render(style);
            let mut text = rendered.text;
            if names_hidden && !rendered.dropped.is_empty() && rendered.dropped != *dropped {
                let names: Vec<String> = rendered.dropped.iter().map(|name| unbroken(name)).collect();
                let note = format!("Columns hidden at this width: {}.", names.join(", "));
                text.push_str(&paragraph(&note, "  ", "  ", Paint::Faint, style));
            }
            *dropped = rendered.dropped;
            text
        }
        Block::Legend(notes) => {
            let shown = |note: &&Note| !dropped.iter().any(|column| note.column == Some(column.as_str()));
            let text: Vec<&str> = notes.iter().filter(shown).map(|note| note.text.as_str()).collect();
            paragraph(&text.join(" "), "  ", "  ", Paint::Faint, style)
        }
        Block::Paragraph(text) | Block::Warning(text) => paragraph(text, "  ", "  ", Paint::Plain, style),
        Block::Line(text) => paragraph(text, "", "  ", Paint::Heading, style),
        Block::Facts(content) => facts(content, style),
        Block::Items(items) => items.iter().map(|content| item(content, &style.spelled("• "), style)).collect(),
        Block::Numbered(items) => (1..).zip(items).map(|(n, content)| item(content, &format!("{n} "), style)).collect(),
        Block::Album(album) => album.pictures.iter().map(|(_, picture)| in_letters(picture, style)).collect(),
        Block::Notices(_) => String::new(),
    }
}

fn item(item: &Item, mark: &str, style: &Style) -> String {
    let mut out = paragraph(&item.text, &format!("  {mark}"), "    ", Paint::Plain, style);
    for line in item.code.iter().flat_map(|code| code.lines()) {
        let line = style.spelled(line).replace('\u{a0}', " ");
        for piece in code_lines(&line, style.columns()) {
            out.push_str(&format!("{}\n", style.paint(Paint::Name, &piece)));
        }
    }
    out
}

/// A line of code in lines that fit, broken between words and never in a string. A command goes on after a backslash.
fn code_lines(line: &str, columns: usize) -> Vec<String> {
    const INDENT: usize = 6;
    let on = if line.ends_with([';', '{', '}', ',']) { "" } else { " \\" };
    let mut lines = vec![" ".repeat(INDENT)];
    let mut open = None;
    let words = line.split(move |c: char| {
        match open {
            None if c == '"' || c == '\'' => open = Some(c),
            Some(quote) if c == quote => open = None,
            _ => {}
        }
        c == ' ' && open.is_none()
    });
    for (at, word) in words.enumerate() {
        let last = lines.last_mut().expect("there is a first line");
        if at > 0 && display_width(last) + 1 + display_width(word) + on.len() > columns {
            last.push_str(on);
            lines.push(format!("{}{word}", " ".repeat(INDENT + 2)));
        } else {
            last.push_str(if at > 0 { " " } else { "" });
            last.push_str(word);
        }
    }
    lines
}

fn facts(facts: &[(String, String)], style: &Style) -> String {
    let widest = facts.iter().map(|(name, _)| display_width(name)).max().unwrap_or(0);
    let margin = " ".repeat(widest + 4);
    let line = |(name, fact): &(String, String)| {
        let first = format!("  {name}{}  ", " ".repeat(widest - display_width(name)));
        paragraph(fact, &first, &margin, Paint::Plain, style)
    };
    facts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_broken_between_words_only() {
        let lines = |line: &str, columns| code_lines(line, columns);
        assert_eq!(lines("prctl(PR_SET_TIMERSLACK, 1);", 80), ["      prctl(PR_SET_TIMERSLACK, 1);"]);
        assert_eq!(
            lines("int fd = open(\"/dev/a b\", O_RDWR);", 30),
            ["      int fd =", "        open(\"/dev/a b\",", "        O_RDWR);"],
            "a string stays whole, and C needs no mark"
        );
        assert_eq!(
            lines("punctual run --policy fifo:40 -- PROGRAM", 30),
            ["      punctual run --policy \\", "        fifo:40 -- PROGRAM"],
            "a shell goes on after a backslash"
        );
        assert_eq!(
            lines("one_word_that_is_too_long_for_any_line", 20),
            ["      one_word_that_is_too_long_for_any_line"]
        );
    }
}

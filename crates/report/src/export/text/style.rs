//! [`Style`]: width, colour and character set of text. The caller knows the terminal and passes it; nothing is detected
//! here.

use textwrap::{Options, WordSplitter};

use std::borrow::Cow;

use anstyle::{AnsiColor, Color, Style as Ansi};
use textwrap::core::display_width;

use crate::document::Paint;

/// The narrowest width that is honoured; anything smaller is treated as this many columns.
const NARROWEST: usize = 40;

/// Width, colour and characters of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal. Fewer than 40 count as 40.
    pub width: usize,
    /// Escape sequences for bold, dim and coloured text.
    pub color: bool,
    /// Characters beyond ASCII (`µ`, `▁`, `–`).
    pub unicode: bool,
}

impl Default for Style {
    /// [`Style::PLAIN`].
    fn default() -> Self {
        Self::PLAIN
    }
}

impl Style {
    /// 80 columns, no colour, Unicode: what a pipe gets, and in what documents are composed.
    pub const PLAIN: Self = Self { width: 80, color: false, unicode: true };

    /// Columns to use.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.max(NARROWEST)
    }

    /// `text` in the colour of `paint`, or as it is when there is no colour.
    #[must_use]
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let ansi = match paint {
            Paint::Plain => return text.to_owned(),
            Paint::Heading => Ansi::new().bold(),
            Paint::Faint => Ansi::new().dimmed(),
            Paint::Name => Ansi::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan))),
            Paint::Warning => Ansi::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow))),
            Paint::Failure => Ansi::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Red))),
        };
        format!("{}{text}{}", ansi.render(), ansi.render_reset())
    }

    /// `text` in characters that this style may use: without Unicode, it is spelled in ASCII.
    #[must_use]
    pub fn spelled<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unicode || text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(in_ascii(text)) }
    }

    /// What stands where text was cut off.
    #[must_use]
    pub fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { "~" }
    }
}

/// `text` in ASCII; a no-break space stays, for whoever wraps lines.
fn in_ascii(text: &str) -> String {
    let letter = |c: char| if c.is_ascii() || c == '\u{a0}' { c.to_string() } else { spelled(c).to_owned() };
    text.chars().map(letter).collect()
}

/// `text` cut to `columns` terminal columns, the cut marked.
pub(super) fn cut(text: &str, columns: usize, style: &Style) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let begin: String = fitting(text.chars(), columns.saturating_sub(1)).collect();
    begin + if columns > 0 { style.ellipsis() } else { "" }
}

/// The same, cut in its middle.
pub(super) fn cut_inside(text: &str, columns: usize, style: &Style) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let end: Vec<char> = fitting(text.chars().rev(), room / 2).collect();
    let begin: String = fitting(text.chars(), room - room / 2).collect();
    let ellipsis = if columns > 0 { style.ellipsis() } else { "" };
    begin + ellipsis + &end.into_iter().rev().collect::<String>()
}

/// The first letters that fit into this number of columns.
fn fitting(letters: impl Iterator<Item = char>, room: usize) -> impl Iterator<Item = char> {
    let mut used = 0;
    letters.take_while(move |c| {
        used += display_width(c.encode_utf8(&mut [0; 4]));
        used <= room
    })
}

fn spelled(c: char) -> &'static str {
    match c {
        'µ' | 'μ' => "u",
        '–' | '—' | '−' => "-",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        '…' => "...",
        '×' => "x",
        '·' => ".",
        '•' => "*",
        '→' => "->",
        '≥' => ">=",
        '▁' => ".",
        '▂' => ":",
        '▃' => "-",
        '▄' => "=",
        '▅' => "+",
        '▆' => "*",
        '▇' | '█' => "#",
        _ => "?",
    }
}

/// Text wrapped to the style's columns (to 100 at most, for the eye), each line ended.
pub(super) fn paragraph(text: &str, first: &str, rest: &str, paint: Paint, style: &Style) -> String {
    const READABLE: usize = 100;
    if text.trim().is_empty() {
        return String::new();
    }
    let text = style.spelled(text);
    let options = Options::new(style.columns().min(READABLE))
        .initial_indent(first)
        .subsequent_indent(rest)
        .word_splitter(WordSplitter::NoHyphenation);
    let mut out = String::new();
    for line in textwrap::wrap(&text, options) {
        out.push_str(&style.paint(paint, line.replace('\u{a0}', " ").trim_end()));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ascii_spells_what_it_can() {
        assert_eq!(in_ascii("5 µs – “x”, 漢 →"), "5 us - \"x\", ? ->");
    }

    proptest! {
        #[test]
        fn cut_fits(text in "\\PC{0,40}", columns in 0usize..50) {
            prop_assert!(display_width(&cut(&text, columns, &Style::default())) <= columns);
            prop_assert!(display_width(&cut_inside(&text, columns, &Style::default())) <= columns);
        }
    }
}

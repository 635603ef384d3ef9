//! Text from a run for a terminal: made harmless ([`punctual_record::plain`]), spelled in ASCII where there is nothing else, and cut to columns.

use textwrap::core::display_width;

use crate::Style;

/// `text` on one line with everything that a terminal would obey replaced by `?`; cut after 1000 characters.
///
/// With `unicode` off, characters beyond ASCII are spelled in ASCII where that is usual (`µ` becomes `u`).
pub(crate) fn plain(text: &str, style: &Style) -> String {
    const LONGEST: usize = 1000;
    let line = punctual_record::plain::line(text, LONGEST);
    if style.unicode {
        return line;
    }
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.push_str(in_ascii(c));
        }
    }
    out
}

/// `text` cut to `columns` terminal columns, the cut marked.
pub(crate) fn cut(text: &str, columns: usize, style: &Style) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let width = display_width(c.encode_utf8(&mut [0; 4]));
        if used + width > room {
            break;
        }
        used += width;
        out.push(c);
    }
    if columns > 0 {
        out.push_str(style.ellipsis());
    }
    out
}

fn in_ascii(c: char) -> &'static str {
    match c {
        'µ' | 'μ' => "u",
        '–' | '—' | '−' => "-",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        '…' => "...",
        '×' => "x",
        '•' => "*",
        '\u{a0}' => " ",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_lose_their_escape() {
        assert_eq!(plain("a\x1b[31mred\x07\u{9b}2J\u{202e}", &Style::default()), "a?[31mred??2J?");
    }

    #[test]
    fn ascii_spells_what_it_can() {
        let style = Style { unicode: false, ..Style::default() };
        assert_eq!(plain("5 µs – “x”, 漢", &style), "5 us - \"x\", ?");
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_obeys_survives(text in any::<String>()) {
            prop_assert!(!plain(&text, &Style::default()).chars().any(char::is_control));
            let ascii = Style { unicode: false, ..Style::default() };
            prop_assert!(plain(&text, &ascii).is_ascii());
        }

        #[test]
        fn cut_fits(text in "\\PC{0,40}", columns in 0usize..50) {
            prop_assert!(display_width(&cut(&text, columns, &Style::default())) <= columns);
        }
    }
}

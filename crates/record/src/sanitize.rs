//! Sanitizes text of unknown origin: removes control characters, escape sequences, bidirectional and invisible characters, and limits
//! its length.
//!
//! All such text passes here before it reaches a terminal. That is names from a run's file, file names, arguments, and
//! messages of the kernel and of libraries. JSON keeps the text: there the same characters become escapes.

use std::io::{self, Write};

/// Characters of a name that an error keeps: enough to identify it.
pub const NAME: usize = 100;

/// The text on one line. Control characters become `?`; line breaks and tabs become spaces. The text is cut after
/// `longest` characters, and `…` marks the cut.
#[must_use]
pub fn line(text: &str, longest: usize) -> String {
    let mut out = String::with_capacity(text.len().min(longest));
    for (count, c) in text.chars().enumerate() {
        if count == longest {
            out.push('…');
            break;
        }
        out.push(match c {
            '\n' | '\t' => ' ',
            c if is_harmless(c) => c,
            _ => '?',
        });
    }
    out
}

/// The same, but line breaks are kept.
#[must_use]
pub fn lines(text: &str, longest: usize) -> String {
    // A tab is harmless, but not a line break.
    let mut out = String::new();
    let mut left = longest;
    for (number, part) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        out.push_str(&line(part, left));
        left = left.saturating_sub(part.chars().take(longest).count() + 1);
        if left == 0 {
            break;
        }
    }
    out
}

/// Whether a terminal only displays the character. Control characters (C0, C1), bidirectional ones (Unicode Annex 9)
/// and zero-width ones are not displayed. Separators of lines and paragraphs, and tags, are not displayed either.
#[must_use]
pub fn is_harmless(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// JSON on its way to a file. The characters of its strings that are not harmless, and those of `also`, become escapes of
/// JSON: the bytes control no terminal, and a reader gets the text as it was. What is written at once must end between
/// two characters, as all that serde_json writes does.
#[derive(Debug)]
pub struct JsonEscapes<W> {
    writer: W,
    also: &'static [char],
}

impl<W: Write> JsonEscapes<W> {
    /// Escapes what is not harmless, and these characters.
    pub fn new(writer: W, also: &'static [char]) -> Self {
        Self { writer, also }
    }
}

impl<W: Write> Write for JsonEscapes<W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(part).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // serde_json itself escapes what is below a space; outside of strings it writes line breaks.
        let escaped = |c: char| c > '~' && !is_harmless(c) || self.also.contains(&c);
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| escaped(*c)) {
            self.writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(self.writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        self.writer.write_all(rest.as_bytes())?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_is_gone() {
        assert_eq!(line("a\x1b[31mred\x07\u{9b}2J\u{202e}\tb\nc", 100), "a?[31mred??2J? b c");
        assert_eq!(lines("one\x1b\r\ntwo\n", 100), "one??\ntwo\n");
        assert_eq!(line("12345", 3), "123…");
        assert_eq!(lines("12\n345", 4), "12\n3…");
    }

    fn json(text: &str, also: &'static [char]) -> String {
        let mut out = Vec::new();
        serde_json::to_writer_pretty(JsonEscapes::new(&mut out, also), &[text]).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_has_escapes_for_what_a_terminal_obeys() {
        assert_eq!(
            json("é\u{7f}\u{9b}2J\u{202e}\u{e0001}<", &['<']),
            "[\n  \"é\\u007f\\u009b2J\\u202e\\udb40\\udc01\\u003c\"\n]"
        );
    }

    proptest! {
        #[test]
        fn json_gives_the_text_back(text in any::<String>()) {
            let written = json(&text, &['<', '>', '&']);
            prop_assert!(written.chars().all(|c| c == '\n' || is_harmless(c) && !"<>&".contains(c)), "{written:?}");
            prop_assert_eq!(serde_json::from_str::<[String; 1]>(&written).unwrap(), [text]);
        }

        #[test]
        fn nothing_harmful_survives_and_nothing_is_long(text in any::<String>(), longest in 0usize..50) {
            let line = line(&text, longest);
            prop_assert!(line.chars().all(is_harmless) && line.chars().count() <= longest + 1);
            let lines = lines(&text, longest);
            prop_assert!(lines.chars().all(|c| c == '\n' || is_harmless(c)), "{lines:?}");
            prop_assert!(lines.chars().count() <= longest + 2, "{lines:?}");
        }
    }
}

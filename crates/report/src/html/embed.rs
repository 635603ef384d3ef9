//! The run inside its page, as JSON that no name in it can end, and back.

use std::io::{self, Write};

use punctual_record::{Run, WriteError};

/// What stands before the run in a page.
const BEFORE: &str = "<script type=\"application/json\" id=\"punctual-run\">";
/// What stands after it.
const AFTER: &str = "</script>";

/// Writes the run as a data block.
pub(super) fn write(run: &Run, mut writer: impl Write) -> Result<(), WriteError> {
    writer.write_all(BEFORE.as_bytes()).map_err(WriteError::Io)?;
    let mut dense = Dense::new(&mut writer);
    run.to_json(&mut dense)?;
    dense.send().map_err(WriteError::Io)?;
    writer.write_all(AFTER.as_bytes()).map_err(WriteError::Io)
}

/// The run's JSON within the bytes of a page; None where there is none. What is in it is not looked at.
#[must_use]
pub fn embedded_run(page: &[u8]) -> Option<&[u8]> {
    let begin = find(page, BEFORE.as_bytes())? + BEFORE.len();
    let rest = &page[begin..];
    // A page that was cut short is told as JSON that was.
    Some(find(rest, AFTER.as_bytes()).map_or(rest, |end| &rest[..end]))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Passes JSON on without the white space between its parts, and with everything that HTML would read spelled as JSON's escapes.
struct Dense<W> {
    writer: W,
    buffer: Vec<u8>,
    in_string: bool,
    escaped: bool,
}

/// Bytes that are kept before they are passed on.
const ROOM: usize = 1 << 16;

impl<W: Write> Dense<W> {
    fn new(writer: W) -> Self {
        Self { writer, buffer: Vec::with_capacity(ROOM + 8), in_string: false, escaped: false }
    }

    fn take(&mut self, bytes: &[u8]) {
        // Where what was not passed on yet begins: most bytes go in long stretches.
        let mut kept = 0;
        for (i, byte) in bytes.iter().enumerate() {
            let instead: &[u8] = match byte {
                _ if self.escaped => {
                    self.escaped = false;
                    continue;
                }
                b'\\' => {
                    self.escaped = true;
                    continue;
                }
                b'"' => {
                    self.in_string = !self.in_string;
                    continue;
                }
                b' ' | b'\n' if !self.in_string => b"",
                // Only strings hold these, so that an escape is always allowed.
                b'<' => b"\\u003c",
                b'>' => b"\\u003e",
                b'&' => b"\\u0026",
                _ => continue,
            };
            self.buffer.extend_from_slice(&bytes[kept..i]);
            self.buffer.extend_from_slice(instead);
            kept = i + 1;
        }
        self.buffer.extend_from_slice(&bytes[kept..]);
    }

    fn send(&mut self) -> io::Result<()> {
        self.writer.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl<W: Write> Write for Dense<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes);
        if self.buffer.len() >= ROOM {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dense(text: &str) -> String {
        let mut out = Vec::new();
        let mut dense = Dense::new(&mut out);
        dense.write_all(text.as_bytes()).unwrap();
        dense.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn strings_come_back_and_end_nothing(text in "\\PC{0,40}|(</script>|<!--|\\\\|\"|[a-z ]){0,12}") {
            let value = serde_json::json!({"name": text, "more": [1.5, null, text]});
            let out = dense(&serde_json::to_string_pretty(&value).unwrap());
            prop_assert!(!out.contains(['<', '>', '&']));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), value);
        }

        #[test]
        fn looking_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = embedded_run(&bytes);
        }
    }

    #[test]
    fn found_between_its_marks() {
        let page = format!("<html>{BEFORE}{{\"a\":1}}{AFTER}</html>");
        assert_eq!(embedded_run(page.as_bytes()), Some(&b"{\"a\":1}"[..]));
        assert_eq!(embedded_run(format!("<p>{BEFORE}{{\"a").as_bytes()), Some(&b"{\"a"[..]));
        assert_eq!(embedded_run(b"<html></html>"), None);
    }
}

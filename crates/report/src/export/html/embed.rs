//! The run inside its page, as JSON that no name can terminate early.

use std::io::Write;

use punctual_record::{Run, WriteError};

/// What stands before the run in a page.
const BEFORE: &str = "<script type=\"application/json\" id=\"punctual-run\">";
/// What stands after it.
const AFTER: &str = "</script>";

/// Writes the run as a data block.
pub(super) fn write(run: &Run, writer: &mut dyn Write) -> Result<(), WriteError> {
    writer.write_all(BEFORE.as_bytes()).map_err(WriteError::Io)?;
    run.to_json_in_page(&mut *writer)?;
    writer.write_all(AFTER.as_bytes()).map_err(WriteError::Io)
}

/// The run's JSON within the bytes of a page; None where there is none. What is in it is not looked at.
#[must_use]
pub fn embedded_run(page: &[u8]) -> Option<&[u8]> {
    let begin = find(page, BEFORE.as_bytes())? + BEFORE.len();
    let rest = &page[begin..];
    // A truncated page has truncated JSON, which its reader reports.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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

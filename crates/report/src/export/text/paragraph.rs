//! Wrapped text.

use textwrap::{Options, WordSplitter};

use crate::document::Paint;

use super::style::Style;

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

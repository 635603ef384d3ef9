//! Runs in the forms that tests look at.

use punctual_record::Run;
use punctual_report::compare::{Compared, Comparison};
use punctual_report::export::{Write, text};
use punctual_report::{Document, Style};

/// What a terminal of this style gets on standard output.
pub(crate) fn shown(run: &Run, style: &Style) -> String {
    text::render(&Document::from_run(run), style)
}

/// What it gets on standard error.
pub(crate) fn notices(run: &Run, style: &Style) -> String {
    text::notices(&Document::from_run(run), style)
}

/// All of another form.
pub(crate) fn written<T>(write: Write<T>, subject: &T) -> String {
    let mut out = Vec::new();
    write(subject, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A comparison without limits.
pub(crate) fn unjudged(comparison: Comparison) -> Compared {
    Compared { comparison, judgement: None }
}

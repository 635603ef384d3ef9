//! A run as a page: one HTML file that needs no network, for a browser, a printer or a colleague.
//!
//! In goes a [`Run`], out come its words and tables (those of the text report), pictures of its series, and the whole run as data,
//! so that the page can be read back ([`embedded_run`]). Nothing of a run becomes markup: everything is escaped, and a content security
//! policy allows only the page's own style sheet and script, by their hashes, and no network.
//!
//! Two sides compared have a page too ([`write_comparison`]): differences with their intervals as tables and as a forest plot, and what changed
//! around them.
//!
//! Refused is nothing; a histogram that cannot be decoded has no picture. A page of many thousand series is large and of little use:
//! who asks for one should be told so before ([`MOST_SERIES`]).

mod comparison;
mod embed;
mod frame;
mod page;
mod pictures;
mod plot;
mod story;

pub use embed::embedded_run;

use std::io::{self, Write};

use punctual_record::{Run, WriteError};

use crate::compare::Comparison;
use crate::compare::limit::Judgement;

/// More series than these nobody looks at, on a page or on a terminal.
pub const MOST_SERIES: usize = 10_000;

/// Writes the page.
///
/// # Errors
/// When the writer fails, or the run has a number that JSON cannot hold; see [`Run::to_json`].
pub fn write(run: &Run, mut writer: impl Write) -> Result<(), WriteError> {
    let io = WriteError::Io;
    writer.write_all(page::before(run).into_string().as_bytes()).map_err(io)?;
    embed::write(run, &mut writer)?;
    writer.write_all(frame::AFTER.as_bytes()).map_err(io)?;
    writer.flush().map_err(io)
}

/// Writes the page of a comparison; with what became of limits, where there are some.
///
/// # Errors
/// When the writer fails.
pub fn write_comparison(
    comparison: &Comparison,
    judgement: Option<&Judgement>,
    mut writer: impl Write,
) -> io::Result<()> {
    writer.write_all(comparison::page(comparison, judgement).into_string().as_bytes())?;
    writer.write_all(frame::AFTER.as_bytes())?;
    writer.flush()
}

/// A file's first bytes look like a page rather than like JSON.
#[must_use]
pub fn is_page(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().first() == Some(&b'<')
}

//! A document as a self-contained HTML page, for a browser, a printer or a colleague. It needs no network.
//!
//! The page of a run contains the whole run as data, so that it can be read back ([`embedded_run`]). Text of a run
//! never becomes markup: everything is escaped. A content security policy allows only the page's own style sheet and
//! script, by their hashes, and no network.
//!
//! A histogram that cannot be decoded has no picture.

mod blocks;
mod drawing;
mod embed;
mod figure;
mod marker;
mod page;
mod screen;
mod table;
mod tags;

pub use embed::embedded_run;

use std::io::Write;

use super::exporter::{Error, Exporter, Reported};
use maud::html;

/// The page.
#[derive(Debug, Clone, Copy)]
pub struct Html;

impl<T: Reported> Exporter<T> for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn is_for_people(&self) -> bool {
        true
    }

    fn write(&self, of: &T, out: &mut dyn Write) -> Result<(), Error> {
        let run = of.run();
        let holds = html! {
            @if run.is_some() {
                "This file holds the whole run: " code { "punctual report FILE.html --json" } " gives it back. It needs no network."
            } @else {
                "docs/method.md explains the statistics. This page needs no network."
            }
        };
        out.write_all(page::page(&of.document(true), &holds).into_string().as_bytes())?;
        run.map_or(Ok(()), |run| embed::write(run, out))?;
        out.write_all(page::AFTER.as_bytes())?;
        Ok(out.flush()?)
    }
}

/// A file's first bytes look like a page rather than like JSON.
#[must_use]
pub fn is_page(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().first() == Some(&b'<')
}

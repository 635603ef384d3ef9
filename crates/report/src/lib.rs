//! Reports of runs as text, pages and tables, and limits on their figures.
//!
//! Takes a [`punctual_record::Run`], fresh or read from a file of any machine, or two sides of runs ([`compare`]). The
//! report is composed once, as a [`Document`]. An exporter ([`export`]) lays it out: text for a terminal, a page for a
//! browser, Markdown. Other exporters write the figures. [`gate`] gives the verdict for a build. This crate measures
//! nothing, prints nothing and does not read the machine it runs on.
//!
//! A run may come from anywhere, so its names are not trusted. Control characters are removed. An undecodable
//! histogram is shown as missing.
#![forbid(unsafe_code)]

pub mod compare;
pub mod document;
pub mod export;
mod family;
pub mod verdict;

mod causes;
pub mod evidence;
mod format;
mod pictures;
mod run;
mod trials;

pub use document::{Document, notice};
pub use export::text::Style;
pub use family::frequency;
pub use verdict::{Verdict, gate};

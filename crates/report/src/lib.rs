//! Runs as text, pages and tables, and limits judged on them.
//!
//! In goes a [`punctual_record::Run`], fresh or read back from a file made on another machine; out comes text for a
//! terminal ([`text`]), a page for a browser ([`html`]), [`markdown`], rows for a spreadsheet ([`csv`]), metrics for a monitor
//! ([`openmetrics`]), a distribution for a plotter ([`hgrm`]), notices in words ([`notice`]) or a verdict for a build ([`threshold`]). Nothing here measures, prints or reads the machine it runs on.
//!
//! A run may come from anywhere, so no name in it is trusted: control characters are neutralised, and a histogram that
//! cannot be decoded is shown as missing.
#![forbid(unsafe_code)]

pub mod compare;
pub mod csv;
pub mod distribution;
pub mod family;
pub mod frequency;
pub mod hgrm;
pub mod html;
pub mod list;
pub mod markdown;
pub mod notice;
pub mod openmetrics;
pub mod story;
pub mod style;
pub mod table;
pub mod text;
pub mod threshold;
pub mod units;
pub mod words;

mod background;
mod chart;
mod merged;
mod naming;
mod plain;

pub use notice::notices_text;
pub use style::Style;

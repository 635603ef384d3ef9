//! What `punctual` measured, and what can be said of it.
//!
//! In go samples (through a [`Recorder`]) and facts about the machine ([`Host`]); out comes a [`Run`]: plain data that
//! is written as JSON (`punctual.run/1`), read back, reported and compared, on this machine or on another.
//!
//! ```
//! use punctual_record::{Distribution, Quantity, Recorder, SeriesId, SeriesTally, Usage};
//!
//! let mut recorder = Recorder::new(); // allocates once
//! let mut tally = SeriesTally::new();
//! for round in 0..4 {
//!     recorder.clear();
//!     for sample in 0..1000 {
//!         recorder.record(sample * 100); // while the clock runs: no allocation, no lock, no system call
//!     }
//!     let usage = Usage { elapsed_ns: 1_000_000, cpu_ns: Some(20_000), ..Usage::default() };
//!     tally.add_round(round, u64::from(round) * 1_000_000, &recorder, usage);
//! }
//! let series = tally.to_series(SeriesId {
//!     experiment: "wait".into(),
//!     subject: "nanosleep".into(),
//!     conditions: "other".into(),
//!     parameters: Default::default(),
//!     quantity: Quantity::Overshoot,
//! });
//! assert_eq!(series.summary.count, 4000);
//! assert_eq!(series.cpu_ns_per_op, Some(20.0));
//! // Back from a file, with all its percentiles:
//! assert_eq!(Distribution::from_series(&series).unwrap().summary().p99, series.summary.p99);
//! ```
//!
//! Where things are: samples in [`Recorder`] (fixed memory) and [`Distribution`] (finished, a few kB); ranks and confidence intervals in
//! [`statistics`]; rounds in [`SeriesTally`] and [`steadiness`]; the machine in [`Host::read`] and [`DisturbanceProbe`]; the file in
//! [`Run::to_json`], [`Run::from_json`] and [`json_schema`].
//!
//! This crate measures nothing and prints nothing.
#![forbid(unsafe_code)]

mod bucket;
mod contradiction;
mod distribution;
mod disturbance;
mod hdr;
mod host;
mod identity;
mod json;
mod list;
pub mod merge;
pub mod model;
mod moments;
pub mod plain;
mod recorder;
pub mod statistics;
pub mod steadiness;
mod tally;
mod tree;

pub use bucket::{Bucket, RANGE_NS, SIGNIFICANT_DIGITS};
pub use distribution::{Distribution, Error, Histograms};
pub use disturbance::{DisturbanceProbe, OwnUsage};
pub use identity::{DESCRIPTIVE, Identity, identities, keys_by_label};
pub use json::{ReadError, SCHEMA_ID, WriteError, json_schema};
pub use list::{CpuList, CpuListError, MAX_CPU};
pub use model::*;
pub use recorder::Recorder;
pub use statistics::Quantile;
pub use steadiness::Steadiness;
pub use tally::{SeriesId, SeriesTally, Usage};

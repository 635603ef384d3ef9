//! The record of a `punctual` measurement, and statistics on it.
//!
//! Takes samples (through a [`Recorder`]) and facts about the machine ([`Host`]). Returns a [`Run`]: plain data that is
//! written as JSON (`punctual.run/2`), read back, reported and compared, on any machine.
//!
//! ```
//! use punctual_record::experiment::{Experiment, Typed, wait};
//! use punctual_record::{About, Distribution, Quantity, Recorder, SeriesId, SeriesTally, Usage};
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
//!     experiment: Experiment::Wait(Typed::asked(wait::Parameters::asking(100_000))),
//!     subject: "nanosleep".into(),
//!     about: About::default(),
//!     conditions: "as found".into(),
//!     quantity: Quantity::Overshoot,
//! });
//! assert_eq!(series.summary.count, 4000);
//! assert_eq!(series.cpu_ns_per_op, Some(20.0));
//! // Back from a file, with all its percentiles:
//! assert_eq!(Distribution::from_series(&series).unwrap().summary().p99, series.summary.p99);
//! ```
//!
//! Overview: samples in [`Recorder`] (fixed memory) and [`Distribution`] (finished, a few kB). Ranks and confidence
//! intervals are in [`statistics`], rounds in [`SeriesTally`] and [`Steadiness`]. The machine is in [`Host::read`]
//! and [`DisturbanceProbe`]. The file is in [`Run::to_json`] and [`Run::from_json`]; its schema needs the feature `schema`.
//!
//! This crate measures nothing and prints nothing.
#![forbid(unsafe_code)]

mod contradiction;
mod distribution;
mod disturbance;
pub mod experiment;
mod host;
mod identity;
mod json;
pub mod merge;
pub mod model;
mod recorder;
pub mod remedy;
pub mod sanitize;
pub mod statistics;
mod tree;

pub use distribution::{Bucket, Distribution, Error, RANGE_NS, SIGNIFICANT_DIGITS};
pub use disturbance::{DisturbanceProbe, OwnUsage};
pub use experiment::{Experiment, Param, Typed};
pub use identity::{Identity, identities, keys_by_label, telling};
#[cfg(feature = "schema")]
pub use json::json_schema;
pub use json::{ReadError, SCHEMA_ID, WriteError, to_json};
pub use model::*;
pub use recorder::{Recorder, SeriesId, SeriesTally, Usage};
pub use remedy::Remedy;
pub use statistics::Quantile;

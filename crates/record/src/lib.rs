//! What `punctual` measured, and what can be said of it.
//!
//! In go samples (through a [`Recorder`]) and facts about the machine ([`Host`]); out comes a [`Run`]: plain data that
//! is written as JSON (`punctual.run/1`), read back, reported and compared, on this machine or on another.
//!
//! This crate measures nothing and prints nothing.
#![forbid(unsafe_code)]

mod bucket;
mod distribution;
mod disturbance;
mod host;
mod json;
mod list;
pub mod model;
mod moments;
mod recorder;
pub mod statistics;
pub mod steadiness;
mod tally;
mod tree;

pub use bucket::{Bucket, RANGE_NS, SIGNIFICANT_DIGITS};
pub use distribution::{Distribution, Error, Histograms};
pub use disturbance::{DisturbanceProbe, OwnUsage};
pub use json::{ReadError, SCHEMA_ID, WriteError, json_schema};
pub use list::{CpuList, CpuListError, MAX_CPU};
pub use model::*;
pub use recorder::Recorder;
pub use statistics::Quantile;
pub use steadiness::Steadiness;
pub use tally::{SeriesId, SeriesTally, Usage};

//! The record: figures, JSON, facts about the host, and what recording costs in memory.
#![forbid(unsafe_code)]

mod coverage;
mod experiments;
mod footprint;
mod host;
mod json;
mod sample;

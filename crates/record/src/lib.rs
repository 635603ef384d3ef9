//! What `punctual` measured, and what can be said of it.
//!
//! In go samples (through a [`Recorder`]) and facts about the machine ([`Host`]); out comes a [`Run`]: plain data that
//! is written as JSON (`punctual.run/1`), read back, reported and compared, on this machine or on another.
//!
//! This crate measures nothing and prints nothing.
#![forbid(unsafe_code)]

pub mod model;

pub use model::*;

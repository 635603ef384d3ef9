//! The experiments: a plan goes in, a run comes out.
#![forbid(unsafe_code)]

pub mod wait;

//! Be on time: clocks, conditions and waiting for Linux programs.
#![forbid(unsafe_code)]

pub mod counter;

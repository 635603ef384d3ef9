//! How much a difference is worth: the noise of figures, differences with their uncertainty, correction for several.
//!
//! Two uses: sides of runs ([`crate::compare`]), and series of one run that were measured in interleaved rounds
//! (`rounds`). `pairs` is for blocks of a program, `shares` for shares of the CPU.

pub(crate) mod difference;
pub(crate) mod distributions;
pub(crate) mod noise;
pub(crate) mod pairs;
pub(crate) mod rounds;
pub(crate) mod shares;
pub(crate) mod tail;

pub(crate) use difference::{Draft, Shift, scatter};
pub use noise::Figure;
pub(crate) use noise::{Look, MIN_ROUNDS, Mean, Missing, Reading, SCALE};
pub(crate) use rounds::at_p50;
pub use rounds::{Effect, Gain, Outcome};
pub use shares::{ShareEffect, ShareGain};

/// The false discovery rate, and the probability of any false alarm if nothing differs.
pub const LEVEL: f64 = 0.05;

//! How much a difference is worth: the noise of figures, differences with their uncertainty, correction for several.
//!
//! Two uses: sides of runs ([`crate::compare`]), and series of one run that were measured in interleaved rounds
//! (`rounds`). `pairs` is for blocks of a program, `maxima` for their largest samples, `shares` for shares of
//! the CPU.

mod center;
pub(crate) mod correction;
pub(crate) mod difference;
mod gamma;
pub(crate) mod maxima;
mod mean;
mod middle;
pub(crate) mod noise;
pub(crate) mod pairs;
mod reading;
pub(crate) mod rounds;
pub(crate) mod share;
pub(crate) mod shares;
mod student;
pub(crate) mod tail;

pub(crate) use difference::{Draft, Shift};
pub(crate) use mean::Mean;
pub(crate) use middle::scatter;
pub(crate) use noise::SCALE;
pub use reading::Figure;
pub(crate) use reading::{Look, Reading};
pub use rounds::{Effect, Gain, Outcome};
pub use shares::{ShareEffect, ShareGain};

/// The false discovery rate, and the probability of any false alarm if nothing differs.
pub const LEVEL: f64 = 0.05;

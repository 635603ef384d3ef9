//! Figures, names and small drawings as text, in Unicode: what every part of a report is written with. It knows no document.

pub(crate) mod distribution;
mod groups;
mod prose;
mod sanitize;
pub(crate) mod spoken;
pub(crate) mod units;

pub(crate) use groups::{counted, distinct, grouped};
pub(crate) use prose::{listed, sentence, unbroken};
pub(crate) use sanitize::sanitize;

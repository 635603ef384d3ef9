//! Figures, names and small drawings as text, in Unicode: what every part of a report is written with. It knows no document.

pub(crate) mod distribution;
pub(crate) mod groups;
pub(crate) mod prose;
pub(crate) mod sanitize;
pub(crate) mod spoken;
pub(crate) mod units;

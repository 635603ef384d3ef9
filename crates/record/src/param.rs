//! A value of known type and unknown meaning: of a setting, a parameter or a metric.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Param {
    /// Yes or no.
    Flag(bool),
    /// A count, or nanoseconds where the name ends in `_ns`.
    Int(i64),
    /// A ratio.
    Real(f64),
    /// A word.
    Text(String),
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Int(n) => n.fmt(f),
            Self::Real(x) => x.fmt(f),
            Self::Text(text) => f.pad(text),
        }
    }
}

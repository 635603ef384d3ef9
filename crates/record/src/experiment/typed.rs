//! What was asked, and what came out, of one experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters and metrics of one experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Typed<P, M: Default + PartialEq> {
    /// What was asked.
    pub parameters: P,
    /// What came out beside the samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metrics: M,
}

impl<P, M: Default + PartialEq> Typed<P, M> {
    /// These parameters, nothing measured yet.
    pub fn asked(parameters: P) -> Self {
        Self { parameters, metrics: M::default() }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

//! A thread that wakes up at regular intervals. The subject is its CPU: `cpu0`.

use serde::{Deserialize, Serialize};

/// The request: it identifies a series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {
    /// From one wake-up to the next.
    pub interval_ns: i64,
    /// What the machine did meanwhile, by the choice of who measured; absent: nothing was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// Expected wake-ups that the thread overslept: it was not yet back from an earlier one.
        missed: u64 => sum,
        /// Times that the thread rested, to stay below what the kernel allows real-time threads; its wake-ups meanwhile are missed.
        rested: u64 => sum,
    }
}

/// Whether a thread of this name made the series of this subject: `cyclic/0` that of `cpu0`.
#[must_use]
pub fn is_of(thread: &str, subject: &str) -> bool {
    let number = thread.strip_prefix("cyclic/");
    number.is_some() && number == subject.strip_prefix("cpu")
}

//! A change from one governor to another. The subject names both, as `powersave to performance`.

use serde::{Deserialize, Serialize};

/// What was asked: the subject says it all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameters {}

metrics! {
    /// The results beside the samples.
    pub struct Metrics {
        /// The CPU that loops.
        cpu: u32 => same,
        /// The CPU that switches.
        switched_from_cpu: u32 => same,
        /// What a loop takes.
        loop_ns: i64 => mean,
        /// A loop before the switch, median.
        before_ns: i64 => mean,
        /// A loop after it has settled, median.
        after_ns: i64 => mean,
        /// Switches whose effect was not seen.
        not_seen: u64 => sum,
    }
}

//! The way of one call through the kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way of a call through the kernel, of the median among those recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallPath {
    /// The way to wait or to yield: `sched_yield`.
    pub method: String,
    /// The call in C.
    pub call: String,
    /// What recorded it.
    pub source: PathSource,
    /// How long it took, ns; recording included.
    pub took_ns: u64,
    /// Its steps in the order of time.
    pub steps: Vec<PathStep>,
    /// Calls recorded.
    pub recorded: u64,
    /// Calls left out because an interrupt came in.
    pub interrupted: u64,
    /// Steps beyond those kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_off: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What recorded a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathSource {
    /// The tracer `function_graph`: every function of the kernel.
    FunctionGraph,
    /// Tracepoints: what happened, not the functions.
    Events,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathStep {
    /// How deep it is called; 0 is the system call.
    pub depth: u32,
    /// The function, or the event.
    pub name: String,
    /// From the first step, ns; absent where the tracer does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// How long the function took, with all it called, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
}

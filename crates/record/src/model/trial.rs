//! Remedies that were tried on a running program, on and off by turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Spread;
use super::code::{Code, Price};

/// A remedy and what the program did with it and without.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its stable name, that of the condition: `timer-slack`.
    pub id: String,
    /// Its value, as the condition of that name takes it: `1ns`.
    pub value: String,
    /// The remedy: `timer slack 1 ns`.
    pub remedy: String,
    /// What was set, in the words of the man pages.
    pub what: String,
    /// What to write.
    pub code: Code,
    /// What it costs whoever keeps it.
    pub price: Price,
    /// How many threads had it set, at most.
    pub threads: u64,
    /// Blocks without and with it, each pair in random order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<TrialPair>,
    /// Why it was not tried, or not on all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<TrialRefused>,
}

/// Two adjacent blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialPair {
    /// Without the remedy.
    pub off: TrialBlock,
    /// With it.
    pub on: TrialBlock,
}

/// A stretch of time in which nothing was changed. A call that began before it is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialBlock {
    /// How long, ns.
    pub ns: u64,
    /// CPU time of the program's threads, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Time for which the program's threads waited for a CPU, summed, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// Time that the host gave to others, of all CPUs, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<u64>,
    /// Lateness of the wake-ups by the threads' own timers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Spread>,
    /// Lateness of all others: by threads, interrupts and other processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Spread>,
}

/// Why a remedy was not tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialRefused {
    /// Why.
    pub why: String,
    /// What would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

//! Idle states: how deep a CPU sleeps, and how long it takes to come back.

use super::files::{number, read};
use super::system::Cpufreq;

/// One idle state of a CPU (Documentation/admin-guide/pm/cpuidle.rst).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Its number, from the shallowest.
    pub number: usize,
    /// Its name: `POLL`, `C1`, `C6`, ...
    pub name: String,
    /// How long it takes to come back, in µs.
    pub exit_latency_us: Option<u64>,
    /// How long a stay must last to be worth it, in µs.
    pub residency_us: Option<u64>,
    /// Switched off by the user or the driver.
    pub disabled: Option<bool>,
}

impl Cpufreq {
    /// The idle states of a CPU, from the shallowest. Empty: the kernel shows none.
    #[must_use]
    pub fn idle_states(&self, cpu: usize) -> Vec<IdleState> {
        let folder = self.cpu_folder().join(format!("cpu{cpu}/cpuidle"));
        let state = |number_of: usize| {
            let at = folder.join(format!("state{number_of}"));
            Some(IdleState {
                number: number_of,
                name: read(&at.join("name"))?,
                exit_latency_us: number(&at.join("latency")),
                residency_us: number(&at.join("residency")),
                disabled: number(&at.join("disable")).map(|value| value != 0),
            })
        };
        (0..).map_while(state).collect()
    }
}

//! Idle states: their depth and exit latency.

use super::system::Cpufreq;
use crate::restore::files::{number, read};

/// One idle state of a CPU (Documentation/admin-guide/pm/cpuidle.rst).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleState {
    /// Its number, from the shallowest.
    pub number: usize,
    /// Its name: `POLL`, `C1`, `C6`, ...
    pub name: String,
    /// Exit latency, in µs.
    pub exit_latency_us: Option<u64>,
    /// Target residency, in µs: the shortest stay that saves energy.
    pub residency_us: Option<u64>,
    /// Disabled by the user or the driver.
    pub disabled: Option<bool>,
}

impl Cpufreq {
    /// The idle states of a CPU, from the shallowest. Empty if the kernel shows none.
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

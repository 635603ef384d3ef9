//! Which CPUs idle, and what the host took from all of them.

use std::collections::HashMap;
use std::fs;

use super::thread::TICK_NS;

/// Time that the host gave to others (`/proc/stat`, steal), of all CPUs, in ns.
pub(super) fn stolen_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = all.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks.saturating_mul(TICK_NS.unsigned_abs()))
}

/// Whether the kernel has idle states to leave out.
pub(super) fn has_idle_states() -> bool {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    !matches!(driver.trim(), "" | "none")
}

/// Idle time of each CPU in ticks (`/proc/stat`).
pub(super) fn idle_times() -> HashMap<usize, u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let idle = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu: usize = fields.next()?.parse().ok()?;
        Some((cpu, fields.nth(3)?.parse().ok()?))
    };
    stat.lines().filter_map(idle).collect()
}

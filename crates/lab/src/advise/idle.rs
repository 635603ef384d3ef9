//! Which CPUs idle.

use std::collections::HashMap;
use std::fs;

/// Idle time of each CPU in ticks (`/proc/stat`).
pub(super) fn idle_times() -> HashMap<usize, u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu: usize = fields.next()?.parse().ok()?;
        Some((cpu, fields.nth(3)?.parse().ok()?))
    };
    stat.lines().filter_map(of).collect()
}

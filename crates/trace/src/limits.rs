//! Whether a cgroup limits the CPU time of a thread: `cpu.max` (version 2), `cpu.cfs_quota_us` (version 1).

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Where distributions mount the controllers.
const ROOTS: [&str; 4] =
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// Those of the threads whose group, or one around it, has a quota.
pub(crate) fn limited(tids: &[i32]) -> Vec<i32> {
    // Threads of a program are mostly in one group.
    let mut known = BTreeMap::new();
    let is_limited = |tid: &&i32| {
        let groups = read_to_string(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        *known.entry(groups).or_insert_with_key(|groups| has_quota(groups))
    };
    tids.iter().filter(is_limited).copied().collect()
}

/// Whether one of these groups, or one around it, has a quota.
fn has_quota(groups: &str) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let paths: Vec<&str> = paths.map(|path| path.trim_start_matches('/')).collect();
    let folders = ROOTS.iter().flat_map(|root| paths.iter().map(move |path| Path::new(root).join(path)));
    folders.flat_map(|folder| folder.ancestors().map(Path::to_path_buf).collect::<Vec<PathBuf>>()).any(|folder| {
        let limited = |name: &str, free: &str| {
            read_to_string(folder.join(name)).is_ok_and(|text| !text.trim_start().starts_with(free))
        };
        limited("cpu.max", "max") || limited("cpu.cfs_quota_us", "-1")
    })
}

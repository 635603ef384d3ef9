//! Cgroups that limit the CPU time of threads: `cpu.max` (version 2), `cpu.cfs_quota_us` (version 1), and what `cpu.stat` says.

use std::collections::{HashMap, VecDeque};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::names;

/// Where distributions mount the controllers.
const ROOTS: [&str; 4] =
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
/// Times of used-up quotas that are remembered of each group.
const REMEMBERED: usize = 256;

/// Functions of timers (kernel/sched/fair.c).
const REFILLS: [&str; 2] = ["sched_cfs_period_timer", "sched_cfs_slack_timer"];
/// kernel/sched/rt.c.
const REFILLS_REAL_TIME: &str = "sched_rt_period_timer";

/// The watched threads whose group, or one around it, has a quota.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    groups: Vec<Group>,
    /// By thread: index of its group.
    group_of: HashMap<i32, usize>,
    /// The functions of the kernel's timers that fill quotas up again, by address.
    refills: Vec<u64>,
    /// The same of the limit on real-time threads, looked up when it is needed.
    refills_real_time: OnceLock<Option<u64>>,
}

#[derive(Debug)]
struct Group {
    /// As `/proc/TID/cgroup` says it.
    name: String,
    /// Those with a quota.
    folders: Vec<PathBuf>,
    /// How often the quota was used up, and when that was read.
    throttled: u64,
    read_ns: u64,
    /// Between these times it was used up.
    times: VecDeque<(u64, u64)>,
}

impl Limits {
    /// The limits of these threads. `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn new(tids: &[i32], now_ns: u64) -> Self {
        let mut limits = Self::default();
        // Threads of a program are mostly in one group.
        let mut known: HashMap<String, Option<usize>> = HashMap::new();
        for tid in tids {
            let name = group(*tid);
            let index = *known.entry(name.clone()).or_insert_with(|| {
                let folders = folders(&name).into_iter().filter(|folder| has_quota(folder)).collect::<Vec<_>>();
                if folders.is_empty() {
                    return None;
                }
                let throttled = throttled(&folders);
                limits.groups.push(Group { name, folders, throttled, read_ns: now_ns, times: VecDeque::new() });
                Some(limits.groups.len() - 1)
            });
            limits.group_of.extend(index.map(|index| (*tid, index)));
        }
        if !limits.groups.is_empty() {
            limits.refills = REFILLS.iter().filter_map(|name| names::address_of(name)).collect();
        }
        limits
    }

    /// A new thread is in the group of the one that created it.
    pub(crate) fn fork(&mut self, parent: i32, child: i32) {
        if let Some(index) = self.group_of.get(&parent).copied() {
            self.group_of.insert(child, index);
        }
    }

    /// Whether this function of a timer fills quotas up.
    pub(crate) fn refills(&self, function: u64) -> bool {
        self.refills.contains(&function)
    }

    /// The same of the limit on real-time threads.
    pub(crate) fn refills_real_time(&self, function: u64) -> bool {
        *self.refills_real_time.get_or_init(|| names::address_of(REFILLS_REAL_TIME)) == Some(function)
    }

    /// Threads in a made-up group whose quota was used up in these times. The timer's function 70 refills it, 71 that of
    /// real-time threads.
    #[cfg(test)]
    pub(crate) fn made(tids: &[i32], times: &[(u64, u64)]) -> Self {
        let times = times.iter().copied().collect();
        let group = Group { name: "made".to_owned(), folders: Vec::new(), throttled: 4, read_ns: 100, times };
        Self {
            groups: vec![group],
            group_of: tids.iter().map(|tid| (*tid, 0)).collect(),
            refills: vec![70],
            refills_real_time: Some(71).into(),
        }
    }

    /// Whether a group limits the thread.
    pub(crate) fn has(&self, tid: i32) -> bool {
        self.group_of.contains_key(&tid)
    }

    /// Reads whether quotas were used up since the last time.
    pub(crate) fn read(&mut self, now_ns: impl Fn() -> u64) {
        for group in &mut self.groups {
            let (throttled, now) = (throttled(&group.folders), now_ns());
            group.take(throttled, now);
        }
    }

    /// Whether the quota of the thread's group was used up between these times, as far as it was read.
    pub(crate) fn used_up(&self, tid: i32, from_ns: u64, to_ns: u64) -> bool {
        let group = self.group_of.get(&tid).and_then(|index| self.groups.get(*index));
        group.is_some_and(|group| group.times.iter().any(|(from, to)| *from <= to_ns && from_ns <= *to))
    }

    /// Whether the other thread is in the same group.
    pub(crate) fn shares(&self, tid: i32, other: i32) -> bool {
        let own = self.group_of.get(&tid).and_then(|index| self.groups.get(*index));
        self.group_of.get(&tid).is_some_and(|index| self.group_of.get(&other) == Some(index))
            || own.is_some_and(|own| own.name == group(other))
    }
}

impl Group {
    fn take(&mut self, throttled: u64, now_ns: u64) {
        if throttled > self.throttled {
            match self.times.back_mut() {
                // Used up in one reading after the other.
                Some((_, to)) if *to == self.read_ns => *to = now_ns,
                _ => self.times.push_back((self.read_ns, now_ns)),
            }
            if self.times.len() > REMEMBERED {
                self.times.pop_front();
            }
        }
        (self.throttled, self.read_ns) = (throttled, now_ns);
    }
}

fn group(tid: i32) -> String {
    read_to_string(format!("/proc/{tid}/cgroup")).unwrap_or_default()
}

/// The folders of these groups, and of those around them.
fn folders(groups: &str) -> Vec<PathBuf> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let paths: Vec<&str> = paths.map(|path| path.trim_start_matches('/')).collect();
    let folders = ROOTS.iter().flat_map(|root| paths.iter().map(move |path| Path::new(root).join(path)));
    let mut folders: Vec<PathBuf> =
        folders.flat_map(|folder| folder.ancestors().map(Path::to_path_buf).collect::<Vec<_>>()).collect();
    folders.sort();
    folders.dedup();
    folders
}

fn has_quota(folder: &Path) -> bool {
    let limited = |name: &str, free: &str| {
        read_to_string(folder.join(name)).is_ok_and(|text| !text.trim_start().starts_with(free))
    };
    limited("cpu.max", "max") || limited("cpu.cfs_quota_us", "-1")
}

/// How often the quotas of these groups were used up (`nr_throttled` of `cpu.stat`).
fn throttled(folders: &[PathBuf]) -> u64 {
    let count = |folder: &PathBuf| {
        let text = read_to_string(folder.join("cpu.stat")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse::<u64>().ok())
    };
    folders.iter().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_used_up_between_two_readings() {
        let mut limits = Limits::made(&[7, 8], &[]);
        for (throttled, now) in [(4, 200), (5, 300), (9, 400), (9, 500), (10, 600)] {
            limits.groups[0].take(throttled, now);
        }
        assert_eq!(limits.groups[0].times, [(200, 400), (500, 600)]);
        assert!(limits.used_up(7, 250, 260) && !limits.used_up(7, 450, 460) && !limits.used_up(9, 250, 260));
        limits.fork(8, 9);
        limits.fork(1, 2);
        assert!(limits.has(9) && !limits.has(2));
        assert!(limits.shares(7, 8) && !limits.shares(7, 1) && !limits.shares(2, 7));
    }

    #[test]
    fn folders_are_those_of_both_versions_and_around() {
        let all = folders("3:cpu,cpuacct:/a/b\n0::/c\n");
        for one in ["/sys/fs/cgroup/cpu,cpuacct/a/b", "/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/c"] {
            assert!(all.contains(&PathBuf::from(one)), "{one}");
        }
    }
}

//! The control groups that limit the memory of the watched processes, and the time of their real-time threads.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// What `memory.limit_in_bytes` shows without a limit is the largest number of pages; no machine has this much memory.
const NO_MEMORY_LIMIT: u64 = 1 << 60;
/// Fewer pages that are read again show no habit.
const FEWEST: u64 = 100;

/// What a group limits beside CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Limit {
    Memory,
    RealTime,
}

/// The lowest group with a limit of each process.
#[derive(Debug, Default)]
pub(super) struct Limits {
    groups: BTreeMap<(u32, Limit), String>,
    /// By the path of a group with a memory limit: the pages that it read again.
    again: BTreeMap<String, Again>,
}

/// Pages that a group had dropped and read again, by the kernel's count.
#[derive(Debug)]
struct Again {
    folder: PathBuf,
    before: u64,
    last: u64,
}

impl Limits {
    /// Looks which group at or above this one limits a process. `mount` is the folder of its hierarchy.
    pub(super) fn enter(&mut self, pid: u32, limit: Limit, mount: &Path, path: &str) {
        let folder = |below: &Path| mount.join(below.strip_prefix("/").unwrap_or(below));
        let limits = |below: &&Path| match limit {
            Limit::Memory => limits_memory(&folder(below)),
            Limit::RealTime => limits_real_time(&folder(below)),
        };
        let Some(below) = Path::new(path).ancestors().filter(|below| *below != Path::new("/")).find(limits) else {
            self.groups.remove(&(pid, limit));
            return;
        };
        let (folder, below) = (folder(below), below.display().to_string());
        if limit == Limit::Memory && !self.again.contains_key(&below) {
            let before = read_again(&folder).unwrap_or_default();
            self.again.insert(below.clone(), Again { folder, before, last: before });
        }
        self.groups.insert((pid, limit), below);
    }

    /// Reads what the groups say.
    pub(super) fn look(&mut self) {
        for again in self.again.values_mut() {
            again.last = read_again(&again.folder).unwrap_or(again.last);
        }
    }

    /// The group that limits the real-time threads of a process.
    pub(super) fn real_time(&self, pid: u32) -> Option<&str> {
        self.groups.get(&(pid, Limit::RealTime)).map(String::as_str)
    }

    /// The group whose memory limit made a process read pages again. One that fills its memory for the first time is not kept by the limit.
    pub(super) fn memory(&self, pid: u32) -> Option<&str> {
        let path = self.groups.get(&(pid, Limit::Memory))?;
        let again = self.again.get(path)?;
        (again.last.saturating_sub(again.before) >= FEWEST).then_some(path)
    }
}

fn limits_memory(folder: &Path) -> bool {
    let of_version_2 = read_to_string(folder.join("memory.max")).ok();
    let limit = of_version_2.or_else(|| read_to_string(folder.join("memory.limit_in_bytes")).ok());
    limit.and_then(|limit| limit.trim().parse::<u64>().ok()).is_some_and(|limit| limit < NO_MEMORY_LIMIT)
}

/// Whether its real-time threads have less than those of the machine. Only version 1 has such a limit.
fn limits_real_time(folder: &Path) -> bool {
    let number = |path: PathBuf| read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let share =
        |runtime: Option<u64>, period: Option<u64>| Some(runtime? as f64 / period.filter(|period| *period > 0)? as f64);
    let own = share(number(folder.join("cpu.rt_runtime_us")), number(folder.join("cpu.rt_period_us")));
    let kernel = |name: &str| number(Path::new("/proc/sys/kernel").join(name));
    // -1: no limit, which is no number here.
    let all = share(kernel("sched_rt_runtime_us"), kernel("sched_rt_period_us")).unwrap_or(1.0);
    own.is_some_and(|own| own < all)
}

/// The pages of files and of swap that the group and those below it read again after reclaim. Version 1 has those below in a `total`.
fn read_again(folder: &Path) -> Option<u64> {
    let text = read_to_string(folder.join("memory.stat")).ok()?;
    let value = |key: &str| {
        let mut words = text.lines().filter_map(|line| line.split_once(' '));
        words.find(|(name, _)| *name == key)?.1.trim().parse::<u64>().ok()
    };
    let whole = |key: &str| value(&format!("total_{key}")).or_else(|| value(key));
    Some(whole("workingset_refault_file")?.saturating_add(whole("workingset_refault_anon").unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
    }

    #[test]
    fn a_memory_limit_is_named_once_pages_are_read_again() {
        let mount = std::env::temp_dir().join(format!("punctual-limits-{}", std::process::id()));
        let small = mount.join("small");
        write(&small, "memory.limit_in_bytes", "67108864\n");
        write(&small, "memory.stat", "cache 7\nworkingset_refault_file 1\ntotal_workingset_refault_file 20\n");
        write(&small.join("below"), "memory.limit_in_bytes", "9223372036854771712\n");
        let mut limits = Limits::default();
        limits.enter(7, Limit::Memory, &mount, "/small/below");
        assert_eq!(limits.memory(7), None, "nothing was dropped");
        write(&small, "memory.stat", "workingset_refault_file 9000\ntotal_workingset_refault_file 60\n");
        limits.look();
        assert_eq!(limits.memory(7), None, "40 pages");
        write(&small, "memory.stat", "workingset_refault_file 9000\nworkingset_refault_anon 100\n");
        limits.look();
        assert_eq!((limits.memory(7), limits.real_time(7)), (Some("/small"), None));
        limits.enter(7, Limit::Memory, &mount, "/");
        assert_eq!(limits.memory(7), None, "it is in no group now");
        std::fs::remove_dir_all(mount).unwrap();
    }
}

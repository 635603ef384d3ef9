//! The control groups that limit the memory of the watched processes, and the time of their real-time threads.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use punctual_record::MemoryLimit;

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

/// The groups with a limit at and above that of each process.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// The lowest first.
    groups: BTreeMap<(u32, Limit), Vec<String>>,
    /// The memory limits, by the path of their group.
    memory: BTreeMap<String, Memory>,
}

/// A memory limit, and what the kernel counted of it.
#[derive(Debug)]
struct Memory {
    folder: PathBuf,
    bytes: u64,
    /// What `memory.events` calls it.
    event: &'static str,
    before: Counts,
    last: Counts,
}

/// What a file does not show is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    /// Pages that the group had dropped and read again.
    read_again: Option<u64>,
    hits: Option<u64>,
    oom_kills: Option<u64>,
}

impl Limits {
    /// Looks which groups at or above this one limit a process. `mount` is the folder of its hierarchy.
    pub(super) fn enter(&mut self, pid: u32, limit: Limit, mount: &Path, path: &str) {
        let mut limiting = Vec::new();
        for below in Path::new(path).ancestors().filter(|below| *below != Path::new("/")) {
            let folder = mount.join(below.strip_prefix("/").unwrap_or(below));
            let below = below.display().to_string();
            let limits = match limit {
                Limit::Memory => self.limits_memory(&folder, &below),
                Limit::RealTime => limits_real_time(&folder),
            };
            if limits {
                limiting.push(below);
            }
        }
        self.groups.insert((pid, limit), limiting);
    }

    /// Whether this group limits memory. One that does is looked at from now on.
    fn limits_memory(&mut self, folder: &Path, path: &str) -> bool {
        let Some((bytes, event)) = memory_limit(folder) else { return false };
        self.memory.entry(path.to_owned()).or_insert_with(|| {
            let before = counts(folder, event);
            Memory { folder: folder.to_owned(), bytes, event, before, last: before }
        });
        true
    }

    /// Reads what the groups say.
    pub(super) fn look(&mut self) {
        for memory in self.memory.values_mut() {
            let now = counts(&memory.folder, memory.event);
            let last = &mut memory.last;
            *last = Counts {
                read_again: now.read_again.or(last.read_again),
                hits: now.hits.or(last.hits),
                oom_kills: now.oom_kills.or(last.oom_kills),
            };
        }
    }

    /// The group that limits the real-time threads of a process.
    pub(super) fn real_time(&self, pid: u32) -> Option<&str> {
        self.groups.get(&(pid, Limit::RealTime))?.first().map(String::as_str)
    }

    /// The group whose memory limit made a process read pages again. One that fills its memory for the first time is not kept by the limit,
    /// nor is one that was never at it.
    pub(super) fn memory(&self, pid: u32) -> Option<&str> {
        let made_it = |path: &&String| {
            self.memory.get(*path).is_some_and(|memory| {
                memory.read_again().is_some_and(|pages| pages >= FEWEST) && memory.hits().is_none_or(|hits| hits > 0)
            })
        };
        self.groups.get(&(pid, Limit::Memory))?.iter().find(made_it).map(String::as_str)
    }

    /// All memory limits.
    pub(super) fn memory_limits(&self) -> Vec<MemoryLimit> {
        let limit = |(path, memory): (&String, &Memory)| MemoryLimit {
            cgroup: path.clone(),
            limit_bytes: memory.bytes,
            hits: memory.hits(),
            oom_kills: since(memory.before.oom_kills, memory.last.oom_kills),
            read_again: memory.read_again(),
        };
        self.memory.iter().map(limit).collect()
    }
}

impl Memory {
    fn hits(&self) -> Option<u64> {
        since(self.before.hits, self.last.hits)
    }

    fn read_again(&self) -> Option<u64> {
        since(self.before.read_again, self.last.read_again)
    }
}

fn since(before: Option<u64>, last: Option<u64>) -> Option<u64> {
    Some(last?.saturating_sub(before?))
}

/// The memory limit of a group, and what `memory.events` calls it. None: it has no limit.
fn memory_limit(folder: &Path) -> Option<(u64, &'static str)> {
    // `max`: no limit, which is no number here.
    let number = |name: &str| read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let of_version_1 = || number("memory.limit_in_bytes").filter(|limit| *limit < NO_MEMORY_LIMIT);
    let max = number("memory.max").or_else(of_version_1).map(|bytes| (bytes, "max"));
    let high = number("memory.high").map(|bytes| (bytes, "high"));
    max.into_iter().chain(high).min()
}

fn counts(folder: &Path, event: &str) -> Counts {
    let text = |name: &str| read_to_string(folder.join(name)).ok();
    // The other file of events has those of the groups below too.
    let events = text("memory.events.local").or_else(|| text("memory.events"));
    let of = |text: &Option<String>, key: &str| text.as_deref().and_then(|text| value(text, key));
    Counts {
        read_again: text("memory.stat").and_then(|text| read_again(&text)),
        hits: of(&events, event).or_else(|| text("memory.failcnt")?.trim().parse().ok()),
        oom_kills: of(&events, "oom_kill").or_else(|| of(&text("memory.oom_control"), "oom_kill")),
    }
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
fn read_again(stat: &str) -> Option<u64> {
    let whole = |key: &str| value(stat, &format!("total_{key}")).or_else(|| value(stat, key));
    Some(whole("workingset_refault_file")?.saturating_add(whole("workingset_refault_anon").unwrap_or_default()))
}

/// The value of a line `key value`.
fn value(text: &str, key: &str) -> Option<u64> {
    let mut words = text.lines().filter_map(|line| line.split_once(' '));
    words.find(|(name, _)| *name == key)?.1.trim().parse().ok()
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
        let said = MemoryLimit { cgroup: "/small".to_owned(), limit_bytes: 64 << 20, ..MemoryLimit::default() };
        assert_eq!(limits.memory_limits(), [MemoryLimit { read_again: Some(9080), ..said }], "the hits are not known");
        limits.enter(7, Limit::Memory, &mount, "/");
        assert_eq!(limits.memory(7), None, "it is in no group now");
        std::fs::remove_dir_all(mount).unwrap();
    }

    #[test]
    fn a_limit_that_was_never_hit_made_nobody_read_again() {
        let mount = tempfile::tempdir().unwrap();
        let (web, small) = (mount.path().join("web"), mount.path().join("web/small"));
        write(&small, "memory.max", "1073741824\n");
        write(&small, "memory.high", "max\n");
        write(&small, "memory.events.local", "low 0\nhigh 0\nmax 3\noom 0\noom_kill 1\n");
        write(&small, "memory.stat", "workingset_refault_file 0\n");
        write(&web, "memory.max", "67108864\n");
        write(&web, "memory.high", "33554432\n");
        write(&web, "memory.events", "low 0\nhigh 20\nmax 3\noom 0\noom_kill 0\n");
        write(&web, "memory.stat", "workingset_refault_file 0\n");
        let mut limits = Limits::default();
        limits.enter(7, Limit::Memory, mount.path(), "/web/small");
        for group in [&web, &small] {
            write(group, "memory.stat", "workingset_refault_file 9000\n");
        }
        limits.look();
        assert_eq!(limits.memory(7), None, "neither limit was hit");
        write(&web, "memory.events", "low 0\nhigh 520\nmax 3\noom 0\noom_kill 2\n");
        limits.look();
        assert_eq!(limits.memory(7), Some("/web"), "the lower one is not the lowest");
        let said: Vec<_> =
            limits.memory_limits().into_iter().map(|limit| (limit.limit_bytes >> 20, limit.hits)).collect();
        assert_eq!(said, [(32, Some(500)), (1024, Some(0))]);
        std::fs::remove_dir_all(&web).unwrap();
        limits.look();
        assert_eq!(limits.memory_limits()[0].oom_kills, Some(2), "a group that is gone keeps what it said");
    }
}

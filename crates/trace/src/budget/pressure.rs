//! For how long the machine, and the control groups of the watched processes, were short of CPU time, memory or disks.
//!
//! Input: `/proc/pressure`, and `cpu.pressure`, `memory.pressure` and `io.pressure` of groups of version 2, now and then. A single process has no
//! such counters. Output: what they counted meanwhile. Files that are missing give nothing.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use punctual_record::{Pressure, Resource};

/// Most groups.
const MOST: usize = 8;

const RESOURCES: [(Resource, &str); 3] = [(Resource::Cpu, "cpu"), (Resource::Memory, "memory"), (Resource::Io, "io")];

/// Of the machine, or of a group.
type Whose = Option<String>;

/// What waits have taken so far.
#[derive(Debug, Default)]
pub(super) struct Pressures {
    by_file: BTreeMap<(Whose, Resource), Counter>,
}

/// A file with its first reading and its latest.
#[derive(Debug)]
struct Counter {
    file: PathBuf,
    before: Totals,
    last: Totals,
}

/// Since boot, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    some_ns: u64,
    full_ns: Option<u64>,
}

impl Pressures {
    /// Begins with the machine. `proc` is `/proc/pressure`.
    pub(super) fn of_machine(proc: &Path) -> Self {
        let mut all = Self::default();
        all.open(&None, |name| proc.join(name));
        // What is short of CPU time on the whole machine is never all of it: the kernel writes 0.
        if let Some(cpu) = all.by_file.get_mut(&(None, Resource::Cpu)) {
            (cpu.before.full_ns, cpu.last.full_ns) = (None, None);
        }
        all
    }

    /// Takes in the group with this path, whose files are in this folder. The root is the machine.
    pub(super) fn enter(&mut self, path: &str, folder: &Path) {
        let groups = self.by_file.len() / RESOURCES.len();
        let whose = Some(path.to_owned());
        if path != "/" && groups <= MOST && !self.by_file.contains_key(&(whose.clone(), Resource::Cpu)) {
            self.open(&whose, |name| folder.join(format!("{name}.pressure")));
        }
    }

    fn open(&mut self, whose: &Whose, file: impl Fn(&str) -> PathBuf) {
        for (of, name) in RESOURCES {
            let file = file(name);
            if let Some(before) = read(&file) {
                self.by_file.insert((whose.clone(), of), Counter { file, before, last: before });
            }
        }
    }

    /// Reads all files again. Of a group that is gone, the latest reading stays.
    pub(super) fn look(&mut self) {
        for counter in self.by_file.values_mut() {
            let full = counter.last.full_ns;
            counter.last = read(&counter.file).unwrap_or(counter.last);
            counter.last.full_ns = counter.last.full_ns.filter(|_| full.is_some());
        }
    }

    /// What was counted since the begin.
    pub(super) fn all(&self) -> Vec<Pressure> {
        let since = |((cgroup, of), counter): (&(Whose, Resource), &Counter)| Pressure {
            cgroup: cgroup.clone(),
            of: *of,
            some_ns: counter.last.some_ns.saturating_sub(counter.before.some_ns),
            full_ns: counter.last.full_ns.map(|last| last.saturating_sub(counter.before.full_ns.unwrap_or(last))),
        };
        self.by_file.iter().map(since).collect()
    }
}

/// `some avg10=0.11 avg60=0.69 avg300=10.40 total=9744191031`: the total is in us. A kernel without it refuses to read.
fn read(file: &Path) -> Option<Totals> {
    let text = read_to_string(file).ok()?;
    let total = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start))?;
        let us: u64 = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()?;
        us.checked_mul(1000)
    };
    Some(Totals { some_ns: total("some ")?, full_ns: total("full ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: PathBuf, some: u64, full: u64) {
        let line = |kind, total| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n");
        std::fs::write(file, line("some", some) + &line("full", full)).unwrap();
    }

    #[test]
    fn what_was_counted_before_the_watch_is_no_pressure_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (proc, group) = (folder.path().join("proc"), folder.path().join("group"));
        [&proc, &group].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        write(proc.join("cpu"), 5000, 0);
        write(group.join("memory.pressure"), 70, 60);
        let mut all = Pressures::of_machine(&proc);
        all.enter("/small", &group);
        all.enter("/", &proc);
        write(proc.join("cpu"), 5003, 0);
        write(group.join("memory.pressure"), 170, 110);
        all.look();
        std::fs::remove_dir_all(&group).unwrap();
        all.look();
        let cpu = Pressure { cgroup: None, of: Resource::Cpu, some_ns: 3000, full_ns: None };
        let memory = Pressure {
            cgroup: Some("/small".to_owned()),
            of: Resource::Memory,
            some_ns: 100_000,
            full_ns: Some(50_000),
        };
        assert_eq!(all.all(), [cpu, memory]);
        assert!(Pressures::of_machine(&group).all().is_empty(), "a kernel without the counters");
    }
}

//! The control groups of the watched processes that limit their CPU time, and how often they did.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use punctual_record::Quota;

use super::limits::{Limit, Limits};
use super::pressure::Pressures;

/// Most groups.
const MOST: usize = 64;

/// A control group with a quota.
#[derive(Debug)]
struct Group {
    path: String,
    before: Stat,
    last: Stat,
    quota_ns: u64,
    period_ns: u64,
    pids: Vec<u32>,
}

/// `cpu.stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stat {
    throttled: u64,
    throttled_ns: u64,
}

/// All that limit the processes.
#[derive(Debug, Default)]
pub(super) struct Groups {
    mounts: Vec<Mount>,
    by_folder: BTreeMap<PathBuf, Group>,
    /// The path of each process's group, by controller.
    of: BTreeMap<(u32, &'static str), String>,
    /// Those that limit something else.
    pub(super) limits: Limits,
    pub(super) pressures: Pressures,
}

/// Controllers of version 1 that take time from threads.
const CONTROLLERS: [&str; 3] = [CPU, FREEZER, MEMORY];
const CPU: &str = "cpu";
pub(super) const FREEZER: &str = "freezer";
const MEMORY: &str = "memory";
/// Version 2 has one group for all.
const UNIFIED: &str = "";

/// A hierarchy that can limit CPU time or memory.
#[derive(Debug)]
struct Mount {
    folder: PathBuf,
    /// The controllers that are looked at: all of version 2, or those of this mount.
    unified: bool,
    cpu: bool,
    memory: bool,
}

impl Groups {
    pub(super) fn new() -> Self {
        let text = read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounts = text.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (folder, kind, options) = (words.next()?, words.next()?, words.next()?);
            let unified = kind == "cgroup2";
            let has = |controller: &str| unified || options.split(',').any(|option| option == controller);
            let (cpu, memory) = (has(CPU), has(MEMORY));
            let limits = (unified || kind == "cgroup") && (cpu || memory);
            limits.then(|| Mount { folder: PathBuf::from(folder), unified, cpu, memory })
        });
        let mut mounts: Vec<Mount> = mounts.collect();
        // A controller is in one hierarchy: that of version 2 has memory where version 1 does not.
        let of_version_1 = mounts.iter().any(|mount| !mount.unified && mount.memory);
        mounts.iter_mut().filter(|mount| mount.unified).for_each(|mount| mount.memory = !of_version_1);
        Self { mounts, pressures: Pressures::of_machine(Path::new("/proc/pressure")), ..Self::default() }
    }

    /// Looks where these processes are now, and reads what the groups say.
    pub(super) fn look(&mut self, pids: impl Iterator<Item = u32>) {
        for pid in pids.filter(|pid| !has_ended(*pid)) {
            let Ok(text) = read_to_string(format!("/proc/{pid}/cgroup")) else { continue };
            for line in text.lines() {
                self.enter(pid, line);
            }
        }
        for (folder, group) in &mut self.by_folder {
            group.last = stat(folder).unwrap_or(group.last);
        }
        self.limits.look();
        self.pressures.look();
    }

    /// A line of /proc/PID/cgroup: `4:cpu,cpuacct:/web`, `0::/web`.
    fn enter(&mut self, pid: u32, line: &str) {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return };
        let unified = controllers.is_empty();
        let named = CONTROLLERS.into_iter().find(|known| controllers.split(',').any(|controller| controller == *known));
        let controller = if unified { Some(UNIFIED) } else { named };
        let Some(controller) = controller else { return };
        let before = self.of.insert((pid, controller), path.to_owned());
        if before.is_none_or(|before| before != path) {
            self.bound(pid, controller, path);
        }
        if controller != UNIFIED && controller != CPU {
            return;
        }
        let Some(mount) = self.mounts.iter().find(|mount| mount.unified == unified && mount.cpu) else { return };
        let mut below = Path::new(path);
        while below != Path::new("/") {
            let folder = mount.folder.join(below.strip_prefix("/").unwrap_or(below));
            if let Some(group) = self.by_folder.get_mut(&folder) {
                if !group.pids.contains(&pid) && group.pids.len() < 1 << 14 {
                    group.pids.push(pid);
                }
            } else if self.by_folder.len() < MOST
                && let Some((quota_ns, period_ns)) = quota(&folder)
            {
                let (before, path) = (stat(&folder).unwrap_or_default(), below.display().to_string());
                let group = Group { path, before, last: before, quota_ns, period_ns, pids: vec![pid] };
                self.by_folder.insert(folder, group);
            }
            let Some(parent) = below.parent() else { break };
            below = parent;
        }
    }

    /// A process is in this group now, which may limit more than its CPU time.
    fn bound(&mut self, pid: u32, controller: &'static str, path: &str) {
        if controller == UNIFIED
            && let Some(mount) = self.mounts.iter().find(|mount| mount.unified)
        {
            self.pressures.enter(path, &mount.folder.join(path.trim_start_matches('/')));
        }
        let limit = match controller {
            MEMORY | UNIFIED => Limit::Memory,
            CPU => Limit::RealTime,
            _ => return,
        };
        let is_it = |mount: &&Mount| {
            mount.unified == (controller == UNIFIED) && if limit == Limit::Memory { mount.memory } else { mount.cpu }
        };
        if let Some(mount) = self.mounts.iter().find(is_it) {
            self.limits.enter(pid, limit, &mount.folder, path);
        }
    }

    /// The path of a process's group for this controller.
    pub(super) fn path(&self, pid: u32, controller: &'static str) -> Option<&str> {
        let found = self.of.get(&(pid, controller)).or_else(|| self.of.get(&(pid, UNIFIED)));
        found.map(String::as_str)
    }

    /// The same for the controller of CPU time.
    pub(super) fn cpu_path(&self, pid: u32) -> Option<&str> {
        self.path(pid, CPU)
    }

    /// The group that stopped a process most.
    pub(super) fn limiting(&self, pid: u32) -> Option<&str> {
        let of_it = self.by_folder.values().filter(|group| group.pids.contains(&pid));
        of_it.max_by_key(|group| group.throttled()).map(|group| group.path.as_str())
    }

    /// For how long the groups of a process were throttled, ns.
    pub(super) fn throttled_ns(&self, pid: u32) -> u64 {
        let of_it = self.by_folder.values().filter(|group| group.pids.contains(&pid));
        of_it.map(|group| group.last.throttled_ns - group.before.throttled_ns).max().unwrap_or_default()
    }

    /// The quotas. `threads` says how many threads of a process were watched.
    pub(super) fn quotas(&self, threads: impl Fn(u32) -> u64) -> Vec<Quota> {
        let quota = |group: &Group| Quota {
            cgroup: group.path.clone(),
            quota_ns: group.quota_ns,
            period_ns: group.period_ns,
            threads: group.pids.iter().map(|pid| threads(*pid)).sum(),
            throttled: group.throttled(),
            throttled_ns: group.last.throttled_ns - group.before.throttled_ns,
        };
        self.by_folder.values().map(quota).collect()
    }
}

impl Group {
    fn throttled(&self) -> u64 {
        self.last.throttled - self.before.throttled
    }
}

/// The group of a process that still runs, as the CPU controller has it.
pub(super) fn cpu_group(pid: u32) -> Option<String> {
    of_cpu(&read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// The path of the CPU controller in /proc/PID/cgroup: that of version 1, else the one of version 2.
fn of_cpu(text: &str) -> Option<String> {
    let path = |is_it: &dyn Fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            is_it(controllers).then(|| path.to_owned())
        })
    };
    path(&|controllers| controllers.split(',').any(|one| one == "cpu")).or_else(|| path(&str::is_empty))
}

/// A process that has ended, and that its parent has not waited for, seems to be in the root of each hierarchy of version 1.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces and parentheses.
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, None | Some(b'Z' | b'X'))
}

/// The quota and the period of a group, ns. None: it has no limit.
fn quota(folder: &Path) -> Option<(u64, u64)> {
    let number = |name: &str| read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    if let Ok(text) = read_to_string(folder.join("cpu.max")) {
        let mut words = text.split_whitespace().map(str::parse::<u64>);
        return Some((words.next()?.ok()? * 1000, words.next()?.ok()? * 1000));
    }
    // -1: no limit, which is no number here.
    Some((number("cpu.cfs_quota_us")? * 1000, number("cpu.cfs_period_us")? * 1000))
}

fn stat(folder: &Path) -> Option<Stat> {
    let text = read_to_string(folder.join("cpu.stat")).ok()?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    // Version 1 counts in ns, version 2 in us.
    let throttled_ns = value("throttled_time ").or_else(|| Some(value("throttled_usec ")? * 1000))?;
    Some(Stat { throttled: value("nr_throttled ")?, throttled_ns })
}

#[cfg(test)]
mod tests {
    use super::of_cpu;

    #[test]
    fn the_group_of_the_cpu_is_that_of_its_hierarchy() {
        let both = "5:memory:/m\n3:cpu,cpuacct:/web\n0::/user.slice/session-7.scope\n";
        assert_eq!(of_cpu(both).as_deref(), Some("/web"));
        assert_eq!(of_cpu("4:cpuset:/x\n0::/web.slice\n").as_deref(), Some("/web.slice"));
        assert_eq!(of_cpu("4:cpuset:/x\n"), None);
    }
}

//! [`Reason`]: why a condition does not hold, and [`Surroundings`], the facts that explain it: limits, capabilities, cgroups, container, CPUs.
//!
//! The facts are read once per application of conditions, from /proc and /sys below a root (a fixture in tests). Unreadable facts are
//! absent and never serve as a reason.

use std::cell::LazyCell;
use std::fmt::Display;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::cpu_set::CpuSet;
use crate::need::{Need, Withheld};

/// Bit of CAP_IPC_LOCK (include/uapi/linux/capability.h).
pub(super) const CAP_IPC_LOCK: u32 = 14;
/// Bit of CAP_SYS_NICE.
pub(super) const CAP_SYS_NICE: u32 = 23;
/// Bit of CAP_SYS_RESOURCE.
const CAP_SYS_RESOURCE: u32 = 24;

/// The reason of a refusal, and what would be needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    /// The kernel's message, and its cause.
    pub(crate) why: String,
    /// What would let it succeed.
    pub(crate) needs: Need,
    /// The kernel's error number; absent if no call was made, or if the call succeeded with another result.
    pub(crate) errno: Option<i32>,
}

impl Reason {
    /// A reason without a kernel error.
    pub(crate) fn new(why: impl Display, needs: Need) -> Self {
        Self { why: why.to_string(), needs, errno: None }
    }

    /// With the kernel's error number.
    pub(crate) fn errno(self, errno: impl Into<Option<i32>>) -> Self {
        Self { errno: errno.into(), ..self }
    }
}

impl From<crate::restore::Error> for Reason {
    fn from(error: crate::restore::Error) -> Self {
        Self::new(&error, error.needs()).errno(error.errno())
    }
}

impl From<crate::cpufreq::Error> for Reason {
    fn from(error: crate::cpufreq::Error) -> Self {
        Self::new(&error, error.needs()).errno(error.errno())
    }
}

/// The facts. Limits are `None` when unlimited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// Effective capabilities of the calling thread on the whole machine: none in a user namespace.
    pub(crate) capabilities: u64,
    /// Capabilities available to root here; a container lacks some.
    pub(crate) bounding: u64,
    /// Whether the effective user is root.
    pub(crate) root: bool,
    /// Whether the process is in a user namespace, whose capabilities the scheduler ignores.
    pub(crate) user_namespace: bool,
    /// RLIMIT_RTPRIO, soft and hard.
    pub(crate) rtprio_limit: Option<u64>,
    pub(crate) rtprio_hard_limit: Option<u64>,
    /// RLIMIT_NICE: 20 − the lowest nice value allowed.
    pub(crate) nice_limit: Option<u64>,
    /// RLIMIT_MEMLOCK in bytes, soft and hard.
    pub(crate) memlock_limit: Option<u64>,
    pub(crate) memlock_hard_limit: Option<u64>,
    /// VmLck and VmSize in KiB.
    pub(crate) locked_kib: Option<u64>,
    pub(crate) mapped_kib: Option<u64>,
    /// /proc/sys/kernel/sched_rt_runtime_us and sched_rt_period_us.
    pub(crate) rt_runtime_us: Option<i64>,
    pub(crate) rt_period_us: Option<i64>,
    /// The cpu cgroup's cpu.rt_runtime_us and its value (RT group scheduling, cgroup v1).
    pub(crate) rt_group: Option<(String, i64)>,
    /// The path of the process in the unified cgroup hierarchy, unless it is the root.
    pub(crate) unified_group: Option<String>,
    /// The cpuset's file and the CPUs it allows.
    pub(crate) cpuset: Option<(String, CpuSet)>,
    /// `docker`, `podman`, `kubernetes`, `lxc`...
    pub(crate) container: Option<String>,
    pub(crate) present_cpus: Option<CpuSet>,
    pub(crate) online_cpus: Option<CpuSet>,
}

impl Surroundings {
    /// The facts of the calling thread.
    pub(crate) fn read() -> Self {
        let mut here = Self::below(Path::new("/"));
        let (rtprio, memlock) = (getrlimit(Resource::Rtprio), getrlimit(Resource::Memlock));
        (here.rtprio_limit, here.rtprio_hard_limit) = (rtprio.current, rtprio.maximum);
        (here.memlock_limit, here.memlock_hard_limit) = (memlock.current, memlock.maximum);
        here.nice_limit = getrlimit(Resource::Nice).current;
        here.root = rustix::process::geteuid().is_root();
        here
    }

    /// The facts of the calling thread, read when one of them is needed.
    pub(crate) fn at_first_use() -> LazyCell<Self> {
        LazyCell::new(Self::read)
    }

    /// The facts in the files below `root`.
    pub(super) fn below(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| read(path)?.trim().parse::<i64>().ok();
        let cpus = |path: &str| read(path)?.parse::<CpuSet>().ok();
        let status = read("proc/thread-self/status").or_else(|| read("proc/self/status")).unwrap_or_default();
        // In the initial user namespace all ids map to themselves (user_namespaces(7)). Without the file, the kernel
        // has no such namespaces.
        let user_namespace = read("proc/self/uid_map")
            .is_some_and(|map| map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]);
        let mask =
            |name| status_field(&status, name).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or_default();
        let groups = read("proc/thread-self/cgroup").or_else(|| read("proc/self/cgroup")).unwrap_or_default();
        Self {
            capabilities: if user_namespace { 0 } else { mask("CapEff") },
            bounding: if user_namespace { 0 } else { mask("CapBnd") },
            user_namespace,
            locked_kib: status_kib(&status, "VmLck"),
            mapped_kib: status_kib(&status, "VmSize"),
            rt_runtime_us: number("proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: number("proc/sys/kernel/sched_rt_period_us"),
            rt_group: rt_group(root, &groups),
            unified_group: group_path(&groups, "").filter(|path| *path != "/").map(str::to_owned),
            cpuset: cpuset(root, &groups),
            container: container(root),
            present_cpus: cpus("sys/devices/system/cpu/present"),
            online_cpus: cpus("sys/devices/system/cpu/online"),
            ..Self::default()
        }
    }

    /// Whether the thread has the capability of this bit.
    pub(super) const fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// Who withholds the capability of this bit. A container withholds some even from its root.
    pub(super) fn withheld(&self, capability: u32) -> Withheld {
        match &self.container {
            _ if self.user_namespace => Withheld::ByUserNamespace,
            Some(container) if self.bounding >> capability & 1 == 0 => Withheld::ByContainer(container.clone()),
            _ if self.root => Withheld::FromRoot,
            _ => Withheld::FromUser,
        }
    }

    /// Whether the thread may take this nice value when its own is higher (kernel/sched/syscalls.c, `can_nice`).
    pub(crate) fn may_have_nice(&self, nice: i32) -> bool {
        let needed = u64::try_from(20 - nice).unwrap_or(0);
        self.has(CAP_SYS_NICE) || self.nice_limit.is_none_or(|limit| limit >= needed)
    }
}

/// Whether the calling thread has CAP_SYS_RESOURCE, so that it may raise a hard limit again.
pub(crate) fn may_raise_limits() -> bool {
    Surroundings::below(Path::new("/")).has(CAP_SYS_RESOURCE)
}

/// The value of a field of /proc/self/status.
fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// The value of a field of /proc/self/status that is counted in KiB.
pub(super) fn status_kib(status: &str, name: &str) -> Option<u64> {
    status_field(status, name)?.strip_suffix("kB")?.trim().parse().ok()
}

/// The path of the process in the hierarchy of `controller` (the unified one: an empty name), from /proc/self/cgroup.
fn group_path<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

/// The first file that exists and parses as `T`, from the group up to the root. A container may see its group as the root.
fn first_readable<T: std::str::FromStr>(root: &Path, mounts: &[&str], group: &str, file: &str) -> Option<(String, T)> {
    mounts
        .iter()
        .flat_map(|mount| [format!("{mount}{}/{file}", group.trim_end_matches('/')), format!("{mount}/{file}")])
        .find_map(|path| {
            let text = std::fs::read_to_string(root.join(path.trim_start_matches('/'))).ok()?;
            Some((path, text.trim().parse().ok()?))
        })
}

fn rt_group(root: &Path, groups: &str) -> Option<(String, i64)> {
    let mounts = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    first_readable(root, &mounts, group_path(groups, "cpu")?, "cpu.rt_runtime_us")
}

fn cpuset(root: &Path, groups: &str) -> Option<(String, CpuSet)> {
    match group_path(groups, "cpuset") {
        Some(group) => first_readable(root, &["/sys/fs/cgroup/cpuset"], group, "cpuset.effective_cpus"),
        None => first_readable(root, &["/sys/fs/cgroup"], group_path(groups, "")?, "cpuset.cpus.effective"),
    }
}

fn container(root: &Path) -> Option<String> {
    let has = |path: &str| root.join(path).exists();
    // systemd and podman write the kind of container into the file; docker leaves it empty.
    let written = std::fs::read_to_string(root.join("run/systemd/container")).ok();
    match written.as_deref().map(str::trim) {
        Some(kind) if !kind.is_empty() => Some(kind.to_owned()),
        _ if has("var/run/secrets/kubernetes.io") => Some("kubernetes".into()),
        _ if has(".dockerenv") => Some("docker".into()),
        _ if has("run/.containerenv") => Some("podman".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

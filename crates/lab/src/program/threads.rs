//! Threads of other programs, from `/proc`: which there are, and the scheduler's account of each.

use std::fs;

/// CPU time of a thread, and the time for which it waited for a CPU (`Documentation/scheduler/sched-stats.rst`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) cpu_ns: u64,
    pub(crate) run_delay_ns: u64,
}

impl Times {
    /// So far; `None`: the thread has ended, or the kernel keeps no account.
    pub(crate) fn of(tid: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
        let mut fields = text.split_whitespace().map(str::parse);
        Some(Self { cpu_ns: fields.next()?.ok()?, run_delay_ns: fields.next()?.ok()? })
    }
}

/// A process and its descendants.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pid: i32,
    /// Children that it had already: they are left alone.
    elder: Vec<i32>,
}

impl Family {
    /// With the descendants that it has already.
    pub(crate) fn all_of(pid: i32) -> Self {
        Self { pid, elder: Vec::new() }
    }

    /// With those to come.
    pub(crate) fn of(pid: i32) -> Self {
        Self { pid, elder: children(pid) }
    }

    /// All processes and threads now.
    pub(crate) fn tids(&self) -> Vec<(i32, i32)> {
        let (mut all, mut processes) = (Vec::new(), vec![self.pid]);
        while let Some(process) = processes.pop() {
            all.extend(tids(process).into_iter().map(|tid| (process, tid)));
            processes.extend(children(process).into_iter().filter(|child| !self.elder.contains(child)));
        }
        all
    }
}

/// The threads of a process.
pub(super) fn tids(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of a process; empty where the kernel does not show them (CONFIG_PROC_CHILDREN).
pub(super) fn children(pid: i32) -> Vec<i32> {
    let of_thread = |tid: i32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    let texts: Vec<String> = tids(pid).into_iter().map(of_thread).collect();
    texts.iter().flat_map(|text| text.split_whitespace()).filter_map(|child| child.parse().ok()).collect()
}

//! A thread of another program, with its start time: a later thread of the same number has another.

use std::fmt;
use std::fs;

use punctual_linux::clock::{Clock, now_ns};

/// `USER_HZ`, the unit of times in `/proc/PID/stat` (include/asm-generic/param.h).
pub(super) const TICK_NS: i64 = 10_000_000;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) process: i32,
    pub(super) tid: i32,
    /// When it started, in ticks since the boot.
    pub(super) started: u64,
}

impl Thread {
    /// A thread of this process, as it is now.
    pub(super) fn find(process: i32, tid: i32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{process}/task/{tid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may hold spaces and parentheses.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        if matches!(fields.next()?, "Z" | "X" | "x") {
            return None;
        }
        Some(Self { process, tid, started: fields.nth(18)?.parse().ok()? })
    }

    /// Whether its number still belongs to it.
    pub(super) fn lives(&self) -> bool {
        Self::find(self.process, self.tid) == Some(*self)
    }

    /// What it used so far (`/proc/TID/schedstat`).
    pub(super) fn times(&self) -> Option<Times> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.tid)).ok()?;
        let mut fields = text.split_whitespace().map(str::parse);
        Some(Times { cpu_ns: fields.next()?.ok()?, run_delay_ns: fields.next()?.ok()? })
    }
}

/// CPU time of a thread, and the time for which it waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) cpu_ns: u64,
    pub(super) run_delay_ns: u64,
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", self.tid)
    }
}

/// This moment in the unit of [`Thread::started`], rounded down.
pub(super) fn tick() -> u64 {
    (now_ns(Clock::Boottime) / TICK_NS).unsigned_abs()
}

/// The threads of a process and of its descendants.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pid: i32,
    /// Children that it had already: they are left alone.
    elder: Vec<i32>,
}

impl Family {
    /// With the descendants that it has already.
    pub(super) fn all_of(pid: i32) -> Self {
        Self { pid, elder: Vec::new() }
    }

    /// With those to come.
    pub(super) fn of(pid: i32) -> Self {
        Self { pid, elder: tids(pid).into_iter().flat_map(|tid| children(pid, tid)).collect() }
    }

    /// All threads now.
    pub(super) fn threads(&self) -> Vec<Thread> {
        let (mut all, mut processes) = (Vec::new(), vec![self.pid]);
        while let Some(process) = processes.pop() {
            for tid in tids(process) {
                all.extend(Thread::find(process, tid));
                let new = |child: &i32| !self.elder.contains(child);
                processes.extend(children(process, tid).into_iter().filter(new));
            }
        }
        all
    }
}

fn tids(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of a thread; empty where the kernel does not list them (CONFIG_PROC_CHILDREN).
fn children(pid: i32, tid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_itself_while_it_lives() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let thread = Thread::find(pid, pid).unwrap();
        assert!(thread.lives() && thread.started <= tick());
        assert!(!Thread { started: thread.started + 1, ..thread }.lives(), "another thread of its number");
        assert!(!Thread { process: 1, ..thread }.lives(), "a thread of another process");
        let family = Family::of(std::process::id().cast_signed());
        assert!(family.threads().iter().all(|other| other.process != pid), "an elder child");
        child.kill().unwrap();
        while thread.lives() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}

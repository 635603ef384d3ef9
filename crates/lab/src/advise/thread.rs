//! A thread of another program, with its start time: a later thread of the same number has another.

use std::fmt;
use std::fs;
use std::path::Path;

use punctual_linux::clock::{Clock, now_ns};

use crate::program::belongs_to_caller;
pub(super) use crate::program::{Family, Times};

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

impl Family {
    /// All threads now.
    pub(super) fn threads(&self) -> Vec<Thread> {
        let own = |process: i32| belongs_to_caller(Path::new(&format!("/proc/{process}")));
        let own = self.tids().into_iter().filter(|(process, _)| own(*process));
        own.filter_map(|(process, tid)| Thread::find(process, tid)).collect()
    }
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
        let family = Family::to_come(std::process::id().cast_signed());
        assert!(family.threads().iter().all(|other| other.process != pid), "an elder child");
        child.kill().unwrap();
        while thread.lives() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}

//! A thread of another program, with its start time: a later thread of the same number has another. The CPU time of a program's threads,
//! and the time that others took from them; which CPUs idle, and what the host took from all of them.

use std::collections::HashMap;
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

/// At one moment.
#[derive(Debug, Default)]
pub(super) struct Usage {
    threads: HashMap<i32, (Thread, Times)>,
    stolen_ns: Option<u64>,
}

/// Between two moments. Absent: the kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) cpu_ns: Option<u64>,
    pub(super) run_delay_ns: Option<u64>,
    pub(super) stolen_ns: Option<u64>,
}

impl Usage {
    /// Of these threads, now.
    pub(super) fn now(threads: Vec<Thread>) -> Self {
        let times = |thread: Thread| Some((thread.tid, (thread, Times::read(thread.tid)?)));
        Self { threads: threads.into_iter().filter_map(times).collect(), stolen_ns: stolen_ns() }
    }

    /// Since an earlier moment.
    pub(super) fn since(&self, before: &Self) -> Spent {
        let sum = |field: fn(&Times) -> u64| {
            let one = |(tid, now): (&i32, &(Thread, Times))| {
                field(&now.1).saturating_sub(before.times(*tid, &now.0).map_or(0, field))
            };
            (!self.threads.is_empty()).then(|| self.threads.iter().map(one).sum())
        };
        Spent {
            cpu_ns: sum(|times| times.cpu_ns),
            run_delay_ns: sum(|times| times.run_delay_ns),
            stolen_ns: self.stolen_ns.zip(before.stolen_ns).map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The share of a CPU of each thread that lived at both moments, which are this far apart.
    pub(super) fn shares(&self, before: &Self, ns: u64) -> HashMap<i32, f64> {
        let one = |(tid, now): (&i32, &(Thread, Times))| {
            let then = before.times(*tid, &now.0)?;
            Some((*tid, now.1.cpu_ns.saturating_sub(then.cpu_ns) as f64 / ns.max(1) as f64))
        };
        self.threads.iter().filter_map(one).collect()
    }

    /// Of the same thread: a later one of its number is another.
    fn times(&self, tid: i32, thread: &Thread) -> Option<&Times> {
        self.threads.get(&tid).filter(|known| known.0 == *thread).map(|known| &known.1)
    }
}

/// Time that the host gave to others (`/proc/stat`, steal), of all CPUs, in ns.
pub(super) fn stolen_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = all.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks.saturating_mul(TICK_NS.unsigned_abs()))
}

/// Whether the kernel has idle states to leave out.
pub(super) fn has_idle_states() -> bool {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    !matches!(driver.trim(), "" | "none")
}

/// Idle time of each CPU in ticks (`/proc/stat`).
pub(super) fn idle_times() -> HashMap<usize, u64> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let idle = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu: usize = fields.next()?.parse().ok()?;
        Some((cpu, fields.nth(3)?.parse().ok()?))
    };
    stat.lines().filter_map(idle).collect()
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

    fn usage(started: u64, cpu_ns: u64, run_delay_ns: u64, stolen_ns: Option<u64>) -> Usage {
        let thread = Thread { process: 1, tid: 7, started };
        Usage { threads: HashMap::from([(7, (thread, Times { cpu_ns, run_delay_ns }))]), stolen_ns }
    }

    #[test]
    fn a_later_thread_of_the_same_number_counts_from_its_start() {
        let before = usage(5, 100, 10, Some(1));
        let same = usage(5, 150, 30, Some(4));
        assert_eq!(same.since(&before), Spent { cpu_ns: Some(50), run_delay_ns: Some(20), stolen_ns: Some(3) });
        assert_eq!(same.shares(&before, 100), HashMap::from([(7, 0.5)]));
        let later = usage(6, 150, 30, None);
        assert_eq!(later.since(&before), Spent { cpu_ns: Some(150), run_delay_ns: Some(30), stolen_ns: None });
        assert!(later.shares(&before, 100).is_empty(), "its share is not known yet");
        assert_eq!(Usage::default().since(&before).cpu_ns, None);
    }

    #[test]
    fn own_time_grows() {
        let pid = std::process::id().cast_signed();
        let own = || Usage::now(Thread::find(pid, pid).into_iter().collect());
        let before = own();
        if before.threads.is_empty() {
            return punctual_testing::lacks(punctual_testing::Lack::File("/proc/self/schedstat"));
        }
        assert!(own().since(&before).stolen_ns.is_some());
    }
}

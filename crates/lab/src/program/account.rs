//! The scheduler's account of a program's threads: `/proc/TID/schedstat` (`Documentation/scheduler/sched-stats.rst`).
//!
//! Threads come and go, so it is read again and again. A thread that lives only between two readings is not in it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::process::{Family, Times};

/// Shortest time from one reading to the next.
const BETWEEN: Duration = Duration::from_millis(100);
/// Readings take at most one part of this many: 2 %.
const SHARE: u32 = 50;

/// The threads that an account is about.
#[derive(Debug, Clone)]
enum Whose {
    /// All threads of the process, and those of the processes that it creates from now on.
    Process(Family),
    /// These threads, and no others.
    Threads(Vec<i32>),
}

/// The account of some threads since it was opened.
#[derive(Debug)]
pub struct Account {
    whose: Whose,
    before: BTreeMap<i32, Times>,
    latest: BTreeMap<i32, Times>,
    next: Instant,
}

impl Account {
    /// Opens the account of a process and of its children to come.
    #[must_use]
    pub fn of_process(pid: i32) -> Self {
        Self::open(Whose::Process(Family::of(pid)))
    }

    /// Opens the account of these threads.
    #[must_use]
    pub fn of_threads(tids: &[i32]) -> Self {
        Self::open(Whose::Threads(tids.to_vec()))
    }

    fn open(whose: Whose) -> Self {
        let mut account = Self { whose, before: BTreeMap::new(), latest: BTreeMap::new(), next: Instant::now() };
        account.look();
        account.before = account.latest.clone();
        account
    }

    /// Reads it again, if it is time.
    pub fn look_now_and_then(&mut self) {
        if Instant::now() >= self.next {
            self.look();
        }
    }

    /// Reads it again.
    pub fn look(&mut self) {
        let begin = Instant::now();
        for tid in self.tids() {
            if let Some(times) = Times::of(tid) {
                self.latest.insert(tid, times);
            }
        }
        self.next = Instant::now() + BETWEEN.max(begin.elapsed() * SHARE);
    }

    /// The threads that it is about, as of now.
    pub(super) fn tids(&self) -> Vec<i32> {
        match &self.whose {
            Whose::Threads(tids) => tids.clone(),
            Whose::Process(family) => family.tids().into_iter().map(|(_, tid)| tid).collect(),
        }
    }

    /// Number of threads seen.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.latest.len() as u64
    }

    /// CPU time since it was opened, ns. `None`: the kernel keeps no account.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        self.sum(|times| times.cpu_ns)
    }

    /// Time that the threads waited for a CPU, summed, ns.
    #[must_use]
    pub fn run_delay_ns(&self) -> Option<u64> {
        self.sum(|times| times.run_delay_ns)
    }

    fn sum(&self, of: fn(&Times) -> u64) -> Option<u64> {
        let since = |(tid, now): (&i32, &Times)| of(now).saturating_sub(self.before.get(tid).map_or(0, of));
        (!self.latest.is_empty()).then(|| self.latest.iter().map(since).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_counts_from_the_opening_on() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        // Reading this clock brings the account up to date.
        let spent = || punctual_linux::clock::now_ns(punctual_linux::clock::Clock::ThreadCpu).unsigned_abs();
        let spin = |ms: u64| {
            let begin = spent();
            while spent() - begin < ms * 1_000_000 {}
        };
        spin(20);
        let mut account = Account::of_threads(&[own]);
        spin(10);
        account.look();
        let Some(cpu_ns) = account.cpu_ns() else {
            return punctual_testing::lacks(punctual_testing::Lack::File("/proc/self/schedstat"));
        };
        assert!(cpu_ns >= 10_000_000, "{cpu_ns}");
        assert_eq!((account.threads(), account.run_delay_ns().is_some()), (1, true));
        let before = spent();
        let mut again = Account::of_threads(&[own]);
        again.look();
        assert!(again.cpu_ns().unwrap() <= spent() - before);
    }

    #[test]
    fn children_to_come_belong_to_it_and_elder_ones_do_not() {
        let mut elder = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut account = Account::of_process(std::process::id().cast_signed());
        let before = account.threads();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        account.look();
        let seen = |process: &std::process::Child| account.latest.contains_key(&process.id().cast_signed());
        assert!(!seen(&elder) && account.threads() >= before);
        if std::path::Path::new("/proc/self/task").join(own()).join("children").exists() {
            assert!(seen(&child));
        }
        for process in [&mut elder, &mut child] {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn own() -> String {
        rustix::thread::gettid().as_raw_nonzero().get().to_string()
    }
}

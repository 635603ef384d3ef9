//! The CPUs that a watched thread may not use and that are idle meanwhile: a program that is pinned beside an idle CPU waits for nothing else.
//! And what the host took from those that it may use.
//!
//! Input: `Cpus_allowed_list` of /proc/TID/status, now and then, and /proc/stat at the begin and at the end.

use std::collections::BTreeMap;
use std::fs::read_to_string;

use punctual_record::Steal;

/// Threads whose CPUs are read at a time.
const MOST: usize = 64;
/// They are read at every fifth look: once a second.
const EACH: u32 = 5;
/// A CPU is idle that was so for this share of the time.
const IDLE: f64 = 0.5;
/// A tick of /proc/stat, ns (USER_HZ, include/asm-generic/param.h).
const TICK_NS: u64 = 10_000_000;

/// The places of the watched threads.
#[derive(Debug)]
pub(super) struct Cpus {
    before: BTreeMap<u32, Usage>,
    allowed: BTreeMap<u32, Vec<u32>>,
    looks: u32,
}

/// The ticks of a CPU in /proc/stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    idle: u64,
    all: u64,
    /// Kernels before 2.6.11 have no such column.
    steal: Option<u64>,
}

impl Cpus {
    pub(super) fn new() -> Self {
        Self { before: usage(&read_to_string("/proc/stat").unwrap_or_default()), allowed: BTreeMap::new(), looks: 0 }
    }

    /// Looks where the threads of these processes may run, if it is time.
    pub(super) fn look(&mut self, pids: &[u32]) {
        let time = self.looks.is_multiple_of(EACH);
        self.looks = self.looks.wrapping_add(1);
        if !time {
            return;
        }
        let tasks = pids.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten();
        let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<u32>().ok());
        for tid in tids.take(MOST) {
            let status = read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
            if let Some(cpus) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) {
                self.allowed.insert(tid, list(cpus.trim()));
            }
        }
    }

    /// The CPUs that were idle, by the begin and now.
    pub(super) fn idle(&self) -> Vec<u32> {
        idle(&self.before, &usage(&read_to_string("/proc/stat").unwrap_or_default()))
    }

    /// What the host took from the CPUs that any of the threads may use; from all, where that is not known.
    pub(super) fn steal(&self) -> Option<Steal> {
        self.stolen(&usage(&read_to_string("/proc/stat").unwrap_or_default()))
    }

    fn stolen(&self, after: &BTreeMap<u32, Usage>) -> Option<Steal> {
        let watched = |cpu: &u32| self.allowed.is_empty() || self.allowed.values().any(|cpus| cpus.contains(cpu));
        let mut sum = Steal::default();
        for (cpu, then) in self.before.iter().filter(|(cpu, _)| watched(cpu)) {
            let Some(now) = after.get(cpu) else { continue };
            sum.cpus += 1;
            sum.ns += now.steal?.saturating_sub(then.steal?).saturating_mul(TICK_NS);
            sum.of_ns += now.all.saturating_sub(then.all).saturating_mul(TICK_NS);
        }
        (sum.of_ns > 0).then_some(sum)
    }

    /// Those of `idle` that this thread may not use.
    pub(super) fn barred(&self, tid: u32, idle: &[u32]) -> Vec<u32> {
        let Some(allowed) = self.allowed.get(&tid) else { return Vec::new() };
        idle.iter().copied().filter(|cpu| !allowed.contains(cpu)).collect()
    }
}

/// `cpu1 user nice system idle iowait irq softirq steal guest guest_nice`: the last two are in the first two.
fn usage(stat: &str) -> BTreeMap<u32, Usage> {
    let of_cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).take(8).collect();
        let (idle, steal) = (ticks.get(3)? + ticks.get(4)?, ticks.get(7).copied());
        Some((cpu, Usage { idle, all: ticks.iter().sum(), steal }))
    };
    stat.lines().filter_map(of_cpu).collect()
}

fn idle(before: &BTreeMap<u32, Usage>, after: &BTreeMap<u32, Usage>) -> Vec<u32> {
    let was_idle = |(cpu, now): (&u32, &Usage)| {
        let then = before.get(cpu)?;
        let (idle, all) = (now.idle.saturating_sub(then.idle), now.all.saturating_sub(then.all));
        (all > 0 && idle as f64 >= IDLE * all as f64).then_some(*cpu)
    };
    after.iter().filter_map(was_idle).collect()
}

/// `0-3,8`.
fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_idle_elsewhere_where_it_is_idle_and_not_allowed() {
        let before =
            usage("cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 50 800 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 7\n");
        let after = usage("cpu0 290 0 60 800 0 0 0 0 0 0\ncpu1 40 0 10 200 50 0 0 0 0 0\ncpu2 0 0 0 90 0 0 0 0 0 0\n");
        assert_eq!(idle(&before, &after), [1], "CPU 2 came later");
        assert_eq!(idle(&after, &after), [0; 0], "no time has passed");
        let mut cpus = Cpus { before, allowed: BTreeMap::new(), looks: 0 };
        cpus.allowed.insert(7, list("0,2-3"));
        assert_eq!(cpus.barred(7, &[1, 2]), [1]);
        assert_eq!(cpus.barred(8, &[1]), [0; 0], "where it may run is not known");
        cpus.look(&[std::process::id()]);
        assert_eq!(cpus.barred(std::process::id(), &cpus.allowed[&std::process::id()].clone()), [0; 0]);
    }

    #[test]
    fn what_the_host_takes_is_that_of_the_cpus_of_the_threads() {
        let before = usage("cpu0 100 0 50 800 0 0 0 7 0 0\ncpu1 0 0 0 100 0 0 0 9 0 0\n");
        let after = usage("cpu0 250 0 50 900 0 0 0 57 0 0\ncpu1 10 0 0 200 0 0 0 99 0 0\ncpu2 0 0 0 90 0 0 0 80 0 0\n");
        let mut cpus = Cpus { before, allowed: BTreeMap::new(), looks: 0 };
        let of = |cpus, ticks: u64, of: u64| Some(Steal { cpus, ns: ticks * TICK_NS, of_ns: of * TICK_NS });
        assert_eq!(cpus.stolen(&after), of(2, 140, 500), "where they may run is not known");
        cpus.allowed.insert(7, list("0"));
        assert_eq!(cpus.stolen(&after), of(1, 50, 300));
        assert_eq!(cpus.stolen(&cpus.before), None, "no time has passed");
        assert_eq!(cpus.stolen(&usage("cpu0 250 0 50 900 0 0 0\n")), None, "the kernel does not count it");
    }
}

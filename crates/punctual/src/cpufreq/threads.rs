//! The kernel threads that do the governors' work; a real-time thread can starve them.

use std::fmt;
use std::path::Path;

use super::system::Cpufreq;

/// The role of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    /// `sugov:N`: changes the frequency of policy N for `schedutil`, if the driver cannot do so from the scheduler.
    Schedutil {
        /// The policy.
        policy: usize,
    },
    /// `kworker/N:M`: does the work of `ondemand` and `conservative` on CPU N, among other things.
    Worker {
        /// The CPU it is bound to.
        cpu: usize,
    },
}

/// A kernel thread that a governor depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernorThread {
    /// Thread ID.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Its role.
    pub serves: Serves,
    /// Scheduling policy as the kernel numbers it: 0 SCHED_OTHER, 1 SCHED_FIFO, 2 SCHED_RR, 6 SCHED_DEADLINE.
    pub policy: u32,
    /// Priority under SCHED_FIFO and SCHED_RR, 1 to 99; otherwise 0.
    pub priority: u32,
    /// Nice value.
    pub nice: i32,
}

impl fmt::Display for GovernorThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tid, name, policy, priority, nice, .. } = self;
        match policy {
            1 => write!(f, "{name} ({tid}): SCHED_FIFO {priority}"),
            2 => write!(f, "{name} ({tid}): SCHED_RR {priority}"),
            6 => write!(f, "{name} ({tid}): SCHED_DEADLINE"),
            0 => write!(f, "{name} ({tid}): SCHED_OTHER, nice {nice}"),
            other => write!(f, "{name} ({tid}): policy {other}"),
        }
    }
}

impl GovernorThread {
    /// Whether a thread under SCHED_FIFO or SCHED_RR with this priority can starve it on the same CPU.
    #[must_use]
    pub fn starves_below(&self, priority: u32) -> bool {
        match self.policy {
            6 => false,
            1 | 2 => self.priority < priority,
            _ => priority > 0,
        }
    }
}

impl Cpufreq {
    /// The kernel threads that the governors of these CPUs depend on.
    #[must_use]
    pub fn governor_threads(&self) -> Vec<GovernorThread> {
        let proc = self.root().join("proc");
        let entries = std::fs::read_dir(&proc).into_iter().flatten().filter_map(Result::ok);
        let mut threads: Vec<GovernorThread> = entries
            .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|tid| thread(&proc, tid))
            .collect();
        threads.sort_by_key(|thread| thread.tid);
        threads
    }
}

/// Parses /proc/PID/stat (proc_pid_stat(5)). The name is in brackets and may contain anything, so fields are counted
/// from the last bracket.
fn thread(proc: &Path, tid: i32) -> Option<GovernorThread> {
    let stat = std::fs::read_to_string(proc.join(tid.to_string()).join("stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    // The parent (field 4) of every kernel thread is kthreadd, 2. A program can call itself kworker, but it has another
    // parent.
    if fields.get(1) != Some(&"2") {
        return None;
    }
    let serves = serves(&name)?;
    let (nice, priority, policy) = (fields.get(16)?, fields.get(37)?, fields.get(38)?);
    Some(GovernorThread {
        tid,
        name,
        serves,
        policy: policy.parse().ok()?,
        priority: priority.parse().ok()?,
        nice: nice.parse().ok()?,
    })
}

fn serves(name: &str) -> Option<Serves> {
    if let Some(policy) = name.strip_prefix("sugov:") {
        return Some(Serves::Schedutil { policy: policy.parse().ok()? });
    }
    // kworker/1:0 is bound to CPU 1; kworker/1:0H serves another queue; kworker/u4:0 is not bound.
    let (cpu, rest) = name.strip_prefix("kworker/")?.split_once(':')?;
    let worker = rest.split(['-', '+']).next()?;
    let plain = !worker.is_empty() && worker.bytes().all(|b| b.is_ascii_digit());
    Some(Serves::Worker { cpu: cpu.parse().ok().filter(|_| plain)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_thread_serves() {
        assert_eq!(serves("sugov:4"), Some(Serves::Schedutil { policy: 4 }));
        assert_eq!(serves("kworker/1:0-events"), Some(Serves::Worker { cpu: 1 }));
        assert_eq!(serves("kworker/12:3"), Some(Serves::Worker { cpu: 12 }));
        for other in ["kworker/1:0H", "kworker/u4:0", "kworker/R-rcu_g", "ksoftirqd/0", "sugov:x"] {
            assert_eq!(serves(other), None, "{other}");
        }
    }
}

//! The kernel threads that do the governors' work, and how they are raised temporarily: a real-time thread can starve them.
//!
//! Only threads under SCHED_OTHER are raised, so the way back is always the same; their nice value does not change.
//! They are recorded in a separate file before they are raised, by number and name. Restoring checks both.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use punctual_linux::sched::{self, Attributes};

use super::system::Cpufreq;
use crate::restore::journal::boot;
use crate::restore::{Error, StateDir};

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

/// Name of the file in the state folder.
pub(super) const THREADS: &str = "threads";
const MAGIC: &str = "punctual-threads-1";
/// Longest file that is read.
const LONGEST: u64 = 1 << 20;

/// The threads raised so far.
#[derive(Debug)]
pub(super) struct Raised {
    file: File,
    state: StateDir,
    threads: Vec<(i32, String)>,
}

impl Raised {
    /// Opens the file, restores the threads that an earlier program left raised, and reports it.
    pub(super) fn open(cpufreq: &Cpufreq, state: &StateDir) -> Result<(Self, Vec<String>), Error> {
        let mut raised = Self { file: state.open(THREADS)?, state: state.clone(), threads: Vec::new() };
        raised.threads = raised.left_behind()?;
        let told =
            raised.threads.iter().map(|(tid, name)| format!("kernel thread {name} ({tid}): back under SCHED_OTHER"));
        let told = told.collect();
        raised.put_back(cpufreq);
        Ok((raised, told))
    }

    fn left_behind(&mut self) -> Result<Vec<(i32, String)>, Error> {
        let mut text = String::new();
        let read = self.file.rewind().and_then(|()| (&self.file).take(LONGEST).read_to_string(&mut text));
        // This program writes text only; a file that is not text is foreign.
        if read.is_err() {
            return Ok(Vec::new());
        }
        let mut lines = text.lines();
        if lines.next() != Some(&format!("{MAGIC} {}", boot())) {
            return Ok(Vec::new());
        }
        let parse = |line: &str| {
            let (tid, name) = line.split_once(' ')?;
            Some((tid.parse().ok()?, name.to_owned()))
        };
        Ok(lines.filter_map(parse).collect())
    }

    /// Raises the governor threads of these CPUs and policies to SCHED_FIFO, and returns them.
    pub(super) fn raise(
        &mut self,
        cpufreq: &Cpufreq,
        cpus: &[usize],
        policies: &[usize],
        priority: u8,
    ) -> Result<Vec<GovernorThread>, Error> {
        let concerned = |thread: &GovernorThread| match thread.serves {
            Serves::Schedutil { policy } => policies.contains(&policy),
            Serves::Worker { cpu } => cpus.contains(&cpu),
        };
        let threads = cpufreq.governor_threads();
        let threads: Vec<_> = threads.into_iter().filter(|t| concerned(t) && t.policy == sched::OTHER).collect();
        let mut raised = Vec::new();
        for thread in threads {
            if self.threads.iter().all(|(tid, _)| *tid != thread.tid) {
                self.note(&thread)?;
            }
            let wanted = Attributes { policy: sched::FIFO, priority: u32::from(priority), ..Attributes::default() };
            match sched::set_attributes(thread.tid, &wanted) {
                Ok(()) => raised.push(thread),
                // Workers start and end on demand.
                Err(error) if error.errno() == rustix::io::Errno::SRCH.raw_os_error() => {}
                Err(error) => {
                    let object = format!("/proc/{}", thread.tid);
                    return Err(Error::io(format!("raising {} to SCHED_FIFO:", thread.name), object, error.source));
                }
            }
        }
        Ok(raised)
    }

    fn note(&mut self, thread: &GovernorThread) -> Result<(), Error> {
        let mut text = String::new();
        if self.threads.is_empty() {
            text = format!("{MAGIC} {}\n", boot());
        }
        text.push_str(&format!("{} {}\n", thread.tid, base(&thread.name)));
        self.file.write_all(text.as_bytes()).map_err(|e| Error::io("writing", self.state.path().join(THREADS), e))?;
        self.threads.push((thread.tid, base(&thread.name).to_owned()));
        Ok(())
    }

    /// Restores SCHED_OTHER. A thread that has ended, or whose number belongs to another now, is left alone.
    pub(super) fn put_back(&mut self, cpufreq: &Cpufreq) {
        if self.threads.is_empty() {
            return;
        }
        let mut all = true;
        let now = cpufreq.governor_threads();
        for (tid, name) in self.threads.drain(..) {
            let Some(thread) = now.iter().find(|t| t.tid == tid && base(&t.name) == name && t.policy == sched::FIFO)
            else {
                continue;
            };
            let wanted = Attributes { policy: sched::OTHER, nice: thread.nice, ..Attributes::default() };
            all &= sched::set_attributes(tid, &wanted).is_ok();
        }
        // A thread that could not be restored stays listed for the next program. A file that could not be emptied lists
        // threads that are under SCHED_OTHER already; they are left alone then.
        if all {
            drop(self.file.set_len(0).and_then(|()| self.file.rewind()));
        }
    }
}

/// A worker's name without its current task: `kworker/1:0` of `kworker/1:0-events`.
fn base(name: &str) -> &str {
    name.split(['-', '+']).next().unwrap_or(name)
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

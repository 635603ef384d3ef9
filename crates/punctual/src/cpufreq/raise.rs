//! Raises the kernel threads that do a governor's work, temporarily.
//!
//! Only threads under SCHED_OTHER are raised, so the way back is always the same; their nice value does not change.
//! They are recorded in a separate file before they are raised, by number and name. Restoring checks both.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};

use punctual_linux::sched::{self, Attributes};

use super::system::Cpufreq;
use super::threads::{GovernorThread, Serves};
use crate::restore::journal::boot;
use crate::restore::{Error, StateDir};

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

//! The process to watch and its threads, from `/proc`, the scheduler's account of each, and why it cannot be watched.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use punctual_linux::inherited;

/// Flag in `/proc/PID/stat` (`include/linux/sched.h`, PF_KTHREAD).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Names in a refusal.
const MOST_NAMES: usize = 8;

/// A process and those of its threads that are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// The threads.
    pub tids: Vec<i32>,
    /// When it started, in ticks since the boot: its number may be given to another.
    started: u64,
}

/// Why a process cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The process cannot be watched, and why.
    Process(String),
    /// It is a thread of another process.
    OfAnother {
        /// Its name.
        name: String,
        /// That process.
        process: i32,
    },
    /// No thread has the name that was asked for, and which names there are.
    Threads(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(why) | Self::Threads(why) => f.write_str(why),
            Self::OfAnother { name, process } => write!(f, "{name} is a thread of process {process}"),
        }
    }
}

impl Process {
    /// A process with its threads, or those of this name; `*` stands for any letters.
    ///
    /// # Errors
    /// Without such a process or thread. For a kernel thread, a process that has ended, and this process. Without the
    /// privilege, for another user's.
    pub fn find(pid: i32, thread: Option<&str>) -> Result<Self, Refused> {
        let no = |why: String| Err(Refused::Process(why));
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let Some(facts) = Facts::read(&folder) else { return no("there is no such process".into()) };
        let name = &facts.name;
        if facts.flags & KERNEL_THREAD != 0 {
            return no(format!("{name} is a kernel thread, which makes no calls"));
        }
        if facts.group != pid {
            return Err(Refused::OfAnother { name: facts.name, process: facts.group });
        }
        if pid.cast_unsigned() == std::process::id() {
            return no("is this process; it watches its own waits without a process ID".into());
        }
        if matches!(facts.state, 'Z' | 'X') {
            return no(format!("{name} has ended, and its parent has not waited for it"));
        }
        if !facts.may_be_watched {
            return no(format!("{name} belongs to another user; watch it as that user or as root"));
        }
        let all = tids(pid);
        let Some(wanted) = thread else { return Ok(facts.into_process(pid, all)) };
        let named = |tid: &i32| std::fs::read_to_string(folder.join(format!("task/{tid}/comm"))).unwrap_or_default();
        let tids: Vec<i32> = all.iter().copied().filter(|tid| is_like(wanted, named(tid).trim_end())).collect();
        if tids.is_empty() {
            let mut names: Vec<String> = all.iter().map(|tid| named(tid).trim_end().to_owned()).collect();
            names.sort_unstable();
            names.dedup();
            let more = if names.len() > MOST_NAMES { ", ..." } else { "" };
            names.truncate(MOST_NAMES);
            return Err(Refused::Threads(format!(
                "no thread of {name} has this name; it has {}{more}",
                names.join(", ")
            )));
        }
        Ok(facts.into_process(pid, tids))
    }

    /// The processes that it has created so far. Empty where the kernel does not show them (CONFIG_PROC_CHILDREN).
    #[must_use]
    pub fn children(&self) -> Vec<i32> {
        children(self.pid)
    }

    /// Whether it still runs: not ended, and its number not given to another.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.state() != State::Ended
    }

    /// What it does now.
    #[must_use]
    pub fn state(&self) -> State {
        let facts = Facts::read(Path::new(&format!("/proc/{}", self.pid)));
        match facts.filter(|facts| facts.started == self.started).map(|facts| facts.state) {
            None | Some('Z' | 'X') => State::Ended,
            Some('T') => State::Stopped,
            Some('t') => State::Traced,
            Some(_) => State::Runs,
        }
    }
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs or waits.
    Runs,
    /// A signal stopped it. By whom is not known.
    Stopped,
    /// A debugger stopped it.
    Traced,
    /// It ended, or its number was given to another.
    Ended,
}

/// The facts of `/proc/PID/stat` and `/proc/PID/status`.
struct Facts {
    name: String,
    state: char,
    flags: u64,
    started: u64,
    group: i32,
    may_be_watched: bool,
}

impl Facts {
    fn into_process(self, pid: i32, tids: Vec<i32>) -> Process {
        Process { pid, name: self.name, tids, started: self.started }
    }

    fn read(folder: &Path) -> Option<Self> {
        let stat = std::fs::read(folder.join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may hold spaces and parentheses.
        let (before, after) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let status = std::fs::read(folder.join("status")).ok()?;
        let status = String::from_utf8_lossy(&status);
        let field = |text: &str, key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next().map(str::to_owned))
        };
        let own = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let owner = field(&status, "Uid:")?;
        // CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON (capabilities(7)): each reaches beyond one user.
        let capabilities = u64::from_str_radix(&field(&own, "CapEff:").unwrap_or_default(), 16).unwrap_or(0);
        let privileged = [19, 21, 38].into_iter().any(|bit| capabilities >> bit & 1 == 1);
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            flags: fields.get(6)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            group: field(&status, "Tgid:")?.parse().ok()?,
            may_be_watched: belongs_to_caller(folder) && (privileged || field(&own, "Uid:") == Some(owner)),
        })
    }
}

/// Whether a process (`/proc/PID`) is of the user who called the command. Privileges that the file of the command has (setcap(8)) reach
/// beyond one user, and are not to. The folder belongs to root where the process has, or had, other privileges than its user (proc(5)).
pub(crate) fn belongs_to_caller(folder: &Path) -> bool {
    let user = rustix::process::getuid().as_raw();
    !inherited::gained_privileges() || folder.metadata().is_ok_and(|folder| folder.uid() == user)
}

/// Whether a name matches a pattern in which `*` stands for any letters.
fn is_like(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(after) = name.strip_prefix(first) else { return false };
    (0..=after.len()).any(|at| after.is_char_boundary(at) && is_like(rest, &after[at..]))
}

/// CPU time of a thread, and the time for which it waited for a CPU (`Documentation/scheduler/sched-stats.rst`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) cpu_ns: u64,
    pub(crate) run_delay_ns: u64,
}

impl Times {
    /// The times of a thread so far. `None`: it has ended, or the kernel keeps no account.
    pub(crate) fn read(tid: i32) -> Option<Self> {
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
    /// A process with the descendants that it has already.
    pub(crate) fn so_far(pid: i32) -> Self {
        Self { pid, elder: Vec::new() }
    }

    /// A process with its descendants to come.
    pub(crate) fn to_come(pid: i32) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_any_letters_between() {
        for (pattern, name) in [("redis", "redis"), ("worker*", "worker-12"), ("*-12", "worker-12"), ("w*-*2", "w-12")]
        {
            assert!(is_like(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("redis", "redis-2"), ("worker*", "a worker"), ("*x", "worker"), ("", "worker")] {
            assert!(!is_like(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn what_cannot_be_watched_says_why() {
        let refused = |pid, thread| Process::find(pid, thread).unwrap_err().to_string();
        assert_eq!(refused(i32::MAX, None), "there is no such process");
        assert!(refused(std::process::id().cast_signed(), None).contains("this process"));
        // kthreadd, where the process sees it.
        if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert_eq!(refused(2, None), "kthreadd is a kernel thread, which makes no calls");
        }
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let process = Process::find(pid, None).unwrap();
        assert_eq!((process.tids.as_slice(), process.runs()), (&[pid][..], true));
        assert!(refused(pid, Some("no such name")).starts_with("no thread of "));
        child.kill().unwrap();
        while process.runs() {
            std::thread::yield_now();
        }
        assert!(refused(pid, None).ends_with("has ended, and its parent has not waited for it"));
        child.wait().unwrap();
        assert_eq!(refused(pid, None), "there is no such process");
    }

    #[test]
    fn a_thread_is_no_process() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = ended.recv();
        });
        let said = Process::find(told.recv().unwrap(), None).unwrap_err().to_string();
        assert!(said.contains(&format!("is a thread of process {}", std::process::id())), "{said}");
        drop(end);
        thread.join().unwrap();
    }
}

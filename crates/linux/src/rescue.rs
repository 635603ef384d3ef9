//! Frees threads from a CPU that a thread of higher priority occupies.
//!
//! A thread that never gets its CPU can neither finish nor die: SIGKILL takes effect only when the thread runs. The kernel moves a
//! runnable thread as soon as its affinity excludes its CPU (`__set_cpus_allowed_ptr` in kernel/sched/core.c). So a thread on
//! another CPU can free it.

use crate::sched::{self, Attributes, RESET_ON_FORK};

/// CPUs in the mask of a freed thread: `CONFIG_NR_CPUS` of the largest kernels. The kernel drops CPUs that do not exist or are outside the
/// cpuset.
const CPUS: usize = 8192;

/// Puts thread `tid` under SCHED_OTHER and lets it run on every CPU of its cpuset. For a thread that must end: nothing is restored.
///
/// Ignores refusals of the kernel, and threads that have ended.
pub fn free_thread(tid: i32) {
    if let Ok(now) = sched::attributes(tid)
        && now.policy != sched::OTHER
    {
        // Without the privilege to clear the flag, keep it.
        let flags = now.flags & RESET_ON_FORK;
        let nice = sched::nice(tid).unwrap_or(0);
        let other = Attributes { policy: sched::OTHER, flags, nice, ..Attributes::default() };
        drop(sched::set_attributes(tid, &other));
    }
    let all: Vec<usize> = (0..CPUS).collect();
    drop(sched::set_affinity(tid, &all));
}

/// [`free_thread`] for every thread of process `pid` except thread `but`.
pub fn free_process(pid: i32, but: Option<i32>) {
    threads_of(pid).into_iter().filter(|tid| Some(*tid) != but).for_each(free_thread);
}

/// The threads of process `pid` that have not ended: `/proc/PID/task`. A zombie has none.
#[must_use]
pub fn threads_of(pid: i32) -> Vec<i32> {
    let lives = |tid: &i32| {
        state(&format!("/proc/{pid}/task/{tid}/stat")).is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
    };
    numbers_in(&format!("/proc/{pid}/task")).into_iter().filter(lives).collect()
}

/// The state of a thread or process, the third field of its `stat` file (proc(5)).
fn state(path: &str) -> Option<char> {
    let stat = std::fs::read_to_string(path).ok()?;
    // The name in parentheses may contain blanks and parentheses.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;

    #[test]
    fn threads_are_found_until_they_end() {
        let child = Child::spawn("a ) b", || std::thread::sleep(std::time::Duration::from_secs(3600))).unwrap();
        let own = std::process::id() as i32;
        assert!(threads_of(own).contains(&sched::current_thread_id()));
        assert!(threads_of(child.id()) == [child.id()]);
        let id = child.id();
        drop(child);
        assert!(threads_of(id).is_empty());
    }

    #[test]
    fn a_pinned_batch_thread_is_freed() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let before = sched::affinity(0).unwrap();
        let thread = std::thread::spawn(move || {
            let first = sched::affinity(0).unwrap()[0];
            sched::set_affinity(0, &[first]).unwrap();
            sched::set_attributes(0, &Attributes { policy: sched::BATCH, ..Attributes::default() }).unwrap();
            tell.send(sched::current_thread_id()).unwrap();
            let _ = ended.recv();
        });
        let tid = told.recv().unwrap();
        free_thread(tid);
        assert_eq!(sched::attributes(tid).unwrap().policy, sched::OTHER);
        assert!(sched::affinity(tid).unwrap().len() >= before.len());
        drop(end);
        thread.join().unwrap();
        // Gone: nothing to free, and nothing goes wrong.
        free_thread(tid);
    }
}

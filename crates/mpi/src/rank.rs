//! The other ranks of this node: whether one is ready to run on this CPU, and whether they have to share CPUs.
//!
//! The launcher starts the ranks of a node, so they are children of one process: proc_pid_task(5), `children`. proc_pid_stat(5) has
//! the state of each, and its CPU. Where /proc cannot be read, or another process starts a rank, there is none. It allocates nothing.

use std::ffi::CStr;
use std::io::Write as _;

/// Room for the numbers of some 500 processes. Further ones are not looked at.
const CHILDREN: usize = 4096;
/// Room for all fields of `stat`.
const STAT: usize = 1024;
/// The state of a process, counted from the end of its name.
const STATE: usize = 0;
/// The CPU on which it runs or waits for its turn.
const PROCESSOR: usize = 36;

/// Another rank could use this CPU now.
pub(crate) fn another_is_here() -> bool {
    // SAFETY: these calls have no preconditions.
    let (me, cpu) = unsafe { (libc::getpid(), libc::sched_getcpu()) };
    any(|rank| rank != me && is_ready(rank, cpu))
}

/// More ranks may run on the CPUs of this one than there are CPUs.
pub(crate) fn share_cpus() -> bool {
    let Some(mine) = cpus(0) else { return true };
    let mut ranks = 0;
    any(|rank| {
        ranks += usize::from(cpus(rank).is_some_and(|theirs| theirs.iter().zip(&mine).any(|(a, b)| a & b != 0)));
        false
    });
    ranks > mine.iter().map(|word| word.count_ones() as usize).sum()
}

/// Whether a process has this name (proc_pid_comm(5)).
pub(crate) fn is_named(process: i32, name: &CStr) -> bool {
    let mut comm = [0; 32];
    read(format_args!("/proc/{process}/comm\0"), &mut comm).trim_ascii_end() == name.to_bytes()
}

/// Whether a condition holds for any rank of this node, this one included.
fn any(condition: impl FnMut(i32) -> bool) -> bool {
    // SAFETY: getppid(2) has no preconditions.
    let parent = unsafe { libc::getppid() };
    let mut children = [0; CHILDREN];
    let children = read(format_args!("/proc/{parent}/task/{parent}/children\0"), &mut children);
    children.split(u8::is_ascii_whitespace).filter_map(number).any(condition)
}

/// The CPUs that a process may use.
fn cpus(process: i32) -> Option<[u64; 128]> {
    let mut cpus = [0; 128];
    // SAFETY: the words may be written to. The kernel fills no more than it has CPUs.
    let filled = unsafe { libc::sched_getaffinity(process, size_of_val(&cpus), cpus.as_mut_ptr().cast()) } == 0;
    filled.then_some(cpus)
}

/// Whether the main thread of a process runs on a CPU, or waits for its turn there.
fn is_ready(process: i32, cpu: i32) -> bool {
    let mut stat = [0; STAT];
    let stat = read(format_args!("/proc/{process}/stat\0"), &mut stat);
    // The name is in parentheses and may contain any byte.
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else { return false };
    let mut fields = stat[end + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    fields.nth(STATE) == Some(b"R") && fields.nth(PROCESSOR - STATE - 1).and_then(number) == Some(cpu)
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The beginning of a file; nothing where it cannot be read. `path` ends with a NUL.
fn read<'a>(path: std::fmt::Arguments, into: &'a mut [u8]) -> &'a [u8] {
    let mut name = [0; 64];
    if (&mut name[..]).write_fmt(path).is_err() {
        return &[];
    }
    // SAFETY: the name ends with a NUL, and `into` may be written to.
    let length = unsafe {
        let file = libc::open(name.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return &[];
        }
        let length = libc::read(file, into.as_mut_ptr().cast(), into.len());
        libc::close(file);
        length
    };
    &into[..usize::try_from(length).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_rank_is_here_while_it_computes_on_this_cpu() {
        let cpu = punctual_testing::first_cpu();
        let mut busy =
            Command::new("taskset").args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]).spawn().unwrap();
        let mut asleep = Command::new("sleep").arg("1000").spawn().unwrap();
        let (cpu, process) = (cpu as i32, busy.id() as i32);
        while !is_named(process, c"sh") || !is_ready(process, cpu) || is_ready(asleep.id() as i32, cpu) {
            std::thread::yield_now();
        }
        assert!(!is_ready(process, cpu + 1));
        assert!(!is_named(process, c"s"));
        assert_eq!(cpus(process).unwrap().iter().map(|word| word.count_ones()).sum::<u32>(), 1);
        for child in [&mut busy, &mut asleep] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

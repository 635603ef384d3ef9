//! A lock per CPU keeps measuring runs apart: the second run on a CPU waits for the first, or fails.
//!
//! A lock is an abstract socket ([`punctual_linux::named_lock`]): the kernel releases it when the holder ends, even by SIGKILL.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use anyhow::Context as _;
use punctual::{Conditions, CpuSet};
use punctual_lab::Stop;
use punctual_linux::named_lock::{Attempt, Holder, NamedLock, try_take};
use punctual_linux::sched::affinity;
use punctual_record::sanitize;

use crate::args::OutputArgs;
use crate::refusal::BadUsage;
use crate::terminal;

/// Names the set of locks. Runs of different sets do not see each other. An empty name disables locking.
const NAMESPACE: &str = "PUNCTUAL_LOCK_NAMESPACE";
/// Longest name of a set: the whole name must fit into a socket address, 107 bytes.
const LONGEST_NAMESPACE: usize = 64;
/// Most characters shown of a holder's command line.
const LONGEST_COMMAND: usize = 70;
/// Pause before waiting again for a process that released a lock and took it back.
const HELD_AGAIN: Duration = Duration::from_millis(100);

/// The locks of a run; released on drop.
#[derive(Debug, Default)]
pub(crate) struct CpuLocks(Vec<NamedLock>);

impl Drop for CpuLocks {
    /// Releases from the last CPU to the first: a waiter, which starts at the first, finds the others free.
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// The CPUs that a run may measure on: `--cpu`, or all that the process may use.
pub(crate) fn cpus(asked: Option<&CpuSet>) -> CpuSet {
    let possible = |cpus: &&CpuSet| Conditions::new().cpus(&(*cpus).clone()).impossible_here().is_none();
    match asked.filter(possible) {
        Some(cpus) => cpus.clone(),
        None => affinity(0).map(CpuSet::from_iter).unwrap_or_default(),
    }
}

/// Takes the locks of `cpus` in ascending order, so that two runs never deadlock. `None`: a signal ended the wait.
pub(crate) fn take(cpus: &CpuSet, wanted: &OutputArgs, stop: &Stop) -> anyhow::Result<Option<CpuLocks>> {
    let Some(namespace) = namespace()? else { return Ok(Some(CpuLocks::default())) };
    let mut locks = CpuLocks::default();
    for cpu in cpus.iter() {
        match take_one(&format!("punctual/{namespace}/cpu{cpu}"), cpu, wanted.no_wait, stop) {
            Ok(Some(lock)) => locks.0.push(lock),
            Ok(None) => return Ok(None),
            Err(error) if error.is::<InUse>() => return Err(error),
            Err(error) => {
                if !wanted.quiet {
                    terminal::complain(&format!(
                        "CPU {cpu} is not locked: {error:#}; another measuring run on this CPU would not be noticed"
                    ));
                }
                // Releases the locks taken so far: at a descriptor limit the run needs their descriptors.
                return Ok(Some(CpuLocks::default()));
            }
        }
    }
    Ok(Some(locks))
}

/// Another run holds a CPU, and `--no-wait` was given.
#[derive(Debug, thiserror::Error)]
#[error(
    "CPU {cpu} is in use by {holder}; wait for its end, choose other CPUs, omit --no-wait, or set {NAMESPACE}= to measure beside it"
)]
struct InUse {
    cpu: usize,
    holder: String,
}

fn take_one(name: &str, cpu: usize, no_wait: bool, stop: &Stop) -> anyhow::Result<Option<NamedLock>> {
    let mut woken = None;
    let mut told = None;
    loop {
        let holder = match try_take(name)? {
            Attempt::Taken(lock) => return Ok(Some(lock)),
            Attempt::Held(holder) => holder,
        };
        let who = describe(&holder);
        if no_wait {
            return Err(InUse { cpu, holder: who }.into());
        }
        if told.as_ref() == Some(&who) {
            std::thread::sleep(HELD_AGAIN);
        } else {
            terminal::complain(&format!(
                "waiting for CPU {cpu}: in use by {who}; with --no-wait, this fails instead; with {NAMESPACE}=, it measures beside it"
            ));
            told = Some(who);
        }
        let woken = match &woken {
            Some(woken) => woken,
            None => woken.insert(woken_by(stop)?),
        };
        if stop.requested() || !holder.wait(woken.as_fd())? {
            return Ok(None);
        }
    }
}

/// A pipe that becomes readable when the run is asked to end.
fn woken_by(stop: &Stop) -> anyhow::Result<std::io::PipeReader> {
    let (woken, waker) = std::io::pipe().context("creating the wake-up pipe")?;
    stop.wake_by(move || {
        // It fails only if no thread waits any longer.
        let _ = (&waker).write(b"!");
    });
    Ok(woken)
}

/// The name of the set of locks. `None`: no locks.
fn namespace() -> Result<Option<String>, BadUsage> {
    let Some(name) = std::env::var_os(NAMESPACE) else { return Ok(Some("default".into())) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name.to_str() {
        Some("") => Ok(None),
        Some(name) if name.len() <= LONGEST_NAMESPACE && name.chars().all(allowed) => Ok(Some(name.to_owned())),
        _ => Err(BadUsage(format!(
            "invalid {NAMESPACE}: at most {LONGEST_NAMESPACE} letters, digits, '.', '_' and '-' (example: nightly-2); empty disables locking"
        ))),
    }
}

/// Describes the holder: command line, if readable, process ID and user. Any user may take a lock.
fn describe(holder: &Holder) -> String {
    let user = holder.user.map(|user| format!("user {user}"));
    let Some(pid) = holder.pid else {
        let user = user.map(|user| format!(" ({user})")).unwrap_or_default();
        return format!("a process that cannot be seen from here{user}");
    };
    let user = user.map(|user| format!(", {user}")).unwrap_or_default();
    match command_line(pid) {
        Some(command) => format!("{command} (pid {pid}{user})"),
        None => format!("a process (pid {pid}{user})"),
    }
}

/// The command line of a process on one line, without control characters; its name if it has none (a zombie).
fn command_line(pid: i32) -> Option<String> {
    let words = read(&format!("/proc/{pid}/cmdline")).filter(|words| !words.is_empty());
    let mut words = words.or_else(|| read(&format!("/proc/{pid}/comm")))?;
    while words.last().is_some_and(|byte| matches!(byte, 0 | b'\n')) {
        words.pop();
    }
    words.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    let line = String::from_utf8_lossy(&words);
    let (program, arguments) = line.split_at(line.find(' ').unwrap_or(line.len()));
    let program = program.rsplit('/').next().unwrap_or(program);
    Some(sanitize::line(&format!("{program}{arguments}"), LONGEST_COMMAND)).filter(|line| !line.is_empty())
}

/// The first 4 KiB of a file in /proc.
fn read(path: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(4096).read_to_end(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_cut_and_harmless() {
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", "read x", "\u{1b}[31m", "a\nb", &"long".repeat(100)])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Just after it began to be the shell, it has no command line yet.
        let line = punctual_testing::eventually("its command line", || {
            command_line(child.id() as i32).filter(|line| line.starts_with("sh "))
        });
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(line.starts_with("sh -c read x ?[31m a b long") && line.ends_with('…'), "{line}");
        assert_eq!(line.chars().count(), LONGEST_COMMAND + 1);
        assert_eq!(command_line(i32::MAX), None);
    }

    #[test]
    fn a_cpu_that_the_machine_has_not_stands_for_all() {
        let all = cpus(None);
        assert!(!all.is_empty());
        assert_eq!(cpus(Some(&CpuSet::from_iter([8191]))), all);
        let first = CpuSet::from_iter(all.iter().take(1));
        assert_eq!(cpus(Some(&first)), first);
    }
}

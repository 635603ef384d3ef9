//! What is said beside the figures: notes on stderr, and before the first value with `-v` the CPUs of the machine and the threads.

use punctual::CpuSet;

use super::options::{Affinity, Options};
use crate::terminal;

/// A note on stderr. Like cyclictest's comments, it begins with `#`: programs that read both streams pass over it.
pub(super) fn say(note: &str) {
    let note: String = note.chars().filter(|c| !c.is_control()).collect();
    terminal::say(&format!("# {note}\n"));
}

/// What `-v` says of the machine.
pub(super) fn facts(options: &Options, allowed: &CpuSet) -> String {
    let configured = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok();
    let configured = configured.and_then(|list| list.parse::<CpuSet>().ok()).map_or(allowed.len(), |cpus| cpus.len());
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|list| list.parse::<CpuSet>().ok()).map_or(allowed.len(), |cpus| cpus.len());
    let used = match &options.affinity {
        Affinity::These(cpus) => format!("Using {} cpus.\n", cpus.len()),
        Affinity::All => String::new(),
    };
    let first = if options.verbose_before_cpus { used.as_str() } else { "" };
    format!("{first}Max CPUs = {configured}\nOnline CPUs = {online}\n{used}")
}

/// What `-v` says of the threads. The interval shown is that of the next thread, as theirs is.
pub(super) fn threads(options: &Options, allowed: &CpuSet) -> String {
    let line = |number: usize| {
        let cpu = options.cpu_of(number, allowed).filter(|_| matches!(options.affinity, Affinity::These(_)));
        let cpu = cpu.map(|cpu| format!("Thread {number} using cpu {cpu}.\n")).unwrap_or_default();
        format!("{cpu}Thread {number} Interval: {}\n", options.interval_of(number + 1))
    };
    (0..options.threads).map(line).collect()
}

//! What is said beside the figures: notes on stderr, the step of the clock (`-R`), and before the first value with `-v` the CPUs of the
//! machine and the threads.

use punctual::CpuSet;
use punctual_linux::clock::{Clock, now_ns, resolution_ns};

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

/// Readings: some milliseconds.
const READINGS: usize = 100_000;

/// What is to be said: with `-v` always, else if the clock is coarser than the kernel says. With `--dbg_cyclictest` each reading.
pub(super) fn resolution(options: &Options) -> Vec<String> {
    let clock = if options.realtime_clock { Clock::Realtime } else { Clock::Monotonic };
    let readings: Vec<i64> = (0..READINGS).map(|_| now_ns(clock)).collect();
    let steps = || readings.windows(2).map(|two| two[1] - two[0]);
    let mut said = Vec::new();
    if options.debug {
        said.push(format!("{READINGS} readings of the clock: time, step in ns"));
        let one = |(at, step): (&i64, i64)| format!("{}.{:09} {step:5}", at / 1_000_000_000, at % 1_000_000_000);
        said.extend(readings[1..].iter().zip(steps()).map(one));
    }
    let reported = resolution_ns(clock).unwrap_or(0);
    let measured = steps().filter(|step| *step > 0).min();
    if options.verbose || measured.is_none_or(|measured| measured > reported) {
        said.push(format!("reported clock resolution: {reported} nsec"));
        let measured = measured.map_or_else(|| "the clock stood still".into(), |ns| format!("{ns} nsec"));
        said.push(format!("measured clock resolution approximately: {measured}"));
    }
    said
}

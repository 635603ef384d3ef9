//! What a command line of cyclictest asks for, with the numbers, defaults, CPU lists and orders of precedence of cyclictest
//! 2.x.
//!
//! In go the words, out come the options and notes for stderr. Refused with status 2: what cyclictest refuses with its usage text, and an
//! interval below 1 us, with which it never ends.

use std::fmt::Display;

use punctual::CpuSet;
use punctual_linux::sched;

use super::names::{Alignment, Class, Id, OLD, Options, RENAMED, TODAY};
use crate::args::getopt::{Given, atoi, parse};
use crate::refusal::BadUsage;

/// Most buckets of a histogram.
const MOST_BUCKETS: i32 = 1_000_000;
/// Most threads: as many as the kernel has CPUs.
const MOST_THREADS: usize = 8192;
/// Most buckets of all threads together: some 1.6 GB.
const MOST_OF_ALL: usize = 100_000_000;
/// A shorter interval, in us, is less than a wake-up takes.
const SHORT: i32 = 10;
/// Most spikes that are kept.
const MOST_SPIKES: usize = 1_000_000;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Help,
    Version,
    Run(Box<Options>, Vec<String>),
}

/// The values as typed, before they are judged together.
#[derive(Debug, Default)]
struct Typed {
    options: Options,
    notes: Vec<String>,
    /// `None`: one for each CPU.
    threads: Option<i32>,
    distance: Option<i32>,
    priority: i32,
    smp: bool,
    buckets: Option<i32>,
    affinity_typed: bool,
    affinity_before_smp: bool,
    aligned_twice: bool,
}

/// The options of a command line; `allowed`: the CPUs that this process begins with, of which a list may name more.
pub(super) fn read(words: &[String], allowed: &CpuSet) -> Result<Asked, BadUsage> {
    let given = parse(&[TODAY, OLD], words).map_err(|refused| {
        BadUsage(format!("{refused} (see cyclictest --help, or punctual cyclic --help for the native form)"))
    })?;
    let mut typed = Typed::new();
    let granted = granted(allowed);
    for one in &given {
        match one.id {
            Id::Help => return Ok(Asked::Help),
            Id::Version => return Ok(Asked::Version),
            _ => typed.take(one, &granted)?,
        }
    }
    typed.judge(allowed)
}

impl Typed {
    fn new() -> Self {
        let usual =
            Options { interval_us: 1000, oscope: 1, spike_nodes: 1024, latency_us: Some(0), ..Options::default() };
        Self { options: usual, threads: Some(1), ..Self::default() }
    }

    /// Takes an option.
    fn take(&mut self, one: &Given<Id>, allowed: &CpuSet) -> Result<(), BadUsage> {
        if let Some((old, today)) = RENAMED.iter().find(|(old, _)| *old == one.typed) {
            self.notes.push(format!("{old} is an option of cyclictest 1.x: taken as {today}"));
        }
        let options = &mut self.options;
        let text = one.value.clone().unwrap_or_default();
        let number = atoi(&text);
        let positive = (number > 0).then(|| i64::from(number));
        match one.id {
            Id::On(field) => *field(options) = true,
            Id::Number(field) => *field(options) = number,
            Id::Text(field) => *field(options) = Some(text),
            Id::Affinity => self.affinity(one, allowed)?,
            Id::Aligned => self.align(one, Alignment::Together),
            Id::Secaligned => self.align(one, Alignment::FullSecond),
            // Theirs compares without a sign: a negative limit is never met.
            Id::Breaktrace if number < 0 => options.break_above = Some(i64::MAX),
            Id::Breaktrace => options.break_above = (number != 0).then(|| i64::from(number)),
            Id::DefaultSystem => options.latency_us = None,
            Id::Distance => self.distance = Some(number),
            Id::Duration => options.duration_s = Some(seconds(&text)).filter(|seconds| *seconds != 0),
            Id::Histogram => self.buckets = Some(number),
            Id::Histofall => {
                options.histofall = true;
                self.buckets = Some(number);
            }
            Id::Latency => options.latency_us = options.latency_us.map(|_| number.max(0).unsigned_abs()),
            Id::Loops => options.loops = positive.map(i64::unsigned_abs),
            Id::MainAffinity => {
                let (cpus, others) = cpu_list(&text, allowed).map_err(wrong(one))?;
                options.main_affinity = Some(cpus);
                self.left_out(one, &others);
            }
            Id::Priority => {
                self.priority = number;
                if !options.class.is_real_time() {
                    options.class = Class::Fifo;
                }
            }
            Id::Policy => options.class = Class::named(&text),
            Id::Smp => self.all_cpus(),
            Id::Spike => options.spike_above = positive,
            Id::SpikeNodes if options.spike_above.is_some() => options.spike_nodes = number.max(0) as usize,
            Id::Threads => self.threads(one),
            Id::Numa => {
                self.all_cpus();
                self.notes.push(format!("{} is an option of cyclictest 1.x: taken as -S", one.typed));
            }
            Id::Gone(instead) => {
                self.notes.push(format!("{} is an option of cyclictest 1.x, and has no effect: {instead}", one.typed));
            }
            Id::SpikeNodes | Id::Unbuffered | Id::Help | Id::Version => {}
        }
        Ok(())
    }

    /// A thread on each CPU, all with the same priority.
    fn all_cpus(&mut self) {
        self.affinity_before_smp |= self.affinity_typed && !self.smp;
        self.smp = true;
        self.threads = None;
        self.options.affinity = None;
    }

    fn affinity(&mut self, one: &Given<Id>, allowed: &CpuSet) -> Result<(), BadUsage> {
        self.affinity_typed = true;
        if self.smp {
            return Ok(());
        }
        let follows = one.next.as_deref().filter(|next| atoi(next) != 0 || next.starts_with(['0', '!']));
        self.options.affinity = match one.value.as_deref().or(follows) {
            Some(list) => {
                self.options.verbose_before_cpus = self.options.verbose;
                let (cpus, others) = cpu_list(list, allowed).map_err(wrong(one))?;
                are_there(&others).map_err(wrong(one))?;
                self.left_out(one, &others);
                Some(cpus)
            }
            None => None,
        };
        Ok(())
    }

    fn left_out(&mut self, one: &Given<Id>, cpus: &CpuSet) {
        if !cpus.is_empty() {
            self.notes.push(format!("{}: this process may not use CPU {cpus}", one.typed));
        }
    }

    fn threads(&mut self, one: &Given<Id>) {
        if self.smp {
            self.notes.push(format!("{} has no effect after -S", one.typed));
            return;
        }
        let follows = || one.next.as_deref().map(atoi).filter(|number| *number != 0);
        self.threads = one.value.as_deref().map(atoi).or_else(follows);
    }

    fn align(&mut self, one: &Given<Id>, alignment: Alignment) {
        self.aligned_twice |= ![Alignment::None, alignment].contains(&self.options.alignment);
        self.options.alignment = alignment;
        let offset = one.value.as_deref().or(one.next.as_deref()).map_or(0, atoi);
        self.options.offset_ns = i64::from(offset) * 1000;
    }

    /// Refuses what does not go together, and completes what was not typed.
    fn judge(mut self, allowed: &CpuSet) -> Result<Asked, BadUsage> {
        let Options { clock, interval_us, oscope, verbose, .. } = self.options;
        refuse([
            (self.aligned_twice, "--secaligned: -A aligns the threads already (example: -A 100)"),
            (self.affinity_before_smp, "-S: it takes all CPUs, and -a before it chose some (example: -S)"),
            (!(0..=1).contains(&clock), "-c: must be 0 (CLOCK_MONOTONIC) or 1 (CLOCK_REALTIME)"),
            (interval_us < 1, "-i: must be at least 1, in us (example: -i 1000)"),
            (oscope < 1 || (oscope > 1 && !verbose), "-o: must be at least 1, and needs -v (example: -v -o 10)"),
            (self.buckets.is_some_and(|buckets| buckets < 1), "-h: must be at least 1, in us (example: -h 400)"),
            (!(0..=99).contains(&self.priority), "-p: must be from 0 to 99 (example: -p 80)"),
        ])?;
        self.complete(allowed)?;
        self.notes_of_conflicts();
        Ok(Asked::Run(Box::new(self.options), self.notes))
    }

    fn complete(&mut self, allowed: &CpuSet) -> Result<(), BadUsage> {
        let options = &mut self.options;
        let cpus = options.affinity.as_ref().unwrap_or(allowed).len();
        let Ok(threads @ 1..) = usize::try_from(self.threads.unwrap_or(cpus as i32)) else {
            return Err(BadUsage("invalid -t: must be at least 1 (example: -t 4)".into()));
        };
        options.threads = threads;
        options.buckets = self.buckets.unwrap_or(0).min(MOST_BUCKETS) as usize;
        let most = MOST_OF_ALL / threads;
        refuse([
            (threads > MOST_THREADS, format!("-t: must be at most {MOST_THREADS} (example: -t 4)")),
            (options.buckets > most, format!("-h: must be at most {most} for {threads} threads (example: -h 400)")),
            (
                options.spike_nodes > MOST_SPIKES,
                format!("--spike-nodes: must be at most {MOST_SPIKES} (example: --spike-nodes 1024)"),
            ),
        ])?;
        // All threads of a histogram have one interval.
        options.distance_us = if options.buckets > 0 { 0 } else { i64::from(self.distance.unwrap_or(500)) };
        let needs_priority = options.priospread || options.class.is_real_time();
        if needs_priority && self.priority == 0 {
            self.priority = (threads + 1).min(99) as i32;
            self.notes.push(format!("defaulting realtime priority to {}", self.priority));
        }
        if self.priority > 0 && !options.class.is_real_time() {
            options.class = Class::Fifo;
            self.notes.push("a priority needs a real-time policy: SCHED_FIFO is used".into());
        }
        refuse([(
            options.priospread && threads > self.priority as usize,
            format!("-p: --priospread gives each thread a priority, so it must be at least {threads} (example: -p 80)"),
        )])?;
        options.priority = self.priority as u8;
        Ok(())
    }

    fn notes_of_conflicts(&mut self) {
        let options = &mut self.options;
        if options.system && options.posix_timers {
            options.posix_timers = false;
            self.notes.push("-x has no effect with -s, which waits with nanosleep(2)".into());
        }
        if options.class.is_real_time() && options.interval_us < SHORT {
            let us = options.interval_us;
            let note = format!(
                "an interval of {us} us is shorter than a wake-up: threads of lower priority, the kernel's too, wait meanwhile"
            );
            self.notes.push(note);
        }
        if self.affinity_typed && self.smp {
            self.notes.push("-a has no effect with -S".into());
        }
        if options.buckets > 0 && self.distance.is_some() {
            self.notes.push("-d has no effect with a histogram: all threads have one interval".into());
        }
    }
}

/// Refuses with the first of these that holds.
fn refuse(cases: impl IntoIterator<Item = (bool, impl Display)>) -> Result<(), BadUsage> {
    let first = cases.into_iter().find(|(holds, _)| *holds);
    first.map_or(Ok(()), |(_, what)| Err(BadUsage(format!("invalid {what}"))))
}

/// A time as `-D` takes it: seconds, or with m, h or d minutes, hours or days.
fn seconds(text: &str) -> i64 {
    let unit = text.trim_start().trim_start_matches(['-', '+']).trim_start_matches(|c: char| c.is_ascii_digit());
    let factor = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => 1,
    };
    i64::from(atoi(text)) * factor
}

/// A refusal of this option's value.
fn wrong(one: &Given<Id>) -> impl Fn(String) -> BadUsage {
    let typed = one.typed.clone();
    move |why| BadUsage(format!("invalid {typed}: {why}"))
}

/// The CPUs of a list that this process may have, and the named ones that it may not: `0-3,8`, `!2` for all others, `all`. The error has
/// the constraint and an example.
fn cpu_list(text: &str, allowed: &CpuSet) -> Result<(CpuSet, CpuSet), String> {
    let text = text.trim();
    let (chosen, named) = match text.strip_prefix('!') {
        _ if text == "all" => (allowed.clone(), allowed.clone()),
        Some(others) => {
            let others = parsed(others)?;
            (allowed.without(&others), others)
        }
        None => {
            let list = parsed(text)?;
            (allowed.without(&allowed.without(&list)), list)
        }
    };
    if chosen.is_empty() {
        return Err(format!("this process may use no CPU of '{text}', but CPU {allowed} (example: {allowed})"));
    }
    Ok((chosen, named.without(allowed)))
}

/// Refuses CPUs that the machine does not have.
fn are_there(cpus: &CpuSet) -> Result<(), String> {
    let Some(there) = cpus_of_machine("possible") else { return Ok(()) };
    let beyond = cpus.without(&there);
    match beyond.is_empty() {
        true => Ok(()),
        false => Err(format!("this machine has no CPU {beyond}, but CPU {there} (example: {there})")),
    }
}

fn parsed(list: &str) -> Result<CpuSet, String> {
    list.parse::<CpuSet>().map_err(|error| error.to_string())
}

/// The CPUs of this machine: `possible`, `online`.
pub(super) fn cpus_of_machine(which: &str) -> Option<CpuSet> {
    std::fs::read_to_string(format!("/sys/devices/system/cpu/{which}")).ok()?.parse().ok()
}

/// The CPUs that the kernel grants a thread. It begins with fewer where some are isolated (isolcpus), or as taskset(1) says.
fn granted(begins: &CpuSet) -> CpuSet {
    let of_all = || {
        let possible = cpus_of_machine("possible")?;
        sched::set_affinity(0, possible.as_slice()).ok()?;
        sched::affinity(0).ok().map(CpuSet::from_iter)
    };
    let thread = std::thread::Builder::new().spawn(of_all);
    thread.ok().and_then(|thread| thread.join().ok()?).unwrap_or_else(|| begins.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_to_what_is_allowed() {
        let allowed = CpuSet::from_iter([1, 2, 5]);
        let chosen = |text: &str| cpu_list(text, &allowed).map(|(cpus, others)| format!("{cpus} without {others}"));
        assert_eq!(chosen("0-2,7").as_deref(), Ok("1-2 without 0,7"));
        assert_eq!(chosen(" !2 ").as_deref(), Ok("1,5 without "));
        assert_eq!(chosen("all").as_deref(), Ok("1-2,5 without "));
        assert!(chosen("7").unwrap_err().contains("no CPU of '7', but CPU 1-2,5"));
        assert!(chosen("t4").is_err() && chosen("").is_err());
        let cpus = [0, 1, 4].map(|number| Options::default().cpu_of(number, &allowed));
        assert_eq!(cpus, [Some(1), Some(2), Some(2)]);
    }
}

//! What a command line of cyclictest asks for ([`Options`]), with the numbers, defaults, CPU lists and orders of precedence of cyclictest
//! 2.x.
//!
//! In go the words, out come the options and notes for stderr. Refused with status 2: what cyclictest refuses with its usage text, and an
//! interval below 1 us, with which it never ends.

use punctual::{CpuSet, Policy};
use punctual_linux::sched;

use super::names::{Id, OLD, TODAY};
use crate::args::getopt::{Given, atoi, parse};
use crate::refusal::BadUsage;

/// Most buckets of a histogram.
const MOST_BUCKETS: i32 = 1_000_000;
/// Most threads: as many as the kernel has CPUs.
const MOST_THREADS: usize = 8192;
/// Most buckets of all threads together: some 1.6 GB.
const MOST_OF_ALL: usize = 100_000_000;
/// A shorter interval, in us, is less than a wake-up takes.
const SHORT: i64 = 10;
/// Most spikes that are kept.
const MOST_SPIKES: usize = 1_000_000;

/// The policy of the measuring threads, as `--policy` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Class {
    #[default]
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
}

impl Class {
    const ALL: [Self; 5] = [Self::Other, Self::Batch, Self::Idle, Self::Fifo, Self::Rr];

    /// The class whose name the text begins with; `other` if there is none.
    fn named(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        Self::ALL.into_iter().find(|class| text.starts_with(class.name())).unwrap_or_default()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Batch => "batch",
            Self::Idle => "idle",
            Self::Fifo => "fifo",
            Self::Rr => "rr",
        }
    }

    pub(super) fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr)
    }
}

/// When the threads start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Alignment {
    #[default]
    None,
    Together,
    FullSecond,
}

/// Everything a command line asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) threads: usize,
    /// The CPUs of the measuring threads, one after the other. `None`: all that this process may use.
    pub(super) affinity: Option<CpuSet>,
    pub(super) main_affinity: Option<CpuSet>,
    pub(super) class: Class,
    pub(super) priority: u8,
    pub(super) priospread: bool,
    pub(super) interval_us: i64,
    pub(super) distance_us: i64,
    pub(super) alignment: Alignment,
    pub(super) offset_ns: i64,
    pub(super) realtime_clock: bool,
    pub(super) relative: bool,
    pub(super) system: bool,
    pub(super) posix_timers: bool,
    pub(super) loops: Option<u64>,
    pub(super) duration_s: Option<i64>,
    pub(super) break_above: Option<i64>,
    pub(super) tracemark: bool,
    pub(super) spike_above: Option<i64>,
    pub(super) spike_nodes: usize,
    pub(super) buckets: usize,
    pub(super) histofall: bool,
    pub(super) histfile: Option<String>,
    pub(super) json: Option<String>,
    pub(super) fifo: Option<String>,
    /// `None`: the machine's latency is left alone.
    pub(super) latency_us: Option<u32>,
    pub(super) laptop: bool,
    pub(super) mlockall: bool,
    pub(super) nsecs: bool,
    pub(super) oscope: u64,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
    /// `-v` stands before `-a`, so that the CPUs are named twice, as theirs are.
    pub(super) verbose_before_cpus: bool,
    pub(super) refresh_on_max: bool,
    pub(super) resolution: bool,
    pub(super) debug: bool,
    pub(super) smi: bool,
}

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
    clock: i32,
    interval: i32,
    oscope: i32,
    buckets: Option<i32>,
    affinity_typed: bool,
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
        let options = Options { spike_nodes: 1024, latency_us: Some(0), ..Options::default() };
        Self { options, threads: Some(1), interval: 1000, oscope: 1, ..Self::default() }
    }

    /// Takes an option that is on or off, or one with a value.
    fn take(&mut self, one: &Given<Id>, allowed: &CpuSet) -> Result<(), BadUsage> {
        let options = &mut self.options;
        match one.id {
            Id::DefaultSystem => options.latency_us = None,
            Id::Laptop => options.laptop = true,
            Id::Mlockall => options.mlockall = true,
            Id::RefreshOnMax => options.refresh_on_max = true,
            Id::Nsecs => options.nsecs = true,
            Id::Priospread => options.priospread = true,
            Id::Quiet => options.quiet = true,
            Id::Relative => options.relative = true,
            Id::Resolution => options.resolution = true,
            Id::System => options.system = true,
            Id::Smi => options.smi = true,
            Id::Tracemark => options.tracemark = true,
            // Each text is written at once anyway.
            Id::Unbuffered => {}
            Id::Verbose => options.verbose = true,
            Id::Debug => options.debug = true,
            Id::PosixTimers => options.posix_timers = true,
            Id::Smp => self.all_cpus(),
            Id::Numa => {
                self.all_cpus();
                self.notes.push(format!("{} is an option of cyclictest 1.x: taken as -S", one.typed));
            }
            Id::Gone(instead) => {
                self.notes.push(format!("{} is an option of cyclictest 1.x, and has no effect: {instead}", one.typed));
            }
            Id::Affinity => self.affinity(one, allowed)?,
            Id::Threads => self.threads(one),
            Id::Aligned | Id::Secaligned => self.align(one),
            _ => self.take_value(one, allowed)?,
        }
        Ok(())
    }

    fn take_value(&mut self, one: &Given<Id>, allowed: &CpuSet) -> Result<(), BadUsage> {
        let options = &mut self.options;
        let text = one.value.clone().unwrap_or_default();
        let number = atoi(&text);
        let positive = (number > 0).then(|| i64::from(number));
        match one.id {
            Id::Breaktrace => options.break_above = (number != 0).then(|| i64::from(number)),
            Id::Clock => self.clock = number,
            Id::Distance => self.distance = Some(number),
            Id::Duration => options.duration_s = Some(seconds(&text)).filter(|seconds| *seconds != 0),
            Id::Fifo => options.fifo = Some(text),
            Id::Histogram => self.buckets = Some(number),
            Id::Histofall => {
                options.histofall = true;
                self.buckets = Some(number);
            }
            Id::Histfile => options.histfile = Some(text),
            Id::Interval => self.interval = number,
            Id::Json => options.json = Some(text),
            Id::Latency => options.latency_us = options.latency_us.map(|_| number.max(0).unsigned_abs()),
            Id::Loops => options.loops = positive.map(i64::unsigned_abs),
            Id::MainAffinity => options.main_affinity = Some(cpu_list(&text, allowed).map_err(wrong(one))?),
            Id::Oscope => self.oscope = number,
            Id::Priority => {
                self.priority = number;
                if !options.class.is_real_time() {
                    options.class = Class::Fifo;
                }
            }
            Id::Policy => options.class = Class::named(&text),
            Id::Spike => options.spike_above = positive,
            Id::SpikeNodes if options.spike_above.is_some() => options.spike_nodes = number.max(0) as usize,
            _ => {}
        }
        Ok(())
    }

    /// A thread on each CPU, all with the same priority.
    fn all_cpus(&mut self) {
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
                Some(cpu_list(list, allowed).map_err(wrong(one))?)
            }
            None => None,
        };
        Ok(())
    }

    fn threads(&mut self, one: &Given<Id>) {
        if self.smp {
            self.notes.push(format!("{} has no effect after -S", one.typed));
            return;
        }
        let follows = || one.next.as_deref().map(atoi).filter(|number| *number != 0);
        self.threads = one.value.as_deref().map(atoi).or_else(follows);
    }

    fn align(&mut self, one: &Given<Id>) {
        let other = if one.id == Id::Aligned { Alignment::FullSecond } else { Alignment::Together };
        let this = if one.id == Id::Aligned { Alignment::Together } else { Alignment::FullSecond };
        self.aligned_twice |= self.options.alignment == other;
        self.options.alignment = this;
        let offset = one.value.as_deref().or(one.next.as_deref()).map_or(0, atoi);
        self.options.offset_ns = i64::from(offset) * 1000;
    }

    /// Refuses what does not go together, and completes what was not typed.
    fn judge(mut self, allowed: &CpuSet) -> Result<Asked, BadUsage> {
        let refuse = |what: &str| Err(BadUsage(format!("invalid {what}")));
        if self.aligned_twice {
            return refuse("--secaligned: -A aligns the threads already (example: -A 100)");
        }
        if !(0..=1).contains(&self.clock) {
            return refuse("-c: must be 0 (CLOCK_MONOTONIC) or 1 (CLOCK_REALTIME)");
        }
        if self.interval < 1 {
            return refuse("-i: must be at least 1, in us (example: -i 1000)");
        }
        if self.oscope < 1 || (self.oscope > 1 && !self.options.verbose) {
            return refuse("-o: must be at least 1, and needs -v (example: -v -o 10)");
        }
        if self.buckets.is_some_and(|buckets| buckets < 1) {
            return refuse("-h: must be at least 1, in us (example: -h 400)");
        }
        if !(0..=99).contains(&self.priority) {
            return refuse("-p: must be from 0 to 99 (example: -p 80)");
        }
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
        let refuse = |what: String| Err(BadUsage(format!("invalid {what}")));
        if threads > MOST_THREADS {
            return refuse(format!("-t: must be at most {MOST_THREADS} (example: -t 4)"));
        }
        if options.buckets.saturating_mul(threads) > MOST_OF_ALL {
            return refuse(format!(
                "-h: must be at most {} for {threads} threads (example: -h 400)",
                MOST_OF_ALL / threads
            ));
        }
        if options.spike_nodes > MOST_SPIKES {
            return refuse(format!("--spike-nodes: must be at most {MOST_SPIKES} (example: --spike-nodes 1024)"));
        }
        // All threads of a histogram have one interval.
        options.distance_us = if options.buckets > 0 { 0 } else { i64::from(self.distance.unwrap_or(500)) };
        options.interval_us = i64::from(self.interval);
        options.oscope = u64::from(self.oscope.unsigned_abs());
        options.realtime_clock = self.clock == 1;
        let needs_priority = options.priospread || options.class.is_real_time();
        if needs_priority && self.priority == 0 {
            self.priority = (threads + 1).min(99) as i32;
            self.notes.push(format!("defaulting realtime priority to {}", self.priority));
        }
        if self.priority > 0 && !options.class.is_real_time() {
            options.class = Class::Fifo;
            self.notes.push("a priority needs a real-time policy: SCHED_FIFO is used".into());
        }
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

impl Options {
    /// The policy of thread `number`; `None`: SCHED_OTHER.
    pub(super) fn policy(&self, number: usize) -> Option<Policy> {
        let priority = self.priority_of(number);
        match self.class {
            Class::Fifo if priority > 0 => Some(Policy::Fifo(priority)),
            Class::Rr if priority > 0 => Some(Policy::RoundRobin(priority)),
            _ => None,
        }
    }

    /// The priority of thread `number`.
    pub(super) fn priority_of(&self, number: usize) -> u8 {
        let below = if self.priospread { number.min(99) as u8 } else { 0 };
        self.priority.saturating_sub(below)
    }

    /// The interval of thread `number`.
    pub(super) fn interval_of(&self, number: usize) -> i64 {
        self.interval_us.saturating_add(self.distance_us.saturating_mul(number as i64)).max(1)
    }

    /// The CPU of thread `number`.
    pub(super) fn cpu_of(&self, number: usize, allowed: &CpuSet) -> Option<usize> {
        nth(self.affinity.as_ref().unwrap_or(allowed), number)
    }
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

/// The CPUs of a list that this process may have: `0-3,8`, `!2` for all others, `all`. The error has the constraint and an example.
fn cpu_list(text: &str, allowed: &CpuSet) -> Result<CpuSet, String> {
    let text = text.trim();
    let chosen = match text.strip_prefix('!') {
        _ if text == "all" => allowed.clone(),
        Some(others) => allowed.without(&parsed(others)?),
        None => {
            let list = parsed(text)?;
            allowed.without(&allowed.without(&list))
        }
    };
    if chosen.is_empty() {
        return Err(format!("this process may use no CPU of '{text}', but CPU {allowed} (example: {allowed})"));
    }
    Ok(chosen)
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

/// The CPU of thread `number`: one after the other, and from the beginning again.
fn nth(cpus: &CpuSet, number: usize) -> Option<usize> {
    cpus.as_slice().get(number.checked_rem(cpus.len())?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_to_what_is_allowed() {
        let allowed = CpuSet::from_iter([1, 2, 5]);
        let chosen = |text: &str| cpu_list(text, &allowed).map(|cpus| cpus.to_string());
        assert_eq!(chosen("0-2,7").as_deref(), Ok("1-2"));
        assert_eq!(chosen(" !2 ").as_deref(), Ok("1,5"));
        assert_eq!(chosen("all").as_deref(), Ok("1-2,5"));
        assert!(chosen("7").unwrap_err().contains("no CPU of '7', but CPU 1-2,5"));
        assert!(chosen("t4").is_err() && chosen("").is_err());
        assert_eq!([0, 1, 4].map(|number| nth(&allowed, number)), [Some(1), Some(2), Some(2)]);
    }
}

//! A run in the form of cyclictest: from its options to what it prints at the end.
//!
//! Figures go to stdout, to the byte as cyclictest prints them. Notes go to stderr, with the name of this program. The exit status
//! is cyclictest's: 0 also after SIGINT and after a break, 1 if the threads cannot have their policy, 2 for bad usage. It is 1 too if a text or
//! a file was lost.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use punctual::CpuSet;
use punctual::conditions::{Applied, Condition, Conditions, Guard};
use punctual_lab::Offset;
use punctual_lab::cyclic::{Bell, Crew, Keep, Limits, Member, Orders, Spikes, Start, TraceMark, Unit, Waiting};
use punctual_linux::clock::Clock;
use punctual_linux::sched;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};

use super::beside::{self, Causes, NamedPipe, StatusFile, say};
use super::form::{self, Row, Table, Values, spikes};
use super::names::{self, Alignment, Options};
use super::options::{self, Asked};
use crate::exit::Exit;
use crate::refusal::BadUsage;
use crate::terminal;

/// From one screen to the next.
const LOOK: Duration = Duration::from_millis(10);

/// Does what a command line of cyclictest asks for. `words`: the whole command line.
pub(crate) fn perform(words: &[String], arguments: &[String]) -> anyhow::Result<Exit> {
    let allowed = CpuSet::from_iter(sched::affinity(0).context("the CPUs of this process")?);
    match options::read(arguments, &allowed)? {
        Asked::Help => terminal::print(&names::help()).map(|()| Exit::Done),
        Asked::Version => terminal::print(&format!("{}\n", names::maker())).map(|()| Exit::Done),
        Asked::Run(options, notes) => {
            say(&names::maker());
            notes.iter().for_each(|note| say(note));
            Session::open(*options, words.to_vec(), &allowed)?.perform()
        }
    }
}

/// The signals that came.
#[derive(Debug, Default)]
struct Signals {
    end: Arc<AtomicBool>,
    overran: Arc<AtomicBool>,
    status: Arc<AtomicBool>,
    status_file: Arc<AtomicBool>,
}

impl Signals {
    /// Listens. A second SIGINT or SIGTERM ends the process at once.
    fn listen() -> std::io::Result<Self> {
        let signals = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.end))?;
            signal_hook::flag::register(signal, Arc::clone(&signals.end))?;
        }
        signal_hook::flag::register(SIGXCPU, Arc::clone(&signals.overran))?;
        signal_hook::flag::register(SIGUSR1, Arc::clone(&signals.status))?;
        signal_hook::flag::register(SIGUSR2, Arc::clone(&signals.status_file))?;
        Ok(signals)
    }
}

/// A run.
struct Session {
    options: Options,
    words: Vec<String>,
    crew: Crew,
    table: Table,
    values: Vec<Values>,
    signals: Signals,
    status_file: Option<StatusFile>,
    causes: Option<Causes>,
    /// What holds until the end.
    _held: Guard,
    started: String,
    stdout: Stdout,
}

/// The figures' way out.
#[derive(Debug, Default)]
struct Stdout {
    /// Its reader is gone: the run ends, as SIGPIPE ends theirs.
    is_gone: bool,
    /// A text is lost, as on a full disk: the run goes on, and fails at its end.
    has_lost: bool,
}

impl Stdout {
    /// Writes at once. The first error is said.
    fn put(&mut self, text: &str) {
        if self.is_gone {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.is_gone = true,
            Err(error) => {
                if !self.has_lost {
                    terminal::complain(&format!("error: writing to stdout: {error}; the run goes on"));
                }
                self.has_lost = true;
            }
        }
    }
}

impl Session {
    /// Prepares the machine and starts the threads.
    fn open(options: Options, words: Vec<String>, allowed: &CpuSet) -> anyhow::Result<Self> {
        let started = form::now();
        check_files(&options)?;
        let named = Causes::named()?;
        let mut stdout = Stdout::default();
        if options.verbose {
            stdout.put(&beside::facts(&options, allowed));
        }
        if let Some(cpus) = options.main_affinity.as_ref().or(options.affinity.as_ref())
            && let Err(error) = sched::set_affinity(0, cpus.as_slice())
        {
            say(&format!("the CPUs of the main thread: {error}"));
        }
        let (held, kept, told) = hold(&options);
        stdout.put(&told);
        if options.resolution {
            beside::resolution(&options).iter().for_each(|line| say(line));
        }
        let signals = Signals::listen().context("listening for signals")?;
        let status_file = StatusFile::create().map_err(|error| say(&format!("SIGUSR2 has no file: {error}"))).ok();
        if options.verbose {
            stdout.put(&beside::threads(&options, allowed));
        }
        let mut orders = orders(&options, allowed)?;
        let mut causes = named.map(|output| Causes::open(output, &words, orders.limits.unit, kept));
        orders.keep.spread = causes.is_some();
        let crew = Crew::start(orders).map_err(anyhow::Error::new)?;
        refuse_without_policy(&crew)?;
        causes.iter_mut().for_each(|causes| causes.begin(&crew));
        let row = |(number, gauge): (usize, &Arc<punctual_lab::cyclic::Gauge>)| {
            let cpu = options.cpu_of(number, allowed);
            Row {
                gauge: Arc::clone(gauge),
                priority: options.priority_of(number),
                interval_us: options.interval_of(number),
                cpu: cpu.map_or(-1, |cpu| cpu as i64),
                node: cpu.map_or(-1, node_of),
            }
        };
        let rows: Vec<Row> = crew.gauges().iter().enumerate().map(row).collect();
        let values = rows.iter().map(|_| Values::default()).collect();
        let table = Table { rows, nsecs: options.nsecs, smi: options.smi };
        Ok(Self { options, words, crew, table, values, signals, status_file, causes, _held: held, started, stdout })
    }

    /// Runs to the end, and prints the results.
    fn perform(mut self) -> anyhow::Result<Exit> {
        let pipe = self.options.fifo.as_ref().map(|path| NamedPipe::serve(path, self.table.clone()));
        let before = Offset::read(Clock::Realtime);
        self.watch();
        if let Some(by_ns) =
            before.changed_to(Offset::read(Clock::Realtime)).filter(|_| self.options.clock() == Clock::Realtime)
        {
            say(&format!(
                "the wall clock, which -c 1 measures, was set by {by_ns} ns meanwhile: the values have that in them"
            ));
        }
        // Theirs does so too: the last values are printed before the threads have ended.
        let usage = self.crew.end();
        for lost in self.crew.lost() {
            say(&format!("{} was set to {}, and was found to be {}", lost.condition, lost.set, lost.found));
        }
        let caused = self.causes.take().is_none_or(|causes| causes.end(&self.crew, &usage));
        if let Some(why) = pipe.and_then(NamedPipe::end) {
            say(&why);
        }
        if self.signals.overran.load(Ordering::Acquire) {
            say("the kernel ended the run: a real-time thread ran for 5 s without a wait (RLIMIT_RTTIME)");
        }
        let missed: u64 = self.table.rows.iter().map(|row| row.gauge.missed()).sum();
        if missed > 0 {
            say(&format!("missed wake-ups, due while their thread had not come back from an earlier one: {missed}"));
        }
        let lost: u64 = self.values.iter().map(|values| values.lost).sum();
        if lost > 0 {
            say(&format!("values that were overwritten before they could be printed: {lost}"));
        }
        if self.options.refresh_on_max && self.draws() {
            let rows = self.table.rows.len() + 2;
            self.put(&format!("\u{1b}[{rows}A\u{1b}[{rows}B"));
        }
        Ok(self.conclude()?.unless_lost(caused))
    }

    /// Whether a screen is drawn.
    fn draws(&self) -> bool {
        !self.options.quiet && !self.options.verbose
    }

    /// Draws until the threads are to end.
    fn watch(&mut self) {
        let mut shown_max = None;
        loop {
            let max = self.table.rows.iter().map(Row::max).max();
            if !self.options.refresh_on_max || self.options.verbose || shown_max != max {
                shown_max = max;
                self.show();
            }
            match &mut self.causes {
                Some(causes) => causes.look(LOOK),
                None => std::thread::sleep(LOOK),
            }
            self.answer_signals();
            let bell = self.crew.bell();
            if bell.rung() || bell.ended() > 0 || self.stdout.is_gone {
                // Theirs leaves the value that broke out of the log: who reads it adds the line below.
                if (self.options.verbose && bell.broken().is_none()) || (self.draws() && !bell.rung()) {
                    // The last screen of a run that ends by its number of cycles has all of them.
                    if self.draws() && shown_max.is_some() {
                        self.put(&self.upwards());
                    }
                    self.show();
                }
                return;
            }
            if self.draws() && (!self.options.refresh_on_max || shown_max != self.table.rows.iter().map(Row::max).max())
            {
                self.put(&self.upwards());
            }
        }
    }

    fn upwards(&self) -> String {
        format!("\u{1b}[{}A", self.table.rows.len() + 2)
    }

    fn show(&mut self) {
        let text = if self.options.verbose {
            let (reduce, smi) = (self.options.oscope.unsigned_abs().into(), self.options.smi);
            let rows = self.table.rows.iter().enumerate().zip(&mut self.values);
            rows.map(|((index, row), values)| values.lines(index, &row.gauge, reduce, smi)).collect()
        } else if self.options.quiet {
            return;
        } else {
            let class = self.options.class.name();
            let other = if self.options.policy(0).is_none() { "/other" } else { "" };
            let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            format!("policy: {class}{other}: loadavg: {}          \n\n{}", load.trim_end(), self.table.lines())
        };
        self.put(&text);
    }

    fn answer_signals(&self) {
        let taken = |flag: &AtomicBool| flag.swap(false, Ordering::AcqRel);
        if taken(&self.signals.status) {
            terminal::say(&self.table.status());
        }
        if taken(&self.signals.status_file) {
            self.status_file.iter().for_each(|file| file.write(&self.table.status()));
        }
        if self.signals.end.load(Ordering::Acquire) || self.signals.overran.load(Ordering::Acquire) {
            self.crew.bell().ring();
        }
    }

    /// Writes the results in their order.
    fn conclude(&mut self) -> anyhow::Result<Exit> {
        let mut written = true;
        let mut to_file = |path: &str, text: &str| {
            if let Err(error) = File::create(path).and_then(|mut file| file.write_all(text.as_bytes())) {
                terminal::complain(&format!("error: {}: {error}", terminal::shown(path)));
                written = false;
            }
        };
        let mut text = String::new();
        if let Some(path) = &self.options.json {
            let times = [self.started.clone(), form::now()];
            let about = form::About { words: self.words.clone(), times, buckets: self.options.buckets };
            let json = form::json(&about, &self.table);
            if path == "-" { text += &json } else { to_file(path, &json) }
        }
        if self.options.quiet && self.options.buckets == 0 {
            text += &self.table.lines();
        }
        let bell = self.crew.bell();
        text += &bell.spikes().map(spikes).unwrap_or_default();
        if self.options.buckets > 0 {
            let histogram = self.table.histogram(self.options.buckets, self.options.histofall);
            match &self.options.histfile {
                Some(path) => to_file(path, &histogram),
                None => text += &histogram,
            }
        }
        if self.options.break_above.is_some() {
            text += &self.table.breaks(bell);
        }
        self.put(&text);
        Ok(Exit::Done.unless_lost(written && !self.stdout.has_lost))
    }

    fn put(&mut self, text: &str) {
        self.stdout.put(text);
    }
}

/// Refuses files that cannot be written, before anything is measured.
fn check_files(options: &Options) -> Result<(), BadUsage> {
    let files = [("--json", &options.json), ("--histfile", &options.histfile)];
    for (flag, path) in files {
        let Some(path) = path.as_deref().filter(|path| *path != "-") else { continue };
        // A pipe has one reader, for which it is opened once: at the end.
        if std::fs::metadata(path).is_ok_and(|facts| !facts.is_file() && !facts.is_dir()) {
            continue;
        }
        OpenOptions::new().append(true).create(true).open(path).map_err(|error| {
            BadUsage::invalid(flag, terminal::shown(path), format!("{error}; name a file that can be written"))
        })?;
    }
    Ok(())
}

/// Locks memory and requests a latency, and says on stdout what holds.
fn hold(options: &Options) -> (Guard, Conditions, String) {
    let mut wanted = Conditions::new();
    if options.mlockall {
        wanted = wanted.lock_memory();
    }
    let latency = options.latency_us.filter(|_| !options.laptop);
    match latency {
        Some(us) => wanted = wanted.dma_latency(Duration::from_micros(u64::from(us))),
        None if options.laptop => say("cpu_dma_latency is left alone, to save the battery"),
        None => say("cpu_dma_latency is left alone"),
    }
    let Applied { guard, refused } = wanted.clone().allow_irreversible().apply();
    refused.iter().for_each(|refused| say(&refused.to_string()));
    let holds = latency.filter(|_| guard.grants(Condition::DMA_LATENCY));
    let kept = refused.iter().fold(wanted, |kept, refused| kept.without(refused.condition));
    (guard, kept, holds.map(|us| format!("# /dev/cpu_dma_latency set to {us}us\n")).unwrap_or_default())
}

/// The memory node of a CPU; -1 on a machine without nodes.
fn node_of(cpu: usize) -> i64 {
    let Ok(nodes) = std::fs::read_dir("/sys/devices/system/node") else { return -1 };
    let has_it = |path: &Path| path.join(format!("cpu{cpu}")).exists();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("node")?.parse().ok();
    nodes.flatten().map(|entry| entry.path()).filter(|path| has_it(path)).find_map(|path| number(&path)).unwrap_or(-1)
}

/// What the threads are to do.
fn orders(options: &Options, allowed: &CpuSet) -> anyhow::Result<Orders> {
    let member = |number: usize| {
        let cpu = options.cpu_of(number, allowed);
        let conditions = Conditions::new().maybe(cpu, Conditions::cpu);
        let conditions = conditions.maybe(options.policy(number), Conditions::policy);
        Member { conditions, interval_ns: options.interval_of(number) * 1000, smis_of: cpu.filter(|_| options.smi) }
    };
    let waiting = match (options.posix_timers, options.system, options.relative) {
        (true, _, relative) => Waiting::Timer { absolute: !relative },
        (_, true, _) => Waiting::Nanosleep,
        (_, _, true) => Waiting::Interval,
        _ => Waiting::Deadline,
    };
    let start = match options.alignment {
        Alignment::None => Start::Ready,
        Alignment::Together => Start::Together(options.offset_ns),
        Alignment::FullSecond => Start::FullSecond(options.offset_ns),
    };
    let limits = Limits {
        unit: if options.nsecs { Unit::Nanoseconds } else { Unit::Microseconds },
        cycles: options.loops,
        lasts_ns: options.duration_s.map(|seconds| seconds.saturating_mul(1_000_000_000)),
        break_above: options.break_above,
        share: None,
    };
    let marks = options.tracemark && options.break_above.is_some();
    let mark = marks.then(TraceMark::open).transpose().map_err(|why| anyhow!("--tracemark: {why}"))?;
    Ok(Orders {
        members: (0..options.threads).map(member).collect(),
        clock: options.clock(),
        waiting,
        start,
        limits,
        keep: Keep { units: options.buckets, values: options.verbose, spread: false },
        bell: Bell::with(options.spike_above.map(|above| Spikes::new(above, options.spike_nodes)), mark),
    })
}

/// As theirs: without their policy the threads measure nothing.
fn refuse_without_policy(crew: &Crew) -> anyhow::Result<()> {
    for refused in crew.refused().iter().flatten() {
        if refused.condition == Condition::POLICY {
            crew.bell().ring();
            return Err(anyhow!("Unable to change scheduling policy! {refused}"));
        }
        say(&refused.to_string());
    }
    Ok(())
}

//! What a run in the form of cyclictest gives beside its figures on stdout.
//!
//! Notes on stderr, the step of the clock (`-R`), and before the first value with `-v` the CPUs of the machine and the threads. The figures
//! for other programs while the threads run: a named pipe (`-F`), and a file in shared memory (SIGUSR2). And the causes of late wake-ups, in
//! a file of their own, which the environment names.
//!
//! `PUNCTUAL_CAUSES=FILE` is set around a script that calls cyclictest itself. The file is a run, which `punctual report` shows, and stderr
//! says what the worst wake-up was lost to. Nothing of it is on stdout or in the JSON of cyclictest. Without the variable, the kernel's
//! events stay closed: watching takes time of its own.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual::CpuSet;
use punctual::conditions::Conditions;
use punctual_lab::cyclic::{Aside, Crew, Unit};
use punctual_linux::clock::{now_ns, resolution_ns};
use punctual_record::{Notice, Run, Usage};
use punctual_report::Document;
use punctual_report::document::Block;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::form::Table;
use super::names::Options;
use super::options::cpus_of_machine;
use crate::exit::with_causes;
use crate::output::{Output, Target};
use crate::refusal::BadUsage;
use crate::terminal;

/// A note on stderr. Like cyclictest's comments, it begins with `#`: programs that read both streams pass over it.
pub(super) fn say(note: &str) {
    let note: String = note.chars().filter(|c| !c.is_control()).collect();
    terminal::say(&format!("# {note}\n"));
}

/// What `-v` says of the machine.
pub(super) fn facts(options: &Options, allowed: &CpuSet) -> String {
    let [configured, online] =
        ["possible", "online"].map(|which| cpus_of_machine(which).map_or(allowed.len(), |cpus| cpus.len()));
    let used = options.affinity.as_ref().map(|cpus| format!("Using {} cpus.\n", cpus.len())).unwrap_or_default();
    let first = if options.verbose_before_cpus { used.as_str() } else { "" };
    format!("{first}Max CPUs = {configured}\nOnline CPUs = {online}\n{used}")
}

/// What `-v` says of the threads. The interval shown is that of the next thread, as theirs is.
pub(super) fn threads(options: &Options, allowed: &CpuSet) -> String {
    let line = |number: usize| {
        let cpu = options.cpu_of(number, allowed).filter(|_| options.affinity.is_some());
        let cpu = cpu.map(|cpu| format!("Thread {number} using cpu {cpu}.\n")).unwrap_or_default();
        format!("{cpu}Thread {number} Interval: {}\n", options.interval_of(number + 1))
    };
    (0..options.threads).map(line).collect()
}

/// Readings: some milliseconds.
const READINGS: usize = 100_000;

/// What is to be said: with `-v` always, else if the clock is coarser than the kernel says. With `--dbg_cyclictest` each reading.
pub(super) fn resolution(options: &Options) -> Vec<String> {
    let clock = options.clock();
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

/// From one look for a reader to the next.
const LOOK: Duration = Duration::from_millis(100);

/// A thread that gives the figures to whoever opens a named pipe. The pipe is removed at the end.
#[derive(Debug)]
pub(super) struct NamedPipe {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<String>>>,
}

impl NamedPipe {
    /// Makes the pipe in place of what has its name, and serves it.
    pub(super) fn serve(path: &str, table: Table) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (its_end, path) = (Arc::clone(&ended), PathBuf::from(path));
        let serve = move || {
            let _ = std::fs::remove_file(&path);
            let mode = Mode::from_raw_mode(0o666);
            if let Err(error) = mknodat(CWD, &path, FileType::Fifo, mode, 0) {
                return Some(format!("-F {}: {error}", path.display()));
            }
            while !its_end.load(Ordering::Acquire) {
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                // Without a reader the open fails.
                if let Ok(mut pipe) = OpenOptions::new().write(true).custom_flags(flags).open(&path) {
                    let _ = pipe.write_all(table.lines().as_bytes());
                }
                std::thread::sleep(LOOK);
            }
            let _ = std::fs::remove_file(&path);
            None
        };
        Self { ended, thread: std::thread::Builder::new().name("fifo".into()).spawn(serve).ok() }
    }

    /// Ends the thread. Returns why there was no pipe.
    pub(super) fn end(self) -> Option<String> {
        self.ended.store(true, Ordering::Release);
        self.thread.and_then(|thread| thread.join().ok()).flatten()
    }
}

/// A file in shared memory with the last status, removed on drop.
#[derive(Debug)]
pub(super) struct StatusFile {
    path: PathBuf,
    file: File,
}

impl StatusFile {
    /// Makes the file, whose name has the process id.
    pub(super) fn create() -> std::io::Result<Self> {
        let path = PathBuf::from(format!("/dev/shm/cyclictest{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o664).open(&path)?;
        Ok(Self { path, file })
    }

    /// Replaces what it says.
    pub(super) fn write(&self, text: &str) {
        let _ = self.file.set_len(0).and_then(|()| self.file.write_all_at(text.as_bytes(), 0));
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The environment variable that names the file.
const VARIABLE: &str = "PUNCTUAL_CAUSES";

/// The file, and the run that goes there.
pub(super) struct Causes {
    output: Output,
    aside: Aside,
    held: Conditions,
}

impl Causes {
    /// Opens the file that is named; `None`: none is wanted.
    ///
    /// # Errors
    /// If the file cannot be written, or is stdout.
    pub(super) fn named() -> anyhow::Result<Option<Output>> {
        let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
        if name == "-" {
            let why = "stdout has the figures; name a file (example: causes.json)";
            return Err(BadUsage(format!("invalid {VARIABLE}: {why}")).into());
        }
        Output::open(VARIABLE, &Target::File(name.into())).map(Some)
    }

    /// Opens the kernel's events. `words`: the command line. `held`: conditions of the process.
    pub(super) fn open(output: Output, words: &[String], unit: Unit, held: Conditions) -> Self {
        Self { output, aside: Aside::open(words.to_vec(), unit), held }
    }

    /// Watches the threads from now on.
    pub(super) fn begin(&mut self, crew: &Crew) {
        self.aside.begin(crew);
    }

    /// Takes in events for this long.
    pub(super) fn look(&mut self, lasts: Duration) {
        self.aside.look(lasts);
    }

    /// Writes the file, and says on stderr what the worst wake-up was lost to. Returns whether the file is written.
    pub(super) fn end(self, crew: &Crew, usage: &[Option<Usage>]) -> bool {
        let run = self.aside.end(crew, usage, &self.held);
        sentences(&run).iter().for_each(|sentence| say(sentence));
        let unseen = run
            .notices
            .iter()
            .filter_map(|notice| if let Notice::Unseen(unseen) = notice { Some(unseen.text()) } else { None });
        unseen.for_each(|text| say(&text));
        let name = self.output.target.to_string();
        let written = self.output.write(|out| Ok(run.to_json(out)?));
        match &written {
            Ok(()) => say(&format!("punctual report {name}")),
            Err(error) => terminal::complain(&format!("error: {}", with_causes(error))),
        }
        written.is_ok()
    }
}

/// The answer of the run.
fn sentences(run: &Run) -> Vec<String> {
    let document = Document::from_run(run);
    let blocks = document.head.iter().flat_map(|section| &section.blocks);
    blocks.filter_map(|block| if let Block::Line(text) = block { Some(text.clone()) } else { None }).collect()
}

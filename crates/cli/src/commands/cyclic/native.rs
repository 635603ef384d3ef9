//! The native form: a thread on each CPU, at the highest priority that may be had, and a run in the record. And the run so far, on disk: what
//! a crash or SIGKILL leaves of a long run ([`Journal`]).
//!
//! Each second at the latest the whole run, with its causes, is written and synced beside its file and gets its name by rename(2). So the
//! file is always a whole run, also after a crash of the machine. Where the disk is full, the file stays as it was, that is said, and later
//! writings are tried. The end of the command removes the file: the run itself is then kept as every run is. A later run finds what a killed
//! one left, which nobody holds a lock on, and names it.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::Context as _;
use clap::Args;
use punctual::CpuSet;
use punctual::conditions::{Condition, Conditions, Value};
use punctual_lab::cyclic::{self, Load, Plan, Request, highest_priority};
use punctual_lab::{Observer, Progress};
use punctual_record::{Limit, Quantity, Run};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::args::{ConditionArgs, OutputArgs, values, with_one_value};
use crate::commands::cpu_lock;
use crate::commands::measure::{Perform, Planned, line_with_answer, measure_watched};
use crate::commands::until::{self, Judge, Judged, UntilArgs};
use crate::exit::Exit;
use crate::output::Target;
use crate::refusal::BadUsage;
use crate::{progress, saved, terminal};

/// Options of `cyclic`.
#[derive(Debug, Args)]
#[command(mut_args(with_one_value), mut_arg("until", |until| until.conflicts_with("duration")))]
pub(crate) struct CyclicArgs {
    /// From one wake-up to the next
    #[arg(long, value_name = "DUR", default_value = "1ms", value_parser = values::positive_duration)]
    pub(crate) every: Duration,
    /// How long (10m, 8h)
    #[arg(long, value_name = "DUR", default_value = "10s", value_parser = values::positive_duration)]
    pub(crate) duration: Duration,
    /// Load beside the threads: cpu, memory, io, fork, timers, network, and last in a list 'stress-ng ARGS'
    #[arg(long, value_name = "LOAD", value_parser = Load::list)]
    pub(crate) load: Vec<Vec<Load>>,
    /// Do not look for the causes of late wake-ups, which the kernel's events show
    #[arg(long, conflicts_with_all = ["trace", "break_above"])]
    pub(crate) no_causes: bool,
    /// Write the kernel's events to a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<Target>,
    /// Keep only the events around wake-ups later than this in the trace, and go on
    #[arg(long = "break", value_name = "DUR", value_parser = values::positive_duration, requires = "trace")]
    pub(crate) break_above: Option<Duration>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) until: UntilArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl CyclicArgs {
    /// What is asked for: without a policy and a lock, the best that may be had.
    fn asked(&self) -> Result<Conditions, BadUsage> {
        self.conditions.check()?;
        // A condition has one value here, so there is one variant.
        let variants = self.conditions.variants()?.into_iter();
        let mut asked = variants.fold(self.conditions.base(), |asked, variant| variant.over(&asked));
        if asked.value(Condition::POLICY).is_none()
            && let Some(policy) = highest_priority()
        {
            asked = asked.with(Value::Policy(policy));
        }
        if asked.value(Condition::LOCK_MEMORY).is_none() && Condition::LOCK_MEMORY.available().is_ok() {
            asked = asked.lock_memory();
        }
        Ok(asked)
    }

    fn measured(&self, cpus: &CpuSet) -> Vec<Planned> {
        let of_cpu = |cpu: usize| (cyclic::EXPERIMENT, format!("cpu{cpu}"), Quantity::Lateness);
        cpus.iter().map(of_cpu).collect()
    }
}

impl Perform for CyclicArgs {
    fn perform(&self) -> anyhow::Result<Exit> {
        let until = self.until.against.as_deref();
        let request = Request {
            conditions: self.asked()?,
            require: self.conditions.require,
            interval: self.every,
            duration: if until.is_some() { self.until.at_most } else { self.duration },
            round: until.map(|_| Judged::<Journal>::round(self.until.at_most)),
            loads: self.load.concat(),
            causes: !self.no_causes,
            spikes_above: self.break_above,
        };
        let plan = Plan::new(request).map_err(BadUsage::from)?;
        let cpus: CpuSet = cpu_lock::cpus(self.conditions.cpus().as_ref());
        self.until.check(&self.measured(&cpus))?;
        let judge = until.map(|base| Judge::open(&self.until, base)).transpose()?;
        let output = OutputArgs { trace: self.trace.clone(), ..self.output.clone() };
        let outputs = output.open()?;
        let mut journal = Journal::open(line_with_answer(&output, &outputs), !output.no_keep);
        let Some(judge) = judge else {
            return measure_watched(cyclic::EXPERIMENT, &output, outputs, &cpus, &mut journal, |session| {
                cyclic::run(plan, session).context("cyclic")
            });
        };
        if !output.quiet {
            judge.forecast();
        }
        let judge = RefCell::new(judge);
        let mut judged = Judged::beside(journal, &judge);
        let exit = measure_watched(cyclic::EXPERIMENT, &output, outputs, &cpus, &mut judged, |session| {
            cyclic::run(plan, session).context("cyclic")?;
            until::conclude(&judge, session)
        })?;
        Ok(judge.borrow().exit(exit))
    }

    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        Some((&self.output.fail_if, self.measured(&cpu_lock::cpus(self.conditions.cpus().as_ref()))))
    }
}

/// The name of the file has the process and the time of its start between these.
const NAME: [&str; 2] = ["cyclic-", ".json"];
/// The end of the name while it is written.
const PART: &str = ".part";
/// What a killed run is called once it was found: among the runs that could not be written, of which the oldest go first.
const FOUND: &str = "unwritten-";
/// From one writing to the next.
const EACH: Duration = Duration::from_millis(700);

/// An observer that writes the run so far, and hands everything on to the progress line.
struct Journal {
    line: progress::Line,
    path: Option<PathBuf>,
    /// The file, locked for as long as this process lives (flock(2)).
    file: Option<File>,
    written: Option<Instant>,
    /// The last writing failed, and that was said.
    fails: bool,
}

impl Journal {
    /// `keep`: whether the run may be kept. Names the runs that a killed process left.
    fn open(line: progress::Line, keep: bool) -> Self {
        let folder = saved::folders().find_map(Result::ok).filter(|_| keep);
        if let Some(folder) = &folder {
            for path in left_behind(folder) {
                let path = path.display();
                terminal::complain(&format!("note: a run that was killed is in {path}: punctual report {path}"));
            }
        }
        // In another PID namespace, another process has the same number.
        let since = UNIX_EPOCH.elapsed().unwrap_or_default();
        let id = format!("{}-{}.{:09}", std::process::id(), since.as_secs(), since.subsec_nanos());
        let path = folder.map(|folder| folder.join(NAME.join(&id)));
        Self { line, path, file: None, written: None, fails: false }
    }

    fn write(&mut self, run: &Run) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut json = Vec::new();
        run.to_json(&mut json).map_err(io::Error::other)?;
        let part = path.with_extension(&PART[1..]);
        let written = File::create(&part).and_then(|mut file| {
            lock(&file)?;
            file.write_all(&json)?;
            file.sync_data()?;
            fs::rename(&part, path)?;
            Ok(file)
        });
        if written.is_err() {
            // On a full disk it is in the way of the next one.
            let _ = fs::remove_file(&part);
        }
        self.file = Some(written?);
        // The new name is on disk when its folder is.
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    /// Says once that the run so far is not written, and once that it is again.
    fn tell(&mut self, written: io::Result<()>) {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        match written {
            Err(error) if !self.fails => {
                let text = format!(
                    "the run so far cannot be written to {path}: {error}; what it held stays, and measuring goes on"
                );
                self.line.warn(&text);
                self.fails = true;
            }
            Ok(()) if self.fails => {
                let text = format!("the run so far is written to {path} again");
                self.line.warn(&text);
                self.fails = false;
            }
            _ => {}
        }
    }
}

/// Locks the file for as long as it is open, unless another process has. Returns whether its file system has locks.
fn lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(error @ Errno::WOULDBLOCK) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// The files that no process holds any longer, each under a name that no later process takes.
fn left_behind(folder: &Path) -> Vec<PathBuf> {
    let files = folder.read_dir().into_iter().flatten().flatten();
    let found = files.filter_map(|file| {
        let name = file.file_name();
        let name = name.to_str()?.strip_prefix(NAME[0])?;
        let id = name.strip_suffix(PART).or(name.strip_suffix(NAME[1]))?;
        // The lock ends with the process that holds it, and with this file.
        let opened = File::options().read(true).write(true).open(file.path()).ok()?;
        let (process, _) = id.split_once('-').unwrap_or((id, ""));
        if !lock(&opened).ok()? && Path::new("/proc").join(process).exists() {
            return None;
        }
        // A writer may have put another one in its place before that.
        if fs::metadata(file.path()).ok()?.ino() != opened.metadata().ok()?.ino() {
            return None;
        }
        if name.ends_with(PART) {
            // The writing that was cut short.
            let _ = fs::remove_file(file.path());
            return None;
        }
        let since = opened.metadata().ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        let name = format!("{FOUND}{:012}.{:09}-{process}.json", since.as_secs(), since.subsec_nanos());
        let path = folder.join(name);
        fs::rename(file.path(), &path).ok().map(|()| path)
    });
    found.collect()
}

impl Observer for Journal {
    fn progress(&mut self, progress: &Progress) {
        self.line.progress(progress);
    }

    fn takes_runs(&self) -> bool {
        self.path.is_some() || self.line.takes_runs()
    }

    fn so_far(&mut self, run: &dyn Fn() -> Run) {
        self.line.so_far(run);
        if self.written.is_none_or(|at| at.elapsed() >= EACH) {
            self.written = Some(Instant::now());
            let run = run();
            if !run.series.is_empty() {
                let written = self.write(&run);
                self.tell(written);
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.line.line(text);
    }

    fn warn(&mut self, text: &str) {
        self.line.warn(text);
    }

    fn finish(&mut self) {
        self.line.finish();
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for path in self.path.iter().flat_map(|path| [path.clone(), path.with_extension(&PART[1..])]) {
            let _ = fs::remove_file(path);
        }
    }
}

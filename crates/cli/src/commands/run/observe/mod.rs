//! `punctual run --observe`: the waits of the program, counted by the library that is loaded into it.
//!
//! Counting needs no help: the file holds what a killed program did. A thread reads it now and then, for rounds.

mod names;
mod series;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punctual::conditions::{Conditions, Refused};
use punctual::format_duration;
use punctual_lab::{Session, Silent, Stop, condition_set};
use punctual_linux::call_table::{self, Totals};
use punctual_record::{NotMeasured, Notice, Run};
use punctual_report::export::text;
use punctual_report::gate;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::args::{Flags, OutputArgs};
use crate::commands::deliver::deliver;
use crate::commands::measure::command_line;
use crate::commands::run::args::RunArgs;
use crate::commands::run::observe::series::{Round, Rounds};
use crate::exit::Exit;
use crate::output::Outputs;
use crate::terminal;

/// The name of the command, and of the experiment.
const NAME: &str = "run";
const EXPERIMENT: &str = punctual_record::Experiment::CALLS;
/// What sees every program.
const ELSEWHERE: &str = "punctual why -- PROGRAM sees every program, with CAP_PERFMON";

/// An observation before its program starts.
pub(super) struct Observation<'a> {
    table: Table,
    session: Session<'a>,
    wanted: OutputArgs,
    outputs: Outputs,
}

/// Opens the outputs and makes the table, if it is asked for. The text says why there is no table.
pub(super) fn prepare<'a>(
    args: &RunArgs,
    silent: &'a mut Silent,
) -> anyhow::Result<(Option<Observation<'a>>, Option<String>)> {
    if !args.observe.observe {
        return Ok((None, None));
    }
    let wanted = args.observe.outputs(args.quiet);
    let outputs = wanted.open_beside_program()?;
    let session = Session::open(command_line(NAME), NAME, Stop::default(), silent);
    Ok(match Table::make() {
        Ok(table) => (Some(Observation { table, session, wanted, outputs }), None),
        Err(error) => (
            None,
            Some(format!(
                "observe: no file can be made to count in: {error}; set XDG_RUNTIME_DIR to a folder that takes one"
            )),
        ),
    })
}

impl<'a> Observation<'a> {
    /// The file in which the program counts.
    pub(super) fn path(&self) -> &Path {
        self.table.path()
    }

    /// Notes under which conditions the program is started. It sets its policy itself, if that is permitted.
    pub(super) fn under(&mut self, asked: &Conditions, refused: &[Refused], has_policy: bool) {
        let held = Conditions::inspect();
        let held = match asked.get_policy() {
            Some(policy) if has_policy => held.policy(policy),
            _ => held,
        };
        self.session.add_conditions(condition_set(asked, &held, refused));
    }

    /// Reads the table now and then, until [`Watching::end`].
    pub(super) fn watch(self) -> Watching<'a> {
        let Self { table, session, wanted, outputs } = self;
        let (ending, end) = channel();
        // The thread has the signals blocked, as the one that supervises the program.
        let thread = std::thread::Builder::new().name("observe".into()).spawn(move || watch(table, &end));
        Watching { thread: thread.ok(), ending, session, wanted, outputs, began: Instant::now() }
    }
}

/// What the thread leaves: the last reading, and the rounds.
type Seen = Option<(Totals, Vec<Round>)>;

fn watch(table: Table, end: &Receiver<()>) -> Seen {
    let (began, mut rounds) = (Instant::now(), Rounds::new());
    loop {
        let ended = end.recv_timeout(rounds.length()) != Err(RecvTimeoutError::Timeout);
        match table.read() {
            Ok(totals) => rounds.take(totals, began.elapsed()),
            // The program emptied its file: what was read before stays.
            Err(_) if ended => {}
            Err(_) => continue,
        }
        if ended {
            return Some(rounds.end());
        }
    }
}

/// A program that is observed.
pub(super) struct Watching<'a> {
    thread: Option<JoinHandle<Seen>>,
    ending: Sender<()>,
    session: Session<'a>,
    wanted: OutputArgs,
    outputs: Outputs,
    began: Instant,
}

impl Watching<'_> {
    /// The program ended: makes the record and delivers it. `hidden` says why it saw no library. Returns the exit status.
    pub(super) fn end(mut self, args: &RunArgs, exit: Exit, hidden: Option<&str>) -> Exit {
        let took = self.began.elapsed();
        drop(self.ending);
        let (totals, rounds) = self.thread.and_then(|thread| thread.join().ok().flatten()).unwrap_or_default();
        let program =
            Path::new(&args.program[0]).file_name().unwrap_or(&args.program[0]).to_string_lossy().into_owned();
        let names = names::of_functions(&totals.entries);
        let conditions = condition_set(&args.conditions.all(), &Conditions::new(), &[]).label;
        let series = series::counted(&totals.entries, &names, &rounds, &conditions);
        if series.is_empty() {
            self.session.add_not_measured(nothing(&program, &totals, hidden));
        }
        series.into_iter().for_each(|series| self.session.add_series(series));
        notices(&program, took, exit, &totals).into_iter().for_each(|text| self.session.notice(Notice::Other { text }));
        let mut run = self.session.close();
        Flags::taken_by(NAME).name_in(&mut run);
        run.limits.clone_from(&self.wanted.fail_if);
        judged(&run, &self.wanted, self.outputs, exit)
    }
}

/// Delivers the run. The program's status comes first: only success becomes another.
fn judged(run: &Run, wanted: &OutputArgs, outputs: Outputs, exit: Exit) -> Exit {
    let verdict = gate::evaluate(run);
    let all_written = deliver(run, wanted, outputs);
    terminal::say(&text::phrases(verdict.phrases(), &terminal::style_for_notices(wanted.color)));
    match exit {
        Exit::Program(0) if !run.limits.is_empty() && !verdict.all_kept() => verdict.outcome().into(),
        Exit::Program(0) => Exit::Done.unless_lost(all_written),
        exit => exit,
    }
}

/// Why no wait was counted.
fn nothing(program: &str, totals: &Totals, hidden: Option<&str>) -> NotMeasured {
    let why = match (hidden, totals.attached) {
        (Some(why), _) => why.to_owned(),
        (None, 0) => format!(
            "no process of {program} loaded the library: static programs, Go and set-user-ID programs do not, nor one that cannot map its file"
        ),
        _ => format!(
            "{program} makes no wait through the C library: it makes its calls without it, does not wait, or goes on as another user, who cannot open the file"
        ),
    };
    NotMeasured {
        experiment: EXPERIMENT.into(),
        subject: program.to_owned(),
        conditions: None,
        parameters: std::collections::BTreeMap::new(),
        why,
        remedy: Some(ELSEWHERE.into()),
    }
}

fn notices(program: &str, took: Duration, exit: Exit, totals: &Totals) -> Vec<String> {
    let status = match exit {
        Exit::Program(status) => format!("with exit status {status}"),
        Exit::Signal(signal) => format!("by signal {signal}"),
        _ => "with an unknown status".to_owned(),
    };
    let took = format_duration(Duration::from_millis(took.as_millis() as u64));
    let programs = match totals.attached {
        1 => "1 program counted".to_owned(),
        n => format!("{n} programs counted (each exec is one)"),
    };
    let mut texts = vec![format!("{program} ended after {took} {status}; {programs}")];
    if totals.uncounted > 0 {
        let sites = call_table::ENTRIES;
        texts.push(format!("{} calls are not counted: the table has room for {sites} call sites", totals.uncounted));
    }
    texts
}

// The file in which the library counts: made before the program starts, removed after it.
//
// It stands in $XDG_RUNTIME_DIR, /dev/shm or the temporary folder, the first that takes it; only this user may open it. This process
// locks it (flock(2)). One without a lock was left by a process that was killed, and the next run removes it.

/// The beginning of its name.
const FILE_NAME: &str = "punctual-observe-";

/// The file, until it is dropped.
struct Table {
    file: File,
    path: PathBuf,
}

impl Table {
    /// Makes the file, and removes those that others left.
    fn make() -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let folders = runtime.into_iter().chain([PathBuf::from("/dev/shm"), std::env::temp_dir()]);
        let mut failed = io::Error::other("no folder for a temporary file");
        for folder in folders {
            match Self::make_in(&folder) {
                Ok(table) => return Ok(table),
                Err(error) => failed = io::Error::new(error.kind(), format!("{}: {error}", folder.display())),
            }
        }
        Err(failed)
    }

    fn make_in(folder: &Path) -> io::Result<Self> {
        remove_left(folder);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let path = folder.join(format!("{FILE_NAME}{}-{}", std::process::id(), since.as_nanos()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let table = Self { file, path };
        flock(&table.file, FlockOperation::NonBlockingLockExclusive)?;
        call_table::format(&table.file)?;
        // Between its making and its lock, another run may have taken it for one that was left.
        let there = table.path.symlink_metadata()?;
        let same = there.ino() == table.file.metadata()?.ino();
        if same { Ok(table) } else { Err(io::Error::other("another file took its name")) }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self) -> io::Result<Totals> {
        call_table::read(&self.file)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the files of processes that were killed.
fn remove_left(folder: &Path) {
    let user = rustix::process::geteuid().as_raw();
    let named =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(FILE_NAME.as_bytes()));
    let entries = folder.read_dir().into_iter().flatten();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(named) {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(&path) else { continue };
        let own = file.metadata().is_ok_and(|facts| facts.is_file() && facts.uid() == user);
        if own && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_with_its_table_and_one_that_was_left_with_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let there = || folder.path().read_dir().unwrap().count();
        let left = folder.path().join(format!("{FILE_NAME}1-1"));
        let other = folder.path().join("other");
        std::fs::write(&left, "").unwrap();
        std::fs::write(&other, "").unwrap();
        let one = Table::make_in(folder.path()).unwrap();
        assert!(!left.exists() && other.exists() && one.path().exists());
        let two = Table::make_in(folder.path()).unwrap();
        assert!(one.path().exists(), "it is in use");
        assert_eq!(one.path().metadata().unwrap().mode() & 0o777, 0o600);
        assert!(two.read().unwrap().entries.is_empty());
        drop((one, two));
        assert_eq!(there(), 1);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_an_error() {
        assert!(Table::make_in(Path::new("/proc")).is_err());
        assert!(Table::make_in(Path::new("/nowhere")).is_err());
    }
}

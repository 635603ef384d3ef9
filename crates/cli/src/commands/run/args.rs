//! The arguments of `punctual run`, with those of counting a program's waits.
//! And the libraries that are loaded into the program, with their settings: its own waits, and those of MPI; and what a seccomp filter that
//! the program inherits makes of their system calls.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use punctual_record::Limit;

use super::remedies::RemedyArgs;
use crate::args::{OutputArgs, ProgramConditions, Tables, limits, values};
use crate::commands::preload;
use crate::output::Target;
use crate::terminal::Color;

const OBSERVATION: &str = "Observation";

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) conditions: ProgramConditions,
    #[command(flatten)]
    pub(crate) remedies: RemedyArgs,
    #[command(flatten)]
    pub(crate) mpi: MpiArgs,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    /// Do not load the library into programs that the program starts
    ///
    /// Otherwise they inherit it and its settings, as LD_PRELOAD and PUNCTUAL_* in the environment. For whoever cannot start them through
    /// `run` again, PUNCTUAL_DISABLE=1 in the environment turns every loaded library off.
    #[arg(long, conflicts_with = "mpi")]
    pub(crate) no_inherit: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print no notices, such as those of refused conditions
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

const MPI: &str = "MPI programs";

/// How the ranks of an MPI program wait.
#[derive(Debug, Args)]
pub(crate) struct MpiArgs {
    /// Let the ranks of an MPI program give up the CPU while they wait (MPICH, Open MPI; by LD_PRELOAD)
    #[arg(long, help_heading = MPI)]
    pub(crate) mpi: bool,
    /// With --mpi: poll N times before each yield (0: never yields) [default: learned]
    #[arg(long, value_name = "N", help_heading = MPI, requires = "mpi", value_parser = values::polls)]
    pub(crate) polls: Option<u32>,
    /// With --mpi: sleep, at most DUR at a time, in a wait that yielded 1000 times [default: never]
    #[arg(long, value_name = "DUR", help_heading = MPI, requires = "mpi", value_parser = values::positive_duration)]
    pub(crate) longest_sleep: Option<Duration>,
}

/// Counting the waits of the program, by a library that is loaded into it.
#[derive(Debug, Args)]
pub(crate) struct ObserveArgs {
    /// Count the program's waits by call site, without a privilege: number, time asked, lateness, CPU time
    ///
    /// The report goes to stderr when the program has ended. It has the waits through the C library, in all processes of the program. A
    /// call that can block costs some 200 ns more. With CAP_PERFMON, `punctual why -- PROGRAM` sees every program and the causes.
    #[arg(long, help_heading = OBSERVATION)]
    pub(crate) observe: bool,
    /// With --observe: write the whole run as JSON
    #[arg(long, value_name = "FILE", help_heading = OBSERVATION, requires = "observe")]
    json: Option<Target>,
    /// With --observe: write an HTML page with charts
    #[arg(long, value_name = "FILE", help_heading = OBSERVATION, requires = "observe")]
    html: Option<Target>,
    /// With --observe: write CSV, a line per series
    #[arg(long, value_name = "FILE", help_heading = OBSERVATION, requires = "observe")]
    csv: Option<Target>,
    /// With --observe: write all tables to FILE, instead of the first screen to stderr
    #[arg(long = "output", short = 'o', value_name = "FILE", help_heading = OBSERVATION, requires = "observe", conflicts_with = "full")]
    tables: Option<Target>,
    /// With --observe: print all tables, not only the first screen
    #[arg(long, help_heading = OBSERVATION, requires = "observe")]
    full: bool,
    /// With --observe: exit with status 3 if a figure exceeds this, with 4 if it is not judged ('p99 of usleep > 200us')
    ///
    /// The status becomes 3 only if that of the program is 0. Without `of FUNCTION` a limit is about the lateness of every call site.
    #[arg(
        long, alias = "fail-above", value_name = "LIMIT", value_delimiter = ',', help_heading = OBSERVATION, requires = "observe",
        value_parser = limits::of_run
    )]
    pub(crate) fail_if: Vec<Limit>,
    /// With --observe: do not keep this run as the last one, which `punctual report last` shows
    #[arg(long, help_heading = OBSERVATION, requires = "observe")]
    no_keep: bool,
    /// With --observe: colour the tables
    #[arg(long, value_name = "WHEN", help_heading = OBSERVATION, requires = "observe")]
    color: Option<Color>,
}

impl ObserveArgs {
    /// Where the results go: stdout belongs to the program.
    pub(crate) fn outputs(&self, quiet: bool) -> OutputArgs {
        OutputArgs {
            json: self.json.clone(),
            html: self.html.clone(),
            csv: self.csv.clone(),
            quiet,
            color: self.color.unwrap_or(Color::Auto),
            fail_if: self.fail_if.clone(),
            no_keep: self.no_keep,
            no_wait: false,
            full: self.full,
            tables: Tables::Stderr,
            output: self.tables.clone(),
            trace: None,
        }
    }
}

/// What works without a library.
const ELSEWHERE: &str = "--timer-slack, --slice and --policy hold for any program, and punctual why says what it lacks";

const COUNTED: &str = "punctual why -- PROGRAM sees any program, with CAP_PERFMON";

/// A variable of the program's environment that holds a setting.
type Setting = (&'static str, String);

/// The libraries that the arguments ask for.
pub(super) struct Libraries {
    waits: Option<PathBuf>,
    mpi: Option<PathBuf>,
    /// Why the program would not see them.
    hidden: Option<String>,
}

/// A library and its settings.
pub(super) struct Loaded {
    library: PathBuf,
    settings: Vec<Setting>,
}

impl Libraries {
    /// Finds them.
    ///
    /// # Errors
    /// If one is not installed.
    pub(super) fn find(args: &RunArgs) -> Result<Self, String> {
        let find = |asked: bool, part| asked.then(|| preload::find(&part)).transpose();
        let waits = find(args.remedies.settings().is_some() || args.observe.observe, preload::WAITS)?;
        let mpi = find(args.mpi.mpi, preload::MPI)?;
        let hidden = if waits.is_some() || mpi.is_some() { preload::hidden(&args.program[0]) } else { None };
        Ok(Self { waits, mpi, hidden })
    }

    /// Whether none is asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_none() && self.mpi.is_none()
    }

    /// Why the program sees none of them.
    pub(super) fn hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// The same, with what this means and what works for any program.
    pub(super) fn trouble(&self, args: &RunArgs) -> Option<String> {
        let why = self.hidden()?;
        Some(match args.remedies.settings() {
            None if self.mpi.is_none() => format!("{why}; its waits are not counted: {COUNTED}"),
            _ => format!("{why}; its waits stay as they are: {ELSEWHERE}"),
        })
    }

    /// Those that the program sees, with their settings. `observed` is the file in which waits are counted.
    pub(super) fn loaded(&self, args: &RunArgs, observed: Option<&Path>) -> Vec<Loaded> {
        if self.hidden.is_some() {
            return Vec::new();
        }
        let remedies = args.remedies.settings().map(|settings| ("PUNCTUAL_PRELOAD", settings));
        let observed = observed.map(|path| ("PUNCTUAL_OBSERVE", path.display().to_string()));
        let inherit = args.no_inherit.then(|| ("PUNCTUAL_INHERIT", "0".to_owned()));
        let settings: Vec<Setting> = remedies.into_iter().chain(observed).collect();
        // Without a file to count in, there may be nothing to do.
        let waits = self.waits.clone().filter(|_| !settings.is_empty());
        let waits = waits.map(|library| Loaded { library, settings: settings.into_iter().chain(inherit).collect() });
        let mpi = self.mpi.clone().map(|library| Loaded { library, settings: of_mpi(&args.mpi) });
        waits.into_iter().chain(mpi).collect()
    }
}

fn of_mpi(args: &MpiArgs) -> Vec<Setting> {
    let polls = args.polls.map(|polls| ("PUNCTUAL_MPI_POLLS", polls.to_string()));
    let sleep = args.longest_sleep.map(|sleep| ("PUNCTUAL_MPI_SLEEP_NS", sleep.as_nanos().to_string()));
    polls.into_iter().chain(sleep).collect()
}

impl Loaded {
    pub(super) fn load_into(&self, command: &mut Command) {
        preload::into(command, &self.library);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        // The library lowers it, and a child of the program would take that for its own.
        if let Ok(slack_ns) = punctual_linux::sched::timer_slack_ns() {
            command.env("PUNCTUAL_SLACK_NS", slack_ns.to_string());
        }
    }
}

/// A step of `--dry-run`.
impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load {}", self.library.display())?;
        for (n, (name, value)) in self.settings.iter().enumerate() {
            let word = if n == 0 { "with" } else { "and" };
            write!(f, " {word} {name}={value}")?;
        }
        Ok(())
    }
}

// A seccomp filter that the program inherits, and the system calls that the loaded library makes instead of the program's own.

/// Calls of each flag.
const OF_PRECISE: &str = "ppoll, futex and prctl(PR_SET_TIMERSLACK)";
const OF_POLL_FIRST: &str = "rt_sigprocmask, ppoll and futex";
const OF_RULES: &str =
    "openat, read, fstat, mmap, munmap, close, prctl, sched_getattr, sched_setattr, sched_setaffinity and prlimit64";
const OF_OBSERVE: &str = "openat, fstat, mmap, clock_gettime and getrusage";

/// What the flags make the program call, where a filter is on.
pub(super) fn notice_of_filter(args: &RunArgs) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let calls = calls(args);
    (is_filtered(&status) && !calls.is_empty()).then(|| {
        format!(
            "the program inherits a seccomp filter (Seccomp in /proc/self/status). A filter that answers with an error is heeded; one that kills ends \
             the program at a call that it does not allow: {}",
            calls.join("; ")
        )
    })
}

fn is_filtered(status: &str) -> bool {
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() != "0")
}

fn calls(args: &RunArgs) -> Vec<String> {
    let remedies = &args.remedies;
    let flags = [
        ("--precise-sleep", OF_PRECISE, remedies.precise_sleep.is_some()),
        ("--poll-first", OF_POLL_FIRST, remedies.poll_first.is_some()),
        ("--usleep0", "sched_yield", remedies.usleep0.is_some()),
        ("--sched-yield", "sched_yield and nanosleep", remedies.sched_yield.is_some()),
        ("--rules", OF_RULES, remedies.rules.is_some()),
        ("--observe", OF_OBSERVE, args.observe.observe),
    ];
    flags.into_iter().filter(|(.., given)| *given).map(|(flag, calls, _)| format!("{flag} makes {calls}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_other_than_0_is_a_filter() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
        assert!(!is_filtered("Name:\tSeccomp:\t2\n"), "a kernel without CONFIG_SECCOMP");
    }
}

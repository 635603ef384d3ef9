//! The arguments of `punctual why`; the session of what it watches, and its end; and the remedies that are tried on a program.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use punctual::conditions::CONDITIONS;
use punctual::format_duration;
use punctual_lab::advise::{Advisor, Reach, Tried};
use punctual_lab::paths::Subject;
use punctual_lab::program::Depth;
use punctual_lab::wait::methods;
use punctual_lab::ways::wait::Method;
use punctual_lab::{Observer, Session, Stop};
use punctual_record::{Causes, Trial, TrialRefused};

use crate::args::{Flags, MeasureArgs, OutputArgs, Tables, values};
use crate::commands::deliver::deliver;
use crate::commands::measure::command_line;
use crate::output::{Outputs, Target};
use crate::refusal::Nearest;

/// Options of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Watch this running process: its threads, and those that it creates
    #[arg(long, value_name = "PID", value_parser = values::process, conflicts_with_all = of_own_waits())]
    pub(crate) pid: Option<i32>,
    /// With --pid: only its threads of this name ('worker-*'), as they are at the start
    #[arg(long, value_name = "NAME", requires = "pid")]
    pub(crate) thread: Option<String>,
    /// Record the path of these calls through the kernel (sched_yield nanosleep): its functions, or its events
    ///
    /// `punctual wait` and `punctual yield` list the names. Functions need the tracer function_graph, which some kernels lack. Waits have
    /// the shortest duration of --for. --cpu names the CPUs for the calls.
    #[arg(
        long, value_name = "METHOD", num_args = 1.., value_parser = way,
        conflicts_with_all = of_own_waits().into_iter().filter(|own| !["durations", "cpu"].contains(own)).chain(["pid", "thread", "program", "trace", "duration", "advise"])
    )]
    pub(crate) path: Vec<Subject>,
    /// Try remedies on a program, one at a time, interleaved on and off; restore everything [default: 30s]
    ///
    /// The remedies are timer slack, time slice, SCHED_FIFO, one CPU and no idle states.
    #[arg(long, conflicts_with_all = of_own_waits())]
    pub(crate) advise: bool,
    /// Hide command lines, and the paths of files and control groups, in all that is shown or written
    ///
    /// Names of threads, processes, functions and source files stay.
    #[arg(long, conflicts_with_all = of_own_waits())]
    pub(crate) redact: bool,
    /// Durations of own waits
    #[arg(
        long = "for", value_name = "DUR", value_delimiter = ',', default_value = "100us,1ms",
        value_parser = values::positive_duration
    )]
    pub(crate) durations: Vec<Duration>,
    /// Write all tables to FILE, instead of the first screen to the terminal
    #[arg(long = "output", short = 'o', value_name = "FILE", conflicts_with = "full")]
    pub(crate) tables: Option<Target>,
    /// Write all events to FILE, for ui.perfetto.dev or chrome://tracing (-: to stdout, instead of the tables)
    ///
    /// The file is JSON (Trace Event Format). Each CPU and each watched thread has a track. That of a thread has its system calls, their
    /// lateness and its wakers. A million events take some 130 MB. The page works offline once it is loaded.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<Target>,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    /// The program to run and watch, and its arguments
    #[arg(
        value_name = "PROGRAM", trailing_var_arg = true,
        conflicts_with_all = of_own_waits().into_iter().chain(["pid"])
    )]
    pub(crate) program: Vec<OsString>,
}

impl WhyArgs {
    /// How the own waits are made: as most programs make them.
    pub(crate) fn method() -> Option<&'static Method> {
        methods::find("nanosleep")
    }

    /// Single wake-ups are in the tables of --full and in --trace, and --advise compares them.
    pub(super) fn depth(&self) -> Depth {
        if self.measure.output.full || self.advise || self.tables.is_some() || self.trace.is_some() {
            Depth::WakeUps
        } else {
            Depth::Sums
        }
    }

    /// Where the results go.
    pub(crate) fn outputs(&self) -> OutputArgs {
        OutputArgs {
            tables: if self.program.is_empty() { Tables::Stdout } else { Tables::Stderr },
            output: self.tables.clone(),
            trace: self.trace.clone(),
            ..self.measure.output.clone()
        }
    }
}

/// A way to wait or to yield.
fn way(text: &str) -> Result<Subject, String> {
    let nearest = || Nearest::to(text, Subject::all().map(|way| way.name().to_owned()));
    let unknown = || format!("expected a way to wait or to yield (example: sched_yield){}", nearest());
    Subject::all().find(|way| way.name() == text).ok_or_else(unknown)
}

/// What is about own waits only.
fn of_own_waits() -> Vec<&'static str> {
    let own = ["durations", "samples", "rounds", "warmup", "fail_if", "no_wait", "require"];
    CONDITIONS.iter().map(|condition| condition.name()).chain(own).collect()
}

// The end of watching: the causes go into the run, and the run to its readers.

/// The name of the command.
pub(super) const NAME: &str = "why";

/// A session of this command.
pub(super) fn session(stop: Stop, observer: &mut dyn Observer) -> Session<'_> {
    Session::open(command_line(NAME), NAME, stop, observer)
}

impl WhyArgs {
    /// Enters the causes, and delivers the run. Returns whether all outputs were written.
    pub(super) fn close(
        &self,
        mut session: Session<'_>,
        causes: Causes,
        wanted: &OutputArgs,
        outputs: Outputs,
    ) -> bool {
        session.set_causes(causes);
        let mut run = session.close();
        if self.redact {
            run.redact();
        }
        Flags::taken_by(NAME).name_in(&mut run);
        deliver(&run, wanted, outputs)
    }
}

/// Default duration: five remedies in a dozen pairs of blocks, so that some may be disturbed.
pub(super) const USUAL_TO_ADVISE: Duration = Duration::from_secs(30);
/// The part of the time in which the program is only watched.
pub(super) const BEFORE_ADVICE: f64 = 0.15;

/// Prepares for a process.
pub(super) fn advisor(pid: i32, reach: Reach) -> anyhow::Result<Advisor> {
    Advisor::open(pid, reach).context("starting the process that puts settings back")
}

/// The program ended before the time for remedies was over.
pub(super) fn ended_before_advice(name: &str, after: Duration, planned: Duration) -> TrialRefused {
    let [after, planned] = [after, planned].map(|time| format_duration(Duration::from_millis(time.as_millis() as u64)));
    TrialRefused {
        why: format!("{name} ended after {after}; remedies are tried for {planned}"),
        remedy: Some("have the program run for longer, or give --duration".to_owned()),
    }
}

/// Enters what was tried. `cut` says what left less time for it.
pub(super) fn enter_trials(tried: Tried, cut: Option<&TrialRefused>, causes: &mut Causes, session: &mut Session<'_>) {
    let with_reason = |trial: Trial| {
        let (own, cut) = (trial.refused.clone(), cut.cloned());
        Trial { refused: if trial.pairs.is_empty() { own.or(cut) } else { cut.or(own) }, ..trial }
    };
    causes.trials = tried.trials.into_iter().map(with_reason).collect();
    tried.notices.into_iter().for_each(|notice| session.notice(notice));
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    #[test]
    fn the_command_of_each_remedy_is_one() {
        for trial in punctual_lab::advise::remedies() {
            let shell = trial.code.shell.unwrap();
            let run = shell.lines().last().unwrap();
            assert!(crate::commands::Args::try_parse_from(run.split(' ')).is_ok(), "{run}");
        }
    }
}

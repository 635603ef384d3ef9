//! What all commands have in common: what each does with its arguments and is going to measure ([`Perform`]), so that a limit that is about
//! nothing of it is refused before; and what stands around an experiment, and after it.

use punctual::CpuSet;
use punctual_lab::{Observer, Session, Stop};
use punctual_record::{Limit, Quantity};
use punctual_report::export::text;
use punctual_report::export::text::list::{self, ListRow};
use punctual_report::gate;

use super::cpu_lock;
use super::deliver::{deliver, is_empty, nothing_measured};
use super::trace::OfRun;
use crate::args::{Flags, OutputArgs, Tables, limits};
use crate::exit::{Exit, explain, listen_for_signals};
use crate::output::Outputs;
use crate::progress::Live;
use crate::refusal::BadUsage;
use crate::terminal::Color;
use crate::{progress, terminal};

/// A command with its arguments.
pub(crate) trait Perform {
    /// Does it.
    fn perform(&self) -> anyhow::Result<Exit>;

    /// Its limits, and what it may measure. `None`: it measures nothing, or compares.
    fn planned(&self) -> Option<(&[Limit], Vec<Planned>)> {
        None
    }
}

/// A figure that a command may measure: its experiment, its subject, its quantity.
pub(crate) type Planned = (&'static str, String, Quantity);

/// The same, as limits are checked against it.
pub(super) fn named((experiment, subject, quantity): &Planned) -> (&str, &str, Quantity) {
    (experiment, subject, *quantity)
}

/// Refuses a limit that is about nothing that the command measures.
pub(super) fn check(command: &dyn Perform) -> Result<(), BadUsage> {
    let Some((limits, planned)) = command.planned() else { return Ok(()) };
    let named: Vec<_> = planned.iter().map(named).collect();
    limits::check(limits, &named)
}

/// Runs an experiment as every measuring command does. It listens for signals, locks the CPUs, shows progress, delivers the run and judges
/// it. `name` is the second word of the recorded command line, even if not typed.
pub(super) fn measure(
    name: &str,
    wanted: &OutputArgs,
    cpus: &CpuSet,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let outputs = wanted.open()?;
    let mut line = line(wanted, &outputs);
    measure_watched(name, wanted, outputs, cpus, &mut line, experiment)
}

/// The progress line. The verdict on limits is the first line of stdout.
pub(super) fn line(wanted: &OutputArgs, outputs: &Outputs) -> progress::Line {
    let lines_to_stderr = outputs.takes_stdout() || !wanted.fail_if.is_empty();
    progress::Line::new(!wanted.quiet, lines_to_stderr)
}

/// The progress line below the answer, which is shown while it is measured: where this terminal gets the first screen at the end.
pub(super) fn line_with_answer(wanted: &OutputArgs, outputs: &Outputs) -> progress::Line {
    let is_screen = terminal::has_both() && !wanted.full && wanted.tables != Tables::Nowhere && !outputs.takes_stdout();
    let height = terminal::height().filter(|_| is_screen);
    line(wanted, outputs).with_answer(height.and_then(|height| Live::new(terminal::style(wanted.color), height)))
}

/// Like [`measure`], with open outputs and another observer.
pub(super) fn measure_watched(
    name: &str,
    wanted: &OutputArgs,
    mut outputs: Outputs,
    cpus: &CpuSet,
    observer: &mut dyn Observer,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let stop = Stop::default();
    listen_for_signals(&stop)?;
    let Some(locks) = cpu_lock::take(cpus, wanted, &stop)? else { return Ok(Exit::of(&stop)) };
    let mut session = Session::open(command_line(name), name, stop.clone(), observer);
    let trace = outputs.take("--trace").map(OfRun::requested);
    trace.iter().for_each(|trace| session.trace_by(Box::new(trace.clone())));
    let outcome = experiment(&mut session);
    let mut run = session.close();
    Flags::taken_by(name).name_in(&mut run);
    run.limits.clone_from(&wanted.fail_if);
    drop(locks);
    observer.finish();
    let traced = trace.is_none_or(|trace| trace.finish(run.causes.as_ref()));
    let failure = outcome.err();
    if is_empty(&run)
        && let Some(error) = failure
    {
        return Err(error);
    }
    // Judged before anything is written: a failed write must not hide an exceeded limit.
    let verdict = gate::evaluate(&run);
    // A run that failed half-way is reported too.
    let all_written = deliver(&run, wanted, outputs) && traced;
    terminal::say(&text::phrases(verdict.phrases(), &terminal::style_for_notices(wanted.color)));
    let exit = match Exit::of(&stop) {
        Exit::Done if !run.limits.is_empty() && !verdict.all_kept() => verdict.outcome().into(),
        exit => exit.unless_lost(all_written),
    };
    match failure {
        // An exceeded limit or a signal outranks the failure.
        Some(error) => {
            let failed = explain(&error);
            Ok(if exit == Exit::Done { failed } else { exit })
        }
        None if exit == Exit::Done && is_empty(&run) => Err(nothing_measured(&run)),
        None => Ok(exit),
    }
}

pub(super) fn command_line(name: &str) -> Vec<String> {
    let name = name.split(' ').next().unwrap_or(name);
    let mut words: Vec<String> = std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    if let Some(first) = words.first_mut() {
        *first = "punctual".into();
    }
    if words.get(1).is_none_or(|word| word != name) {
        words.insert(1, name.to_owned());
    }
    words
}

/// Prints what `--list` shows.
pub(super) fn list(rows: impl IntoIterator<Item = ListRow>, color: Color) -> anyhow::Result<Exit> {
    let rows: Vec<ListRow> = rows.into_iter().collect();
    terminal::print(&list::render(&rows, &terminal::style(color)))?;
    Ok(Exit::Done)
}

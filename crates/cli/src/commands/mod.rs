//! The commands: each makes a plan, has it run, and hands the run to the reports.

mod calibrate;
mod checkup;
mod compare;
mod deliver;
mod governor;
mod ipc;
mod merge;
mod nothing;
mod pace;
mod report;
mod run;
mod wait;
mod yielding;

use punctual::CpuSet;
use punctual_lab::governor::Under;
use punctual_lab::{Observer, Session, Stop};
use punctual_report::threshold;

use crate::args::{Args, Command, ConditionArgs, OutputArgs};
use crate::exit::{Exit, explain};
use crate::output::Outputs;
use crate::{cpu_lock, interrupt, progress, terminal};

/// Does what was asked.
pub(crate) fn dispatch(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => checkup::run(&args.checkup),
        Some(Command::Checkup(checkup)) => checkup::run(&checkup),
        Some(Command::Wait(wait)) => wait::run(&wait),
        Some(Command::Ipc(args)) => ipc::run(&args),
        Some(Command::Yield(args)) => yielding::run(&args),
        Some(Command::Report(report)) => report::run(&report),
        Some(Command::Governor(governor)) => governor::run(&governor),
        Some(Command::Run(program)) => run::run(&program),
        Some(Command::Calibrate(args)) => calibrate::run(&args),
        Some(Command::Pace(args)) => pace::run(&args),
        Some(Command::Compare(compare)) => compare::run(&compare),
        Some(Command::Merge(merge)) => merge::run(&merge),
    }
}

/// What every measuring command does around its experiment: listen for signals, lock the CPUs that it may measure on, show progress,
/// deliver the run, judge it. `name` stands second in the recorded command line, also when it was not typed.
fn measure(
    name: &str,
    wanted: &OutputArgs,
    cpus: &CpuSet,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let outputs = wanted.open()?;
    let mut line = progress::Line::new(!wanted.quiet, outputs.takes_stdout());
    measure_watched(name, wanted, outputs, cpus, &mut line, experiment)
}

/// The same for outputs that are open already, and another observer.
fn measure_watched(
    name: &str,
    wanted: &OutputArgs,
    outputs: Outputs,
    cpus: &CpuSet,
    observer: &mut dyn Observer,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let stop = Stop::default();
    interrupt::listen(&stop)?;
    let Some(locks) = cpu_lock::take(cpus, wanted, &stop)? else { return Ok(interrupt::exit(&stop)) };
    let mut session = Session::open(command_line(name), stop.clone(), observer);
    let outcome = experiment(&mut session);
    let run = session.close();
    drop(locks);
    observer.finish();
    let failure = outcome.err();
    if run.series.is_empty()
        && let Some(error) = failure
    {
        return Err(error);
    }
    // Judged before anything is written: whatever becomes of the readers, the limits decide.
    let verdict = threshold::evaluate(&wanted.fail_above, &run);
    // What was measured before something failed is reported too.
    let all_written = deliver::deliver(&run, wanted, outputs);
    terminal::say(&threshold::render(&verdict, &run, &terminal::style_for_notices(wanted.color)));
    let exit = match interrupt::exit(&stop) {
        Exit::Done if !wanted.fail_above.is_empty() && !verdict.all_kept() => Exit::Exceeded,
        exit => exit.unless_lost(all_written),
    };
    match failure {
        // A limit that was exceeded stays exceeded, and a signal a signal.
        Some(error) => {
            let failed = explain(&error);
            Ok(if exit == Exit::Done { failed } else { exit })
        }
        None if exit == Exit::Done && run.series.is_empty() => Err(nothing::measured(&run)),
        None => Ok(exit),
    }
}

/// An experiment under the governor that the conditions ask for, if they do.
fn under(
    conditions: &ConditionArgs,
    session: &mut Session<'_>,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let under = conditions.governor().map(|asked| Under::set(&asked, session)).transpose()?;
    let outcome = experiment(session);
    under.into_iter().for_each(|under| under.put_back(session));
    outcome
}

fn command_line(name: &str) -> Vec<String> {
    let mut words: Vec<String> = std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    if let Some(first) = words.first_mut() {
        *first = "punctual".into();
    }
    if words.get(1).is_none_or(|word| word != name) {
        words.insert(1, name.to_owned());
    }
    words
}

//! The commands: each makes a plan, has it run, and hands the run to the reports.

mod checkup;
mod wait;

use punctual_lab::{Session, Stop};
use punctual_record::Run;
use punctual_report::threshold;

use crate::args::{Args, Command, OutputArgs};
use crate::exit::Exit;
use crate::{interrupt, output, progress};

/// Does what was asked.
pub(crate) fn dispatch(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => checkup::run(&args.checkup),
        Some(Command::Checkup(checkup)) => checkup::run(&checkup),
        Some(Command::Wait(wait)) => wait::run(&wait),
    }
}

/// What every measuring command does around its experiment: listen for signals, show progress, deliver the run, judge it.
fn measure(
    wanted: &OutputArgs,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    wanted.check()?;
    let stop = Stop::default();
    interrupt::listen(&stop)?;
    let mut line = progress::Line::new(!wanted.quiet);
    let mut session = Session::open(command_line(), stop.clone(), &mut line);
    let outcome = experiment(&mut session);
    let run = session.close();
    line.finish();
    outcome?;
    output::deliver(&run, wanted)?;
    Ok(judge(&run, wanted, &stop))
}

fn command_line() -> Vec<String> {
    let mut words: Vec<String> = std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    if let Some(first) = words.first_mut() {
        *first = "punctual".into();
    }
    words
}

/// The exit status that the run deserves.
fn judge(run: &Run, wanted: &OutputArgs, stop: &Stop) -> Exit {
    let verdict = threshold::evaluate(run, &wanted.fail_above);
    for line in verdict.lines() {
        output::complain(&line);
    }
    match stop.reason() {
        Some(signal) => Exit::Signal(interrupt::number(&signal)),
        None if verdict.passed() => Exit::Done,
        None => Exit::Exceeded,
    }
}

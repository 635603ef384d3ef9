//! The commands: each makes a plan, has it run, and hands the run to the reports.

mod checkup;
mod compare;
mod merge;
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
        Some(Command::Compare(compare)) => compare::run(&compare),
        Some(Command::Merge(merge)) => merge::run(&merge),
    }
}

/// What every measuring command does around its experiment: listen for signals, show progress, deliver the run, judge it.
/// `name` stands second in the recorded command line, also when it was not typed.
fn measure(
    name: &str,
    wanted: &OutputArgs,
    experiment: impl FnOnce(&mut Session<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    wanted.check()?;
    let stop = Stop::default();
    interrupt::listen(&stop)?;
    let mut line = progress::Line::new(!wanted.quiet);
    let mut session = Session::open(command_line(name), stop.clone(), &mut line);
    let outcome = experiment(&mut session);
    let run = session.close();
    line.finish();
    outcome?;
    output::deliver(&run, wanted)?;
    Ok(judge(&run, wanted, &stop))
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

/// The exit status that the run deserves.
fn judge(run: &Run, wanted: &OutputArgs, stop: &Stop) -> Exit {
    let verdict = threshold::evaluate(&wanted.fail_above, run);
    output::say(&threshold::render(&verdict, run, &output::style_for_notices(wanted.color)));
    match stop.reason() {
        Some(signal) => Exit::Signal(interrupt::number(&signal)),
        None if wanted.fail_above.is_empty() || verdict.all_kept() => Exit::Done,
        None => Exit::Exceeded,
    }
}

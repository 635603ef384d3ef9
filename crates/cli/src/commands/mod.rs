//! The commands: each makes a plan, runs it, and hands the run to the reports.

mod about;
mod calibrate;
mod checkup;
mod compare;
mod conditions;
mod cpu_lock;
mod deliver;
mod governor;
mod ipc;
pub(crate) mod line;
mod measure;
mod merge;

mod pace;
mod planned;
mod preload;
mod report;
mod run;
mod trace;
mod wait;
mod why;
mod yielding;

use crate::exit::Exit;
use line::{Args, Command};

/// Runs the command.
pub(crate) fn dispatch(args: Args) -> anyhow::Result<Exit> {
    if conditions::wanted(&args) {
        return conditions::list();
    }
    planned::check(&args)?;
    match args.command {
        None => checkup::run(&args.checkup),
        Some(Command::Checkup(checkup)) => checkup::run(&checkup),
        Some(Command::Wait(wait)) => wait::run(&wait),
        Some(Command::Why(why)) => why::run(&why),
        Some(Command::Ipc(args)) => ipc::run(&args),
        Some(Command::Yield(args)) => yielding::run(&args),
        Some(Command::Report(report)) => report::run(&report),
        Some(Command::Governor(governor)) => governor::run(&governor),
        Some(Command::Run(program)) => run::run(&program),
        Some(Command::Calibrate(args)) => calibrate::run(&args),
        Some(Command::Pace(args)) => pace::run(&args),
        Some(Command::Compare(compare)) => compare::run(&compare),
        Some(Command::Merge(merge)) => merge::run(&merge),
        Some(Command::About) => about::run(),
    }
}

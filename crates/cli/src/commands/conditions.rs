//! `--list-conditions`.

use punctual::conditions::{CONDITIONS, Condition, Scope};
use punctual_record::remedy::{self, Takes, switch_of};
use punctual_report::export::text::list::ListRow;

use super::measure;
use crate::commands::line::{Args, Command};
use crate::exit::Exit;
use crate::terminal::Color;

/// Whether the conditions are to be listed instead of what the command does.
pub(crate) fn wanted(args: &Args) -> bool {
    match &args.command {
        Some(Command::Wait(args)) => args.measure.conditions.list,
        Some(Command::Why(args)) => args.measure.conditions.list,
        Some(Command::Ipc(args)) => args.measure.conditions.list,
        Some(Command::Yield(args)) => args.measure.conditions.list,
        Some(Command::Calibrate(args)) => args.measure.conditions.list,
        Some(Command::Pace(args)) => args.measure.conditions.list,
        Some(Command::Run(args)) => args.conditions.list(),
        // Named one by one, so that the compiler asks about a new command.
        None
        | Some(
            Command::Checkup(_)
            | Command::Report(_)
            | Command::Governor(_)
            | Command::Compare(_)
            | Command::Merge(_)
            | Command::About,
        ) => false,
    }
}

/// Shows each condition, its value, and whether it can be had here.
pub(crate) fn list() -> anyhow::Result<Exit> {
    measure::list(rows(), Color::Auto)
}

/// A row for each condition.
pub(super) fn rows() -> impl Iterator<Item = ListRow> {
    CONDITIONS.iter().map(|condition| row(*condition))
}

fn row(condition: Condition) -> ListRow {
    let switch = switch_of(condition);
    let name = match switch.takes {
        Takes::Nothing => format!("--{condition}"),
        Takes::Value(value) => format!("--{condition} {value}"),
        Takes::OptionalValue { name, .. } => format!("--{condition}[={name}]"),
    };
    let kind = match condition.scope() {
        Scope::Thread => "of the thread",
        Scope::Process => "of the process",
        Scope::Machine => "of the machine",
    };
    ListRow {
        name,
        about: switch.help.into(),
        call: String::new(),
        kind: kind.into(),
        needs: String::new(),
        available: condition.available().map_err(|no| format!("{}; {}", no.why, remedy::of_refused(&no))),
        observed: None,
    }
}

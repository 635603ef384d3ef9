//! What the arguments of several commands share.

mod conditions;
mod flags;
pub(crate) mod getopt;
pub(crate) mod limits;
mod measure;
pub(crate) mod names;
pub(crate) mod values;

use std::sync::OnceLock;

use clap::Command;

pub(crate) use conditions::{ConditionArgs, ProgramConditions, asks_for_list, check, with_one_value};
pub(crate) use flags::Flags;
pub(crate) use measure::{MeasureArgs, OutputArgs, Tables, WatchArgs};

/// Makes the definition of the whole command line. The commands make it and are above this module, whose messages name their flags: so
/// it is handed down at the start.
static DEFINITION: OnceLock<fn() -> Command> = OnceLock::new();

/// Hands down how the definition of the command line is made.
pub(crate) fn define(make: fn() -> Command) {
    DEFINITION.get_or_init(|| make);
}

/// The definition of the command line.
pub(crate) fn definition() -> Command {
    DEFINITION.get().map_or_else(|| Command::new("punctual"), |make| make())
}

//! The command line: what was typed, as one definition that parser, help, manual and completions share.

mod amount;
mod conditions;
mod ipc;
mod output;
mod values;
mod wait;

use clap::{Parser, Subcommand};

pub(crate) use amount::AmountArgs;
pub(crate) use conditions::ConditionArgs;
pub(crate) use ipc::{IpcArgs, ModeArg};
pub(crate) use output::{Color, OutputArgs};
pub(crate) use wait::WaitArgs;

/// How late is this Linux machine, why, and what to use instead.
///
/// Without a command, measures this machine for about ten seconds and says what to use.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Options of the check-up.
    #[command(flatten)]
    pub(crate) checkup: CheckupArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine and say what to use (also without a command)
    Checkup(CheckupArgs),
    /// How late each way of waiting wakes up, and what CPU time it costs
    Wait(Box<WaitArgs>),
    /// How long a message takes between two processes
    Ipc(Box<IpcArgs>),
}

/// The check-up's options.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckupArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

//! The command line: what was typed, as one definition that parser, help, manual and completions share.

mod amount;
mod calibrate;
mod compare;
mod conditions;
mod governor;
mod ipc;
mod names;
mod output;
mod pace;
mod report;
mod run;
pub(crate) mod values;
mod wait;
mod yielding;

use clap::{Parser, Subcommand};

pub(crate) use amount::AmountArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use compare::{CompareArgs, Form, MergeArgs};
pub(crate) use conditions::ConditionArgs;
pub(crate) use governor::{Action, BoostArgs, GovernorArgs, RampArgs, SetArgs, ShowArgs, SwitchArgs, ThreadArgs};
pub(crate) use ipc::{IpcArgs, ModeArg};
pub(crate) use names::{chosen, meant};
pub(crate) use output::OutputArgs;
pub(crate) use pace::PaceArgs;
pub(crate) use report::ReportArgs;
pub(crate) use run::RunArgs;
pub(crate) use wait::WaitArgs;
pub(crate) use yielding::YieldArgs;

/// How late is this Linux machine, why, and what to use instead.
///
/// Without a command, measures this machine for less than half a minute and says what to use.
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
    /// What each way of giving up the CPU costs, and who gains by it
    Yield(Box<YieldArgs>),
    /// A saved run in another form: text, page, Markdown, CSV, metrics
    Report(ReportArgs),
    /// CPU frequency: show, set, restore, ramp, switch, boost
    Governor(Box<GovernorArgs>),
    /// Run a program under chosen conditions, and put everything back afterwards
    Run(Box<RunArgs>),
    /// What a sleep adds on this machine, and what reading the clock costs
    Calibrate(Box<CalibrateArgs>),
    /// Send packets at a rate, and measure how evenly they leave and arrive
    Pace(Box<PaceArgs>),
    /// What became later or sooner between saved runs, with statistics
    Compare(Box<CompareArgs>),
    /// Saved runs of one kind, added together into one
    Merge(MergeArgs),
}

/// The check-up's options.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckupArgs {
    /// Five seconds: the few methods that a verdict needs
    #[arg(long, conflicts_with = "thorough")]
    pub(crate) quick: bool,
    /// Some minutes: more methods, waits and sizes, and narrower intervals
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Measure so many times, each run into a file of its own (with --json run.json: run-1.json, run-2.json, ...)
    #[arg(long, value_name = "N", value_parser = values::integer(2u32, 1000, "--repeat 5"))]
    pub(crate) repeat: Option<u32>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

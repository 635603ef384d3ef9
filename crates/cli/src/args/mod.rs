//! The command line: one definition for parser, help, manual and completions.

mod amount;
mod calibrate;
mod command_args;
mod compare;
mod conditions;
mod flags;
mod governor;
mod ipc;
mod limits;
mod measure;
mod names;
mod observe;
mod output;
mod pace;
mod remedies;
mod report;
mod run;
pub(crate) mod values;
mod wait;
mod watch;
mod why;
mod yielding;

use clap::{Command as Definition, CommandFactory as _, Parser, Subcommand};

pub(crate) use amount::AmountArgs;
pub(crate) use calibrate::CalibrateArgs;
use command_args::{CommandArgs, with_negative_numbers};
pub(crate) use compare::{CompareArgs, Form, MergeArgs};
pub(crate) use conditions::{ConditionArgs, check};
pub(crate) use flags::Flags;
pub(crate) use governor::{Action, BoostArgs, GovernorArgs, RampArgs, SetArgs, ShowArgs, SwitchArgs, ThreadArgs};
pub(crate) use ipc::{IpcArgs, ModeArg};
pub(crate) use limits::{about_nothing, check as check_limits};
pub(crate) use measure::MeasureArgs;
pub(crate) use names::chosen;
pub(crate) use output::OutputArgs;
pub(crate) use pace::PaceArgs;
pub(crate) use report::ReportArgs;
pub(crate) use run::{MpiArgs, RunArgs};
pub(crate) use wait::WaitArgs;
pub(crate) use watch::WatchArgs;
pub(crate) use why::WhyArgs;
pub(crate) use yielding::YieldArgs;

/// The definition of the command line. That of a command's arguments is built when it is needed: `build` builds all.
pub(crate) fn command() -> Definition {
    with_negative_numbers(Args::command())
}

/// Measure how late this Linux machine is, why, and what to use instead.
///
/// Without a command, measures for under 30 s and recommends what to use.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub(crate) struct Args {
    /// The command, if it is not the check-up.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Options of the check-up.
    #[command(flatten)]
    pub(crate) checkup: CheckupArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Measure this machine and recommend what to use (default)
    Checkup(CommandArgs<CheckupArgs>),
    /// Measure how late each way of waiting wakes up, and its CPU time
    ///
    /// Every method waits for every duration; methods are interleaved in rounds. The tables list the least late first.
    Wait(CommandArgs<WaitArgs>),
    /// Say why wake-ups are late: of own waits, of a program, of a running process
    ///
    /// Without a program, waits for 100 us and for 1 ms, and splits the lateness by cause. With a program, runs it and watches every
    /// blocking call of its threads and children. The program has this terminal and these streams. The report goes to stderr, and the
    /// exit status is the program's. With --pid, watches a running process. The watched program is neither stopped nor traced (ptrace).
    ///
    /// Single wake-ups need CAP_PERFMON and tracefs. Without them, the report has the times that threads waited for a CPU.
    Why(CommandArgs<WhyArgs>),
    /// Measure how long a message takes between two processes
    ///
    /// Two processes pass messages through each mechanism; mechanisms are interleaved in rounds. The tables list the fastest first.
    Ipc(CommandArgs<IpcArgs>),
    /// Measure the cost of each way to yield the CPU, and who gets the CPU
    ///
    /// Calls every method alone on its CPU, with one competitor and with several; methods are interleaved in rounds. With --polls, a
    /// receiver polls a mailbox N times before each yield. That shows message latency, and the CPU share left to another program.
    Yield(CommandArgs<YieldArgs>),
    /// Show or convert a saved run: text, HTML, Markdown, CSV, metrics
    ///
    /// Reads a file that --json or --html wrote, on any machine; `last` is the last run of this user. Without a form, prints all tables.
    Report(CommandArgs<ReportArgs>),
    /// Show, set and measure CPU frequency governors
    ///
    /// Without a command, shows the policies.
    Governor(CommandArgs<GovernorArgs>),
    /// Run a program under chosen conditions; restore them afterwards
    ///
    /// The program has this terminal and these streams, and signals are passed on. It stops and goes on as one job. The exit status is
    /// the program's. 128 + N: signal N ended it; 127: it is not found; 126: it cannot be executed; 125: a library to load is not
    /// installed. A refused condition is a notice with its remedy; with --require the program does not run. So is a program that loads no
    /// library (static, Go, set-user-ID); with --require the status is 125.
    ///
    /// For MPI programs that have more ranks than CPUs: punctual run --mpi -- mpirun -n 4 ./program
    Run(CommandArgs<RunArgs>),
    /// Measure what a sleep adds on this machine, and the cost of a clock reading
    ///
    /// Fits elapsed = (TS+TE) + X·(TN+T) to many X and T. A sleep of T adds TN, and two clock readings cost TS+TE. Then shortens waits by
    /// TN and reports their error. Without --policy and --timer-slack, also measures with slack 1 ns and under SCHED_FIFO.
    Calibrate(CommandArgs<CalibrateArgs>),
    /// Measure how evenly packets sent at a rate leave and arrive
    ///
    /// Sends UDP datagrams at a rate with each method, interleaved, and compares every departure with its ideal time. For a loopback
    /// address, starts its own receiver and measures arrivals too. Sends only to the address given.
    Pace(CommandArgs<PaceArgs>),
    /// Compare saved runs: what changed, with statistics
    ///
    /// Compares p50, p99 and CPU time per operation of every series that both sides have. A difference is reported only if it exceeds
    /// the scatter between runs, corrected for the number of comparisons (docs/method.md).
    Compare(CommandArgs<CompareArgs>),
    /// Merge saved runs of one kind into one
    ///
    /// Adds the histograms and appends the rounds. Keeps the figures of each run. The runs may come from one machine or several.
    Merge(CommandArgs<MergeArgs>),
}

/// The check-up's options.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckupArgs {
    /// Take 5 s: only the methods that the verdict needs
    #[arg(long, conflicts_with = "thorough")]
    pub(crate) quick: bool,
    /// Take some minutes: more methods, waits and sizes; narrower intervals
    #[arg(long)]
    pub(crate) thorough: bool,
    /// Repeat N times, 2 to 1000, one file per run (--json run.json: run-1.json, run-2.json, ...)
    #[arg(long, value_name = "N", value_parser = values::integer(2u32, 1000, "5"))]
    pub(crate) repeat: Option<u32>,
    /// Print all tables, not only the first screen
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

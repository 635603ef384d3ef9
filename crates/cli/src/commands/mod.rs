//! The commands, and the command line: one definition for parser, help, manual and completions.
//!
//! Each command has its file, with its arguments and what it does with them ([`Perform`](measure::Perform)). A measuring command makes
//! a plan, runs it, and hands the run to the reports.

mod about;
mod calibrate;
mod checkup;
mod compare;
mod cpu_lock;
pub(crate) mod cyclic;
mod deliver;
mod governor;
mod ipc;
mod measure;
mod pace;
mod preload;
mod report;
mod run;
mod trace;
mod until;
mod wait;
mod why;
mod yielding;

use std::ops::Deref;

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Command as Definition, CommandFactory as _, Error, FromArgMatches, Parser, Subcommand};

use crate::args::asks_for_list;
use crate::exit::Exit;
use about::About;
use calibrate::CalibrateArgs;
use checkup::CheckupArgs;
use compare::{CompareArgs, MergeArgs};
use cyclic::CyclicArgs;
use governor::GovernorArgs;
use ipc::IpcArgs;
use measure::Perform;
use pace::PaceArgs;
use report::ReportArgs;
use run::RunArgs;
use wait::WaitArgs;
use why::WhyArgs;
use yielding::YieldArgs;

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
    /// Measure wake-ups at regular intervals on every CPU, as cyclictest does
    ///
    /// A thread on each CPU wakes up every millisecond, under SCHED_FIFO 95 if that may be had and in locked memory. The table has the
    /// lateness and the missed wake-ups of each CPU. It changes no idle states: --dma-latency 0us does, as cyclictest does unasked.
    ///
    /// A line with an option of cyclictest alone (-p80, -S, -l) does what cyclictest does, and prints the same. So does every
    /// line of a link named cyclictest to this program: see cyclictest --help.
    Cyclic(CommandArgs<CyclicArgs>),
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
    /// Reads a file that --json or --html wrote, on any machine; `last` is the last run of this user. Without a form, prints the first screen; --full prints all tables.
    Report(CommandArgs<ReportArgs>),
    /// Show, set and measure CPU frequency governors
    ///
    /// Without a command, shows the policies.
    Governor(CommandArgs<GovernorArgs>),
    /// Run a program under chosen conditions; restore them afterwards
    ///
    /// The program has this terminal and these streams, and signals are passed on. It stops and goes on as one job. The exit status is
    /// the program's. 128 + N: signal N ended it; 127: it is not found; 126: it cannot be executed; 125: a library to load is not
    /// installed. A refused condition is a notice with its remedy; with --require the program does not run. A program that loads no
    /// library (static, Go, set-user-ID) is a notice too; with --require it does not run, and the status is 125.
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
    /// Show the parts of this installation, what the kernel has, and what this user may do
    ///
    /// Lists version and build, the libraries that `run` loads and where they are, and each condition with its remedy if it is refused.
    ///
    /// One command of root gives a plain user what a feature needs. Real-time policies, negative nice values, locked memory, where time
    /// goes, single wake-ups: setcap cap_sys_nice,cap_perfmon,cap_bpf,cap_ipc_lock=ep /usr/bin/punctual. Single wake-ups need tracefs
    /// too: mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing. Idle states: chgrp GROUP /dev/cpu_dma_latency, with chmod g+rw.
    /// With setcap, a user still watches and changes his own processes only.
    About,
}

impl Args {
    /// The command, to be performed.
    fn asked(&self) -> &dyn Perform {
        match &self.command {
            None => &self.checkup,
            Some(Command::Checkup(args)) => &**args,
            Some(Command::Wait(args)) => &**args,
            Some(Command::Why(args)) => &**args,
            Some(Command::Cyclic(args)) => &**args,
            Some(Command::Ipc(args)) => &**args,
            Some(Command::Yield(args)) => &**args,
            Some(Command::Report(args)) => &**args,
            Some(Command::Governor(args)) => &**args,
            Some(Command::Run(args)) => &**args,
            Some(Command::Calibrate(args)) => &**args,
            Some(Command::Pace(args)) => &**args,
            Some(Command::Compare(args)) => &**args,
            Some(Command::Merge(args)) => &**args,
            Some(Command::About) => &About,
        }
    }
}

/// Runs the command of a line that was read as these arguments.
pub(crate) fn dispatch(line: &ArgMatches, args: &Args) -> anyhow::Result<Exit> {
    if asks_for_list(line) {
        return about::list_conditions();
    }
    let command = args.asked();
    measure::check(command)?;
    command.perform()
}

/// Names of values that begin with a number. A negative one is refused as a value, not as an unknown option.
const NUMBERS: [&str; 9] = ["DUR", "N", "N,N,..", "BYTES", "SIZE", "FREQ", "RATE", "FROM..TO", "PID"];

/// The arguments `T` of a command, on the heap: commands differ in size.
///
/// The definition of `T` is built late (`clap::Command::defer`). Its own description would then replace that of the command.
#[derive(Debug)]
pub(crate) struct CommandArgs<T>(Box<T>);

impl<T> Deref for CommandArgs<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: clap::Args> clap::Args for CommandArgs<T> {
    fn augment_args(command: Definition) -> Definition {
        let [about, long] = [command.get_about(), command.get_long_about()].map(|text| Resettable::from(text.cloned()));
        with_negative_numbers(T::augment_args(command)).about(about).long_about(long)
    }

    fn augment_args_for_update(command: Definition) -> Definition {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for CommandArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|args| Self(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|args| Self(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Lets the options of a command, and of its commands, have a negative number.
fn with_negative_numbers(command: Definition) -> Definition {
    let is_number = |arg: &Arg| {
        let names = arg.get_value_names().unwrap_or_default();
        arg.get_num_args().is_none_or(|number| number.min_values() > 0)
            && names.iter().any(|name| NUMBERS.contains(&name.as_str()))
    };
    let of_all = |arg: Arg| if is_number(&arg) { arg.allow_hyphen_values(true) } else { arg };
    command.mut_args(of_all).mut_subcommands(with_negative_numbers)
}

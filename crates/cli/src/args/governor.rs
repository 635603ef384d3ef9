//! `punctual governor` and its actions.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use punctual::conditions::{CpuSet, Policy};
use punctual::cpufreq::Lever;
use punctual_lab::governor::Thread;

use super::{OutputArgs, values};
use crate::terminal::Color;

/// CPU frequency: show who chooses it, set that, and measure what it does.
///
/// Without an action, shows the policies.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GovernorArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    /// Options of `show`.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// The actions.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show policies, governor threads, idle states and energy counters (also without an action)
    Show(ShowArgs),
    /// Set a governor, until it is restored
    Set(SetArgs),
    /// Put back what `set` changed, or what a program that was killed left changed
    Restore,
    /// How a fixed piece of work speeds up under each governor
    Ramp(Box<RampArgs>),
    /// What writing a governor takes, and when the new speed is there
    Switch(Box<SwitchArgs>),
    /// A periodic task as the machine is, raised around each activation, and at full speed: deadlines met, and at what cost
    Boost(Box<BoostArgs>),
}

/// Options of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Colours in the tables
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Options of `set`.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The governor
    #[arg(value_name = "GOVERNOR")]
    pub(crate) governor: String,
    /// On the policies of these CPUs (0-3,8); on all when none is named
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<CpuSet>,
}

/// Options of `ramp`.
#[derive(Debug, Args)]
pub(crate) struct RampArgs {
    /// Governors, in this order; all that the CPU offers when none is named, or the present one where none can be set
    #[arg(value_name = "GOVERNOR")]
    pub(crate) governors: Vec<String>,
    /// Loops per round
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::integer(1u32, 1_000_000, "--loops 100"))]
    pub(crate) loops: u32,
    /// What one loop takes at full speed
    #[arg(long, value_name = "DUR", default_value = "750us", value_parser = values::positive_duration)]
    pub(crate) work: Duration,
    /// How long the CPU rests before each round
    #[arg(long, value_name = "DUR", default_value = "300ms", value_parser = values::positive_duration)]
    pub(crate) rest: Duration,
    /// Rounds in which the governors take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = values::integer(1u32, 10_000, "--rounds 3"))]
    pub(crate) rounds: u32,
    /// Raise the kernel threads that the governors work in to SCHED_FIFO with this priority, for the run (1-99)
    #[arg(long, value_name = "N", value_parser = values::integer(1u8, 99, "--governor-thread-priority 50"))]
    pub(crate) governor_thread_priority: Option<u8>,
    #[command(flatten)]
    pub(crate) thread: ThreadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `switch`.
#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// The two governors to switch between: powersave performance when none is named
    #[arg(value_name = "FROM TO", num_args = 2)]
    pub(crate) governors: Vec<String>,
    /// Switches each way per round
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = values::integer(1u32, 10_000, "--switches 10"))]
    pub(crate) switches: u32,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = values::integer(1u32, 10_000, "--rounds 5"))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) thread: ThreadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `boost`.
#[derive(Debug, Args)]
pub(crate) struct BoostArgs {
    /// From one activation to the next
    #[arg(long, value_name = "DUR", default_value = "10ms", value_parser = values::positive_duration)]
    pub(crate) period: Duration,
    /// What is done in each, as it takes at full speed
    #[arg(long, value_name = "DUR", default_value = "750us", value_parser = values::positive_duration)]
    pub(crate) work: Duration,
    /// How long after its activation the work must be done; half as long again as --work when it is not given
    #[arg(long, value_name = "DUR", value_parser = values::positive_duration)]
    pub(crate) deadline: Option<Duration>,
    /// Activations per round
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::integer(1u32, 1_000_000, "--periods 100"))]
    pub(crate) periods: u32,
    /// Rounds in which the three take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = values::integer(1u32, 10_000, "--rounds 3"))]
    pub(crate) rounds: u32,
    /// How long the CPU rests before each round
    #[arg(long, value_name = "DUR", default_value = "300ms", value_parser = values::positive_duration)]
    pub(crate) rest: Duration,
    /// How the speed is raised; the first of these that works here when it is not given
    #[arg(long, value_name = "LEVER")]
    pub(crate) by: Option<LeverArg>,
    #[command(flatten)]
    pub(crate) thread: ThreadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The ways to raise the speed, from the cheapest.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LeverArg {
    /// Utilisation clamp of the thread (uclamp), under schedutil
    Clamp,
    /// Lower frequency limit, raised to the upper one
    MinFrequency,
    /// Energy-performance preference
    Epp,
    /// Governor performance
    Governor,
}

impl From<LeverArg> for Lever {
    fn from(arg: LeverArg) -> Self {
        match arg {
            LeverArg::Clamp => Self::Clamp,
            LeverArg::MinFrequency => Self::MinFrequency,
            LeverArg::Epp => Self::Preference,
            LeverArg::Governor => Self::Governor,
        }
    }
}

/// The looping thread.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct ThreadArgs {
    /// Scheduling policy of the looping thread: other, batch, idle, rr:PRIO, fifo:PRIO
    #[arg(long, value_name = "POLICY", default_value = "fifo:10")]
    pub(crate) policy: Policy,
    /// CPU to loop on; the last one that this process may use when none is named
    #[arg(long, value_name = "N", value_parser = values::integer(0usize, punctual_record::MAX_CPU as usize, "--cpu 1"))]
    pub(crate) cpu: Option<usize>,
    /// Fail when a condition is refused, instead of measuring without it
    #[arg(long)]
    pub(crate) require: bool,
}

impl From<&ThreadArgs> for Thread {
    fn from(args: &ThreadArgs) -> Self {
        Self { cpu: args.cpu, policy: Some(args.policy), require: args.require }
    }
}

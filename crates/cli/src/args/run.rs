//! `punctual run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::conditions::ProgramConditions;
use super::observe::ObserveArgs;
use super::remedies::RemedyArgs;
use super::values;

/// Options of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) conditions: ProgramConditions,
    #[command(flatten)]
    pub(crate) remedies: RemedyArgs,
    #[command(flatten)]
    pub(crate) mpi: MpiArgs,
    #[command(flatten)]
    pub(crate) observe: ObserveArgs,
    /// Do not load the library into programs that the program starts
    ///
    /// Otherwise they inherit it and its settings, as LD_PRELOAD and PUNCTUAL_* in the environment. For whoever cannot start them through
    /// `run` again, PUNCTUAL_DISABLE=1 in the environment turns every loaded library off.
    #[arg(long, conflicts_with = "mpi")]
    pub(crate) no_inherit: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print no notices, such as those of refused conditions
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

const MPI: &str = "MPI programs";

/// How the ranks of an MPI program wait.
#[derive(Debug, Args)]
pub(crate) struct MpiArgs {
    /// Let the ranks of an MPI program give up the CPU while they wait (MPICH, Open MPI; by LD_PRELOAD)
    #[arg(long, help_heading = MPI)]
    pub(crate) mpi: bool,
    /// With --mpi: poll N times before each yield (0: never yields) [default: learned]
    #[arg(long, value_name = "N", help_heading = MPI, requires = "mpi", value_parser = values::polls)]
    pub(crate) polls: Option<u32>,
    /// With --mpi: sleep, at most DUR at a time, in a wait that yielded 1000 times [default: never]
    #[arg(long, value_name = "DUR", help_heading = MPI, requires = "mpi", value_parser = values::positive_duration)]
    pub(crate) longest_sleep: Option<Duration>,
}

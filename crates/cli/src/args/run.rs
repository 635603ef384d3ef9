//! `punctual run`.

use std::ffi::OsString;

use clap::Args;

use super::conditions::ProgramConditions;
use super::remedies::RemedyArgs;

/// Run a program under chosen conditions, and put everything back afterwards.
///
/// The program has this terminal and these streams; signals are passed on; its exit status is returned (128 + N when signal N
/// ended it, 127 when it was not found, 126 when it cannot be executed). A refused condition is told on stderr with its remedy and the program runs without it, unless --require is
/// given.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) conditions: ProgramConditions,
    #[command(flatten)]
    pub(crate) remedies: RemedyArgs,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Say nothing of refused conditions
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

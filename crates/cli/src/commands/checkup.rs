//! The check-up.

use anyhow::Context as _;
use punctual_lab::checkup;

use crate::args::CheckupArgs;
use crate::exit::Exit;

/// Measures this machine and says what to use.
pub(crate) fn run(args: &CheckupArgs) -> anyhow::Result<Exit> {
    super::measure("checkup", &args.output, |session| checkup::run(session).context("check-up"))
}

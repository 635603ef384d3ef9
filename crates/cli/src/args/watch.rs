//! Watching of the run itself.

use clap::Args;

use super::OutputArgs;
use crate::output::Target;

/// Whether the measuring thread is watched.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Say why wake-ups are late: half of the rounds are watched, and give causes instead of figures
    #[arg(long)]
    pub(crate) why: bool,
    /// With --why: write all events of the watched rounds to FILE, for ui.perfetto.dev (-: to stdout, instead of the tables)
    #[arg(long, value_name = "FILE", requires = "why")]
    pub(crate) trace: Option<Target>,
}

impl WatchArgs {
    /// Where the results go, and the events.
    pub(crate) fn outputs(&self, output: &OutputArgs) -> OutputArgs {
        OutputArgs { trace: self.trace.clone(), ..output.clone() }
    }
}

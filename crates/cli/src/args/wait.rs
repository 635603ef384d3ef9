//! `punctual wait`.

use std::time::Duration;

use clap::Args;
use punctual_lab::wait::{interruptible, methods};
use punctual_lab::ways::wait::Method;

use super::names::{Chosen, Item, Names, Shelf, chosen};
use super::{AmountArgs, ConditionArgs, OutputArgs, WatchArgs, values};

/// Options of `wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Ways to wait, by name or kind (kind:timer), see --list [default: all]
    #[arg(value_name = "METHOD", value_parser = Names::<WaysToWait>::new(), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Wait durations
    #[arg(
        long = "for", value_name = "DUR", value_delimiter = ',', default_value = "10us,100us,1ms",
        value_parser = values::positive_duration
    )]
    pub(crate) durations: Vec<Duration>,
    /// A signal every DUR: sleeps return early with EINTR (signal(7)) and continue with what they say is left
    #[arg(long, value_name = "DUR", value_parser = values::signal_period)]
    pub(crate) interrupt: Option<Duration>,
    /// List the ways to wait, their requirements and observed system calls; measure nothing
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl WaitArgs {
    /// The ways to wait that are measured: those named, else all that can be.
    pub(crate) fn measured(&self) -> Vec<&'static Method> {
        chosen(&self.methods).unwrap_or_else(|| match self.interrupt {
            Some(_) => interruptible().collect(),
            None => methods::all().collect(),
        })
    }
}

impl Item for Method {
    fn name(&'static self) -> &'static str {
        self.name
    }

    fn about(&'static self) -> &'static str {
        self.about
    }

    fn kind(&'static self) -> Option<String> {
        Some(self.kind.name().replace(' ', "-"))
    }
}

/// Every way to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaysToWait;

impl Shelf for WaysToWait {
    type Item = Method;
    const WHAT: &'static str = "way to wait";
    const LIST: &'static str = "punctual wait --list";

    fn all() -> impl Iterator<Item = &'static Method> {
        methods::all()
    }
}

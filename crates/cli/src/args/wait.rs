//! `punctual wait`.

use std::time::Duration;

use clap::Args;
use punctual_lab::wait::{interruptible, methods};
use punctual_lab::ways::wait::Method;

use super::names::{Chosen, Item, Names, Shelf, chosen};
use super::{MeasureArgs, WatchArgs, values};

/// Options of `wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Ways to wait, by name or kind (kind:timer), see --list [default: all]
    #[arg(value_name = "METHOD", value_parser = Names(&WAYS_TO_WAIT), hide_possible_values = true)]
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
    pub(crate) measure: MeasureArgs,
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

/// Every way to wait.
static WAYS_TO_WAIT: Shelf<Method> = Shelf {
    what: "way to wait",
    list: "punctual wait --list",
    all: || methods::all().collect(),
    item: |its| Item { name: its.name, about: its.about, kind: Some(its.kind.name()) },
    is_offered: |_| true,
};

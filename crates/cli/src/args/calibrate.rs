//! `punctual calibrate`.

use std::time::Duration;

use clap::Args;
use punctual_lab::calibrate::can_be_calibrated;
use punctual_lab::wait::methods;
use punctual_lab::ways::wait::Method;

use super::names::{Chosen, Item, Names, Shelf, chosen};
use super::{MeasureArgs, values};

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Ways to sleep [default: nanosleep]
    #[arg(value_name = "METHOD", value_parser = Names(&WAYS_TO_SLEEP), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Wait that checks the calibration
    #[arg(long, value_name = "DUR", default_value = "100us", value_parser = values::positive_duration)]
    pub(crate) check: Duration,
    /// Print what a sleep adds, a line per round, until Ctrl-C or --duration
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

impl CalibrateArgs {
    /// The ways to sleep to measure.
    pub(crate) fn calibrated(&self) -> Vec<&'static Method> {
        chosen(&self.methods).unwrap_or_else(|| methods::find("nanosleep").into_iter().collect())
    }
}

/// Every way to sleep for a duration.
static WAYS_TO_SLEEP: Shelf<Method> = Shelf {
    what: "way to sleep that can be calibrated",
    list: "punctual wait --list",
    all: || methods::all().collect(),
    item: |its| Item { name: its.name, about: its.about, kind: Some(its.kind.name()) },
    is_offered: |its| can_be_calibrated(its).is_ok(),
};

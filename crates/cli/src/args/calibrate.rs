//! `punctual calibrate`.

use std::time::Duration;

use clap::Args;
use punctual_lab::calibrate::can_be_calibrated;
use punctual_lab::wait::methods;
use punctual_lab::ways::wait::Method;

use super::names::{Chosen, Names, Shelf, chosen};
use super::{AmountArgs, ConditionArgs, OutputArgs, values};

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Ways to sleep [default: nanosleep]
    #[arg(value_name = "METHOD", value_parser = Names::<WaysToSleep>::new(), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// Wait that checks the calibration
    #[arg(long, value_name = "DUR", default_value = "100us", value_parser = values::positive_duration)]
    pub(crate) check: Duration,
    /// Print what a sleep adds, a line per round, until Ctrl-C or --duration
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl CalibrateArgs {
    /// The ways to sleep to measure.
    pub(crate) fn calibrated(&self) -> Vec<&'static Method> {
        chosen(&self.methods).unwrap_or_else(|| methods::find("nanosleep").into_iter().collect())
    }
}

/// Every way to sleep for a duration.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaysToSleep;

impl Shelf for WaysToSleep {
    type Item = Method;
    const WHAT: &'static str = "way to sleep that can be calibrated";
    const LIST: &'static str = "punctual wait --list";

    fn all() -> impl Iterator<Item = &'static Method> {
        methods::all()
    }

    fn is_offered(item: &'static Method) -> bool {
        can_be_calibrated(item).is_ok()
    }
}

//! `punctual calibrate`.

use std::time::Duration;

use clap::Args;
use punctual_lab::calibrate::can_be_calibrated;
use punctual_lab::wait::method::Method;
use punctual_lab::wait::methods;

use super::names::{Chosen, Names, Shelf};
use super::{AmountArgs, ConditionArgs, OutputArgs, values};

/// What a sleep adds on this machine (TN), and what reading the clock costs (TS+TE).
///
/// Fits elapsed = (TS+TE) + X·(TN+T) to many X and T, then proves it: waits shortened by TN, and how exact they were.
/// Without --policy and --timer-slack, shows a timer slack of 1 ns and SCHED_FIFO beside what it finds.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Ways to sleep for a duration; nanosleep when none is named
    #[arg(value_name = "METHOD", value_parser = Names::<WaysToSleep>::new(), hide_possible_values = true)]
    pub(crate) methods: Vec<Chosen<Method>>,
    /// The wait by which the calibration is proved
    #[arg(long, value_name = "DUR", default_value = "100us", allow_hyphen_values = true, value_parser = values::positive_duration)]
    pub(crate) check: Duration,
    /// Show what a sleep adds as it drifts, a line per round, until Ctrl-C or as long as --duration says
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) amount: AmountArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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

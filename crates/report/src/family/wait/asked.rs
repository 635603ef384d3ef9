//! What a wait makes of the duration asked: coarser units, elapsed time, error.

use std::collections::BTreeMap;

use punctual_record::{Quantity, Series};

/// The durations asked, ascending, each with its series.
pub(super) type Groups<'a> = BTreeMap<i64, Vec<&'a Series>>;

/// From the call to its return at the median, ns: for calls that take a duration.
pub(crate) fn elapsed(series: &Series) -> Option<i64> {
    let asked_ns = series.experiment.any_wait()?.parameters.asked_ns;
    asked_ns.checked_add(series.summary.p50?).filter(|_| series.quantity == Quantity::Overshoot)
}

/// The median overshoot as a share of the duration asked.
pub(crate) fn error(series: &Series) -> Option<f64> {
    let asked_ns = series.experiment.any_wait()?.parameters.asked_ns;
    let share = (asked_ns > 0).then_some(series.summary.p50? as f64 / asked_ns as f64);
    share.filter(|_| series.quantity == Quantity::Overshoot)
}

/// What a coarse call rounds the duration to; `None` where it waits as long as asked.
pub(super) fn rounds_to(series: &Series) -> Option<i64> {
    series.experiment.any_wait()?.rounds_to()
}

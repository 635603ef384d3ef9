//! A call site: its series by quantity.

use punctual_record::experiment::calls::{Metrics, Parameters};
use punctual_record::{Experiment, Quantity, Series};

use crate::family::shared::{Measured, measured};
use crate::format::grouped;

pub(super) type Counted<'a> = Measured<'a, Parameters, Metrics>;

/// A call site: its series by quantity. The first has the metrics.
pub(super) struct Site<'a> {
    pub(super) first: Counted<'a>,
    all: Vec<Counted<'a>>,
}

impl<'a> Site<'a> {
    pub(super) fn of(&self, quantity: Quantity) -> Option<Counted<'a>> {
        self.all.iter().copied().find(|its| its.quantity == quantity)
    }

    pub(super) fn late(&self) -> Option<Counted<'a>> {
        self.of(Quantity::Lateness)
    }

    pub(super) fn metrics(&self) -> &'a Metrics {
        self.first.metrics
    }

    /// CPU time per call that only looks.
    pub(super) fn looks_cpu_ns(&self) -> Option<f64> {
        self.of(Quantity::CallCost)?.cpu_ns_per_op.filter(|ns| ns.is_finite() && *ns >= 0.0)
    }
}

/// The call sites, in the order of their first series.
pub(super) fn sites<'a>(series: &[&'a Series]) -> Vec<Site<'a>> {
    let all = measured(series, Experiment::calls);
    let name = |its: &Counted<'a>| {
        (&its.parameters.program, &its.series.subject, &its.parameters.site, &its.series.conditions)
    };
    let groups = grouped(&all, name).into_iter();
    groups.filter_map(|(_, all)| Some(Site { first: *all.first()?, all })).collect()
}

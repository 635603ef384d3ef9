//! A way of waiting for a message, with its series on an idle and on a busy CPU.

use punctual_record::experiment::polls::{Load, Metrics, Parameters};
use punctual_record::{Quantity, Series};

use crate::family::shared::Measured;
use crate::format::{grouped, unbroken, units};

type Polled<'a> = Measured<'a, Parameters, Metrics>;

/// One way of waiting for a message, under one set of conditions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Setting<'a> {
    pub(super) subject: &'a str,
    pub(super) conditions: &'a str,
    /// None: it does not poll a fixed number of times.
    pub(super) polls: Option<u32>,
    pub(super) idle: Option<Polled<'a>>,
    pub(super) idle_back: Option<Polled<'a>>,
    pub(super) busy: Option<Polled<'a>>,
    pub(super) busy_back: Option<Polled<'a>>,
}

impl Setting<'_> {
    /// One-way latency at p50 on an idle CPU, ns.
    pub(super) fn idle_ns(&self) -> Option<i64> {
        self.idle?.summary.p50
    }

    /// The same with the busy program there.
    pub(super) fn busy_ns(&self) -> Option<i64> {
        self.busy?.summary.p50
    }

    /// Share of the CPU that the busy program had while no message came.
    pub(super) fn share(&self) -> Option<f64> {
        self.busy?.metrics.competitor_cpu_share
    }

    pub(super) fn receiver_share(&self) -> Option<f64> {
        self.busy?.metrics.own_cpu_share
    }
}

pub(super) fn settings<'a>(series: &[Polled<'a>]) -> Vec<Setting<'a>> {
    let key = |s: &Polled<'a>| (s.series.subject.as_str(), s.series.conditions.as_str(), s.parameters.polls);
    let setting = |((subject, conditions, polls), all): ((&'a str, &'a str, Option<u32>), Vec<Polled<'a>>)| {
        let of = |load, quantity| all.iter().copied().find(|s| (s.parameters.load, s.quantity) == (load, quantity));
        Setting {
            subject,
            conditions,
            polls,
            idle: of(Load::Idle, Quantity::OneWay),
            idle_back: of(Load::Idle, Quantity::RoundTrip),
            busy: of(Load::Busy, Quantity::OneWay),
            busy_back: of(Load::Busy, Quantity::RoundTrip),
        }
    };
    grouped(series, key).into_iter().map(setting).collect()
}

/// What blocks instead of polling.
pub(super) const BLOCKING: &str = "futex_wait";

/// The settings under the first set of conditions.
pub(super) fn under_the_first<'a>(series: &[Polled<'a>]) -> Vec<Setting<'a>> {
    let all = settings(series);
    let first = all.first().map(|setting| setting.conditions);
    all.into_iter().filter(|setting| Some(setting.conditions) == first).collect()
}

impl<'a> Setting<'a> {
    /// The one-way latencies under a load.
    pub(super) fn one_way(&self, load: Load) -> Option<&'a Series> {
        let its = match load {
            Load::Idle => self.idle,
            Load::Busy => self.busy,
        };
        Some(its?.series).filter(|series| series.summary.p50.is_some())
    }
}

/// `sched_yield after 100 polls`.
pub(super) fn described(setting: &Setting<'_>) -> String {
    let subject = setting.subject.to_owned();
    match setting.polls {
        None | Some(0) => subject,
        Some(1) => format!("{subject} after each poll"),
        Some(n) => format!("{subject} after {} polls", unbroken(&units::count(n.into()))),
    }
}

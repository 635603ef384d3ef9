//! `pace`: how evenly events leave and arrive if a program paces them. Events are UDP datagrams, or ticks without a
//! network.
//!
//! The input is a [`Plan`]. The [`Session`] receives series per method of pacing and variant of conditions.
//! `lateness` is that of each departure relative to the ideal schedule. `period_jitter` is that of departures and of
//! arrivals, and `one_way` is latency. The metrics are the rate reached, the drift of departures, and the numbers of
//! datagrams not sent, lost or reordered. Departures are the kernel's own stamps if it provides them. Sending never
//! waits for room: a datagram without room is counted.
//!
//! For the loopback, a child process is the receiver. [`receive`](crate::datagrams::receive) is a standalone receiver.

mod bench;
pub mod methods;
mod plan;
mod stand;
mod sweep;

use punctual::Rate;
use punctual_record::experiment::pace;
use punctual_record::experiment::pace::{DepartureClock, Measured as End};
use punctual_record::{Ask, Experiment, Hint, Notice, Quantity, Typed};

pub use crate::datagrams::{HEADER, Header, Mode, receive, this_boot};
use crate::datagrams::{Receiver, Wire};
use crate::families::pace::bench::{Beside, PaceBench};
pub use crate::families::pace::plan::{
    Goal, MOST_BYTES_UNASKED, MOST_UNASKED, PacingMethod, PacingSession, Plan, Request, Target, Terms,
};
use crate::families::pace::sweep::Sweep;
use crate::frame;
use crate::frame::figures::median_with_interval;
use crate::frame::schedule::Schedule;
use crate::frame::{Bench, CellId, Error, Failure, Family, Layout, Measured, Report, Scene, Session, Unavailable};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::PACE;

/// Runs the plan and enters its measurements in the session.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    match plan.asked.goal {
        Goal::Keep(rate) => {
            let by_fq = bursts(&plan, rate);
            let done = frame::run(Keep { plan, rate }, session)?;
            // fq's effect on a rate matters if a method sent through it.
            if by_fq.into_iter().any(|cell| done.extras[cell].counts.sent > 0) {
                session.notice(Notice::Other { text: BURSTS.into() });
            }
            Ok(())
        }
        Goal::Highest { from, to, within } => frame::run(Sweep { plan, from, to, within }, session).map(drop),
    }
}

/// All methods at one rate.
struct Keep {
    plan: Plan,
    rate: Rate,
}

impl Family for Keep {
    type Extra = Beside;
    type Company = Option<Receiver>;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.plan.asked.frame, self.plan.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        self.plan.identity(cell, self.experiment(End::Departure, pace::Metrics::default()))
    }

    fn schedule(&self) -> Schedule {
        self.plan.schedule(self.rate)
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::but(
            "its share of the time is shorter than a period",
            Hint::from(Ask::MoreTime).and(", or name fewer methods"),
        )
    }

    fn gather(&self, scene: &Scene<'_>) -> Result<Self::Company, Failure> {
        Ok(self.plan.gather(scene))
    }

    fn open<'a>(
        &'a self,
        receiver: Self::Company,
        _: &Scene<'a>,
    ) -> Result<Box<dyn Bench<Extra = Beside> + 'a>, Error> {
        Ok(Box::new(PaceBench::open(&self.plan, receiver, self.rate)))
    }

    fn report(&self, _: usize, measured: &Measured<'_, Beside>) -> Report {
        let beside = measured.extra;
        let departures = self.experiment(End::Departure, metrics(self.rate, beside));
        let mut series = vec![measured.series(measured.tally, Quantity::Lateness, departures)];
        for (tally, quantity, end) in [
            (&beside.jitter, Quantity::PeriodJitter, End::Departure),
            (&beside.arrival_jitter, Quantity::PeriodJitter, End::Arrival),
            (&beside.one_way, Quantity::OneWay, End::Arrival),
        ] {
            if tally.count() > 0 {
                let experiment = self.experiment(end, pace::Metrics::default());
                // The usage belongs to the lateness series, which has an operation for every event.
                series.push(measured.series(tally, quantity, experiment).without_use());
            }
        }
        Report::with_series(series)
    }
}

impl Keep {
    fn experiment(&self, measured: End, metrics: pace::Metrics) -> Experiment {
        let (to, size) = self.plan.asked.target.for_record();
        let parameters = pace::Parameters { rate_per_second: self.rate.per_second_f64(), measured, to, size };
        Experiment::Pace(Typed { parameters, metrics })
    }
}

/// From this rate on fq sends a quantum at once instead of spacing datagrams, unless configured otherwise. It
/// is `low_rate_threshold` of 550 kbit/s (tc-fq(8); fq_dequeue in net/sched/sch_fq.c).
const LOW_RATE_BYTES: f64 = 550_000.0 / 8.0;

/// The notice of fq's bursts above its threshold: they look like jitter, but are intended.
const BURSTS: &str = "so_max_pacing_rate: above low_rate_threshold (550 kbit/s, unless it is set otherwise) fq lets a quantum of bytes leave \
     at once (two packets of the interface's MTU, and ten at first) and then waits; to space each datagram: \
     tc qdisc replace dev INTERFACE root fq low_rate_threshold 10gbit";

/// The cells with datagrams that fq would send in bursts.
fn bursts(plan: &Plan, rate: Rate) -> Vec<usize> {
    let Target::Udp { to, size } = plan.asked.target else { return Vec::new() };
    let fast = Wire::bytes_per_second(to, size, rate.per_second_f64()) > LOW_RATE_BYTES;
    let by_fq = |cell: &usize| fast && plan.asked.methods[plan.cells[*cell].method].mode == Mode::KernelRate;
    (0..plan.cells.len()).filter(by_fq).collect()
}

fn metrics(rate: Rate, beside: &Beside) -> pace::Metrics {
    let counts = &beside.counts;
    // Where trials differ, the series has no one clock.
    let departure = match beside.by_kernel {
        0 => Some(DepartureClock::BeforeCall),
        all if all == beside.rounds => Some(DepartureClock::KernelStamp),
        _ => None,
    };
    let usual = median_with_interval(&beside.rates);
    let usual_between = usual.and_then(|(_, between)| between);
    let drift = beside.drift.ppm();
    let between = drift.and_then(|(_, between)| between);
    let sent = |n: u64| Some(n).filter(|_| counts.sent > 0);
    let received = |n: u64| counts.received.map(|_| n);
    pace::Metrics {
        events: Some(counts.events),
        departure,
        rate_reached: counts.rate_reached(),
        rate_share: counts.rate_reached().map(|reached| reached / rate.per_second_f64()),
        rate_p50: usual.map(|(rate, _)| rate),
        rate_p50_low: usual_between.map(|(low, _)| low),
        rate_p50_high: usual_between.map(|(_, high)| high),
        drift_ppm: drift.map(|(ppm, _)| ppm),
        drift_ppm_low: between.map(|(low, _)| low),
        drift_ppm_high: between.map(|(_, high)| high),
        not_sent: sent(counts.no_room + counts.refused),
        refused: sent(counts.refused),
        received: counts.received,
        lost: counts.received.map(|received| counts.sent.saturating_sub(received)),
        reordered: received(counts.reordered),
        duplicates: received(counts.twice),
        streams: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::families::pace::{Goal, Request, methods};
    use crate::frame::tests::{made_up_report, made_up_tally};
    use crate::frame::{Amount, Request as Frame};

    fn keep(target: Target) -> Keep {
        let rate = Rate::per_second(1_000).unwrap();
        let request = Request {
            methods: vec![methods::find("spin").unwrap()],
            target,
            jitter: Duration::ZERO,
            yes: false,
            goal: Goal::Keep(rate),
            frame: Frame::as_found(Amount::Time(Duration::from_secs(1)), 3),
        };
        Keep { plan: Plan::new(request).unwrap(), rate }
    }

    #[test]
    fn a_series_says_what_left_and_what_arrived() {
        let to = "127.0.0.1:9".parse().unwrap();
        let mut beside = Beside { by_kernel: 6, rounds: 6, arrival_jitter: made_up_tally(&[4]), ..Beside::default() };
        (beside.counts.events, beside.counts.sent, beside.counts.received) = (10, 9, Some(7));
        (beside.counts.no_room, beside.counts.refused, beside.counts.twice) = (1, 2, 1);
        (beside.counts.gaps, beside.counts.span_ns) = (9, 10_000_000);
        beside.rates = vec![880.0, 890.0, 900.0, 910.0, 920.0, 930.0];
        let mixed = Beside { by_kernel: 5, ..beside.clone() };
        let mixed = made_up_report(&keep(Target::Udp { to, size: 64 }), 0, &[1], &[mixed]);
        assert_eq!(mixed.series[0].experiment.pace().unwrap().metrics.departure, None, "two clocks");
        let report = made_up_report(&keep(Target::Udp { to, size: 64 }), 0, &[1], &[beside]);
        let typed = report.series[0].experiment.pace().unwrap();
        let asked = &typed.parameters;
        assert_eq!((asked.rate_per_second, asked.measured, asked.size), (1_000.0, End::Departure, Some(64)));
        assert_eq!(asked.to.as_deref(), Some("udp 127.0.0.1:9"));
        let metrics = &typed.metrics;
        assert_eq!((metrics.departure, metrics.rate_reached), (Some(DepartureClock::KernelStamp), Some(900.0)));
        assert_eq!((metrics.rate_p50, metrics.rate_p50_low), (Some(905.0), Some(880.0)));
        assert_eq!((metrics.rate_share, metrics.drift_ppm), (Some(0.9), None));
        assert_eq!((metrics.not_sent, metrics.refused), (Some(3), Some(2)));
        assert_eq!((metrics.received, metrics.lost, metrics.duplicates), (Some(7), Some(2), Some(1)));
        let arrivals = &report.series[1];
        assert_eq!((arrivals.quantity, arrivals.cpu_share), (Quantity::PeriodJitter, None));
        assert_eq!(arrivals.experiment.pace().unwrap().parameters.measured, End::Arrival);
        assert_eq!(report.series.len(), 2, "of what was not measured there is none");
    }

    #[test]
    fn ticks_are_neither_sent_nor_received() {
        let report = made_up_report(&keep(Target::TickOnly), 0, &[1], &[Beside::default()]);
        let typed = report.series[0].experiment.pace().unwrap();
        assert_eq!((typed.parameters.to.as_deref(), typed.parameters.size), (Some("tick-only"), None));
        assert_eq!((typed.metrics.not_sent, typed.metrics.received, typed.metrics.lost), (None, None, None));
        assert_eq!(typed.metrics.departure, Some(DepartureClock::BeforeCall));
    }
}

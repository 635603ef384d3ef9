//! `pace`: how evenly events leave and arrive if a program paces them. Events are UDP datagrams, or ticks without a
//! network.
//!
//! The input is a [`Plan`]. The [`Session`] receives series per method of pacing and variant of conditions.
//! `lateness` is that of each departure relative to the ideal schedule. `period_jitter` is that of departures and of
//! arrivals, and `one_way` is latency. The metrics are the rate reached, the drift of departures, and the numbers of
//! datagrams not sent, lost or reordered. Departures are the kernel's own stamps if it provides them. Sending never
//! waits for room: a datagram without room is counted.
//!
//! For the loopback, a child process is the receiver. [`receive`] is a standalone receiver.
//!
//! A plan has one of two goals: all methods at one rate (`Keep`), or the highest rate that each method holds (`Sweep`). A method *holds* a
//! rate if it reached it within 1 %, with the 99th percentile of lateness within the limit. The rate is doubled until that fails. Then a
//! geometric bisection follows until the interval is below 5 %. The methods take turns, one trial each.

mod bench;
mod datagrams;
pub mod methods;
mod plan;
pub mod receive;

use std::time::Duration;

use punctual::Rate;
use punctual_record::experiment::pace::{self, DepartureClock, Measured as End};
use punctual_record::experiment::sweep;
use punctual_record::{Ask, Experiment, Hint, Notice, Quantity, Recorder, SeriesTally, Typed, Usage};

use self::bench::{Beside, Counts, PaceBench};
use self::datagrams::Wire;
pub use self::datagrams::{HEADER, Mode};
pub use self::plan::{Goal, PacingMethod, PacingSession, Plan, Request, Target, Terms};
use crate::frame::figures::median_with_interval;
use crate::frame::{
    self, Amount, Bench, CellId, Error, Failure, Family, Gathered, Layout, Measured, Report, Scene, Schedule, Session,
    Unavailable,
};

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

    fn gather<'a>(&'a self, scene: &Scene<'a>) -> Gathered<'a, Beside> {
        let receiver = self.plan.gather(scene);
        Ok(Box::new(move |_| Ok(Box::new(PaceBench::open(&self.plan, receiver, self.rate)))))
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

/// The rate must be reached within this share.
const HELD: f64 = 0.01;
/// The search ends when the highest rate held and the lowest rate not held differ by less than this factor.
const FINE: f64 = 1.05;
/// Shortest trial: enough events for a percentile, and longer than one disturbance of the machine.
const SHORTEST: Duration = Duration::from_millis(40);
/// Fewest events of a trial.
const FEWEST: u64 = 200;
/// Usual number of trials of a search, doubling and bisection, for dividing the time.
const TRIALS: u32 = 15;
/// Number of retries of a failed rate: a short disturbance is no limit.
const SECOND_CHANCES: u32 = 2;
/// Maximum number of trials of a search.
const ROUNDS: u32 = TRIALS * (SECOND_CHANCES + 1);

/// The search for the highest rate of each method.
struct Sweep {
    plan: Plan,
    /// Lowest rate.
    from: Rate,
    /// Highest rate.
    to: Rate,
    /// Limit on the 99th percentile of lateness.
    within: Duration,
}

impl Sweep {
    /// Duration of a trial, and of all trials.
    fn trial_time(&self) -> (Duration, Duration) {
        let trials = self.plan.cells.len() as u32 * TRIALS;
        let total = match self.plan.asked.frame.amount {
            Amount::Time(total) => total,
            Amount::Samples(_) => SHORTEST * trials,
        };
        ((total / trials.max(1)).max(SHORTEST), total.max(SHORTEST * trials))
    }

    fn experiment(&self, metrics: sweep::Metrics) -> Experiment {
        let (to, size) = self.plan.asked.target.for_record();
        let parameters = sweep::Parameters {
            from_per_second: Some(self.from.per_second_f64()),
            to_per_second: self.to.per_second_f64(),
            within_ns: self.within.as_nanos() as i64,
            to,
            size,
        };
        Experiment::Sweep(Typed { parameters, metrics })
    }
}

impl Family for Sweep {
    type Extra = Search;

    fn layout(&self) -> Layout<'_> {
        Layout::new(&self.plan.asked.frame, self.plan.cells.iter().map(|cell| cell.variant))
    }

    fn identity(&self, cell: usize) -> CellId {
        self.plan.identity(cell, self.experiment(sweep::Metrics::default()))
    }

    /// A trial in each round, until the search is over.
    fn schedule(&self) -> Schedule {
        let (trial, total) = self.trial_time();
        Schedule::fixed(ROUNDS, 1, trial, self.plan.cells.len(), total)
    }

    fn too_short(&self, _: usize) -> Unavailable {
        Unavailable::because("it was left out of the search")
    }

    fn gather<'a>(&'a self, scene: &Scene<'a>) -> Gathered<'a, Search> {
        let receiver = self.plan.gather(scene);
        Ok(Box::new(move |_| {
            let searches = vec![Search::default(); self.plan.cells.len()];
            let (sweep, pace) = (self, PaceBench::open(&self.plan, receiver, self.from));
            Ok(Box::new(SweepBench { sweep, pace, searches, last: None }))
        }))
    }

    fn report(&self, _: usize, measured: &Measured<'_, Search>) -> Report {
        let search = measured.extra;
        let Some(held) = search.held else {
            let why = format!("not even the lowest rate was held: {}", search.why);
            let missing =
                search.failed.map(|_| (measured.subject(), Unavailable::but(why, "search from a lower rate")));
            return Report { missing: missing.into_iter().collect(), ..Report::default() };
        };
        let experiment = self.experiment(sweep::Metrics {
            highest_rate_held: Some(held),
            rate_reached: Some(search.reached),
            rate_not_held: search.failed,
            why_not_higher: search.failed.map(|_| search.why.clone()),
        });
        Report::with_series(vec![measured.series(&search.best, Quantity::Lateness, experiment)])
    }
}

/// The open methods, and the state of each search.
struct SweepBench<'a> {
    sweep: &'a Sweep,
    pace: PaceBench<'a>,
    searches: Vec<Search>,
    /// The search after the last trial, until that trial counts.
    last: Option<Search>,
}

impl SweepBench<'_> {
    /// The rate of the cell's next trial. None: its search is over.
    fn rate(&self, cell: usize) -> Option<f64> {
        self.searches[cell].next(self.sweep.from.per_second_f64(), self.sweep.to.per_second_f64())
    }
}

impl Bench for SweepBench<'_> {
    type Extra = Search;

    fn doing(&self, cell: usize) -> String {
        let rate = self.rate(cell).unwrap_or_default();
        format!(
            "{} at {rate:.0} events a second",
            self.sweep.plan.asked.methods[self.sweep.plan.cells[cell].method].name
        )
    }

    fn operations(&self, cell: usize, _: u64) -> u64 {
        let Some(rate) = self.rate(cell) else { return 0 };
        let asked = match self.sweep.plan.asked.frame.amount {
            Amount::Samples(samples) => samples,
            Amount::Time(_) => (rate * self.sweep.trial_time().0.as_secs_f64()) as u64,
        };
        asked.max(FEWEST)
    }

    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let (Some(rate), method) = (self.rate(cell), self.sweep.plan.cells[cell].method) else {
            return Ok(Usage::default());
        };
        let wrong = |_| Unavailable::because(format!("{rate:.0} events a second is no rate"));
        let exact = Rate::hertz(rate.round().max(1.0)).map_err(wrong)?;
        let (usage, counts, _) = self.pace.trial(method, exact, operations, into)?;
        let mut search = self.searches[cell].clone();
        search.enter(rate, (into, usage), &counts, self.sweep.within);
        self.last = Some(search);
        Ok(usage)
    }

    fn keep(&mut self, cell: usize, _: (u32, u64), search: &mut Search) {
        if let Some(last) = self.last.take() {
            self.searches[cell].clone_from(&last);
            *search = last;
        }
    }
}

/// The search of one method.
#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    held: Option<f64>,
    failed: Option<f64>,
    chances: u32,
    why: String,
    best: SeriesTally,
    reached: f64,
}

impl Search {
    /// The rate of the next trial. None: the search is over.
    fn next(&self, from: f64, to: f64) -> Option<f64> {
        match (self.held, self.failed) {
            (None, None) => Some(from),
            (Some(held), None) if held >= to => None,
            (Some(held), None) => Some((held * 2.0).min(to)),
            (Some(held), Some(failed)) if failed / held > FINE => Some((held * failed).sqrt()),
            _ => None,
        }
    }

    /// Enters the result of a trial: why the rate was not held, or that it was.
    fn take(&mut self, rate: f64, why_not: Option<String>) {
        match why_not {
            None => {
                self.held = Some(rate);
                self.chances = 0;
            }
            Some(_) if self.chances < SECOND_CHANCES => self.chances += 1,
            Some(why) => {
                self.failed = Some(rate);
                self.why = why;
                self.chances = 0;
            }
        }
    }

    /// Enters a trial at a rate.
    fn enter(&mut self, rate: f64, (recorder, usage): (&Recorder, Usage), counts: &Counts, within: Duration) {
        let reached = counts.rate_reached().unwrap_or(0.0);
        let p99 = recorder.summary().p99.unwrap_or(i64::MAX);
        let not_sent = counts.no_room + counts.refused;
        let why_not = if (reached / rate - 1.0).abs() > HELD {
            Some(format!("reached {reached:.0} of {rate:.0} events a second"))
        } else if p99 > within.as_nanos() as i64 {
            Some(format!("p99 of lateness was {:.1} us at {rate:.0} events a second", p99 as f64 / 1e3))
        } else if not_sent > 0 {
            Some(format!("{not_sent} of {} datagrams found no room at {rate:.0} events a second", counts.events))
        } else {
            None
        };
        if why_not.is_none() {
            self.best = SeriesTally::new();
            self.best.add_round(0, 0, recorder, usage);
            self.reached = reached;
        }
        self.take(rate, why_not);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Request as Frame;
    use crate::frame::tests::{made_up_report, made_up_tally};

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

    /// Searches the limit of a method that holds every rate up to `limit`.
    fn search(limit: f64, from: f64, to: f64) -> (Search, u32) {
        let mut search = Search::default();
        let mut trials = 0;
        while let Some(rate) = search.next(from, to) {
            trials += 1;
            assert!(trials < 100, "it does not end");
            search.take(rate, (rate > limit).then(|| "too fast".into()));
        }
        (search, trials)
    }

    #[test]
    fn the_limit_is_found_within_five_per_cent() {
        for limit in [1_000.0, 1_234.0, 15_000.0, 99_999.0, 487_000.0] {
            let (search, trials) = search(limit, 1_000.0, 1_000_000.0);
            let held = search.held.unwrap();
            assert!(held <= limit && held * 1.06 > limit, "{held} for {limit}");
            assert!(trials <= TRIALS * (SECOND_CHANCES + 1), "{trials}");
        }
    }

    #[test]
    fn a_way_without_limit_stops_at_the_end_and_a_slow_one_at_the_beginning() {
        assert_eq!(search(f64::MAX, 1_000.0, 1_000_000.0).0.held, Some(1_000_000.0));
        let (slow, _) = search(10.0, 1_000.0, 1_000_000.0);
        assert_eq!((slow.held, slow.failed), (None, Some(1_000.0)));
    }

    #[test]
    fn a_moments_disturbance_is_no_limit() {
        let mut search = Search::default();
        search.take(1_000.0, None);
        search.take(2_000.0, Some("disturbed".into()));
        assert_eq!(search.failed, None);
        search.take(2_000.0, None);
        assert_eq!(search.next(1_000.0, 1e6), Some(4_000.0));
    }

    fn sweep() -> Sweep {
        let rate = |hz| Rate::per_second(hz).unwrap();
        let (from, to, within) = (rate(1_000), rate(50_000), Duration::from_micros(100));
        let request = Request {
            methods: vec![methods::find("spin").unwrap()],
            target: Target::TickOnly,
            jitter: Duration::ZERO,
            yes: false,
            goal: Goal::Highest { from, to, within },
            frame: Frame::as_found(Amount::Time(Duration::from_secs(2)), 3),
        };
        Sweep { plan: Plan::new(request).unwrap(), from, to, within }
    }

    #[test]
    fn the_highest_rate_is_the_record() {
        let found = Search {
            held: Some(8_000.0),
            failed: Some(8_300.0),
            why: "late".into(),
            best: made_up_tally(&[1, 2]),
            ..Search::default()
        };
        let report = made_up_report(&sweep(), 0, &[9, 9, 9], &[found]);
        let typed = report.series[0].experiment.sweep().unwrap();
        assert_eq!((typed.parameters.from_per_second, typed.parameters.to_per_second), (Some(1_000.0), 50_000.0));
        assert_eq!((typed.parameters.within_ns, typed.parameters.to.as_deref()), (100_000, Some("tick-only")));
        assert_eq!((typed.metrics.highest_rate_held, typed.metrics.rate_not_held), (Some(8_000.0), Some(8_300.0)));
        assert_eq!(typed.metrics.why_not_higher.as_deref(), Some("late"));
        assert_eq!(report.series[0].summary.count, 2, "of the trial at that rate");
    }

    #[test]
    fn a_search_that_held_nothing_says_why() {
        let none = Search { failed: Some(1_000.0), why: "late".into(), ..Search::default() };
        let report = made_up_report(&sweep(), 0, &[9], &[none]);
        assert!(report.series.is_empty() && report.missing[0].1.why == "not even the lowest rate was held: late");
    }
}

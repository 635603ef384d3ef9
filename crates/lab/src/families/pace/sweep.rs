//! The highest rate that each method holds.
//!
//! A method *holds* a rate if it reached it within 1 %, with the 99th percentile of lateness within the limit. The
//! rate is doubled until that fails. Then a geometric bisection follows until the interval is below 5 %. The methods
//! take turns, one trial each.

use std::time::Duration;

use punctual::Rate;
use punctual_record::experiment::sweep;
use punctual_record::{Experiment, Quantity, Recorder, SeriesTally, Typed, Usage};

use crate::datagrams::Receiver;
use crate::families::pace::bench::PaceBench;
use crate::families::pace::plan::Plan;
use crate::families::pace::stand::Counts;
use crate::frame::schedule::{Amount, Schedule};
use crate::frame::{Bench, CellId, Error, Failure, Family, Layout, Measured, Report, Scene, Unavailable};

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
pub(super) struct Sweep {
    pub(super) plan: Plan,
    /// Lowest rate.
    pub(super) from: Rate,
    /// Highest rate.
    pub(super) to: Rate,
    /// Limit on the 99th percentile of lateness.
    pub(super) within: Duration,
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
    type Company = Option<Receiver>;

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

    fn gather(&self, scene: &Scene<'_>) -> Result<Self::Company, Failure> {
        Ok(self.plan.gather(scene))
    }

    fn open<'a>(
        &'a self,
        receiver: Self::Company,
        _: &Scene<'a>,
    ) -> Result<Box<dyn Bench<Extra = Search> + 'a>, Error> {
        let searches = vec![Search::default(); self.plan.cells.len()];
        let (sweep, pace) = (self, PaceBench::open(&self.plan, receiver, self.from));
        Ok(Box::new(SweepBench { sweep, pace, searches, last: None }))
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
    /// The last trial, until it counts.
    last: Option<Trial>,
}

/// The results of a trial.
struct Trial {
    rate: f64,
    recorder: Recorder,
    usage: Usage,
    counts: Counts,
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
        self.last = Some(Trial { rate, recorder: into.clone(), usage, counts });
        Ok(usage)
    }

    fn keep(&mut self, cell: usize, _: (u32, u64), search: &mut Search) {
        if let Some(trial) = self.last.take() {
            self.searches[cell].enter(&trial, self.sweep.within);
            search.clone_from(&self.searches[cell]);
        }
    }
}

/// The search of one method.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
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

    /// Enters a trial that counts.
    fn enter(&mut self, trial: &Trial, within: Duration) {
        let Trial { rate, recorder, usage, counts } = trial;
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
            self.best.add_round(0, 0, recorder, *usage);
            self.reached = reached;
        }
        self.take(*rate, why_not);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::pace::{Goal, Request, Target, methods};
    use crate::frame::Request as Frame;
    use crate::frame::tests::{made_up_report, made_up_tally};

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

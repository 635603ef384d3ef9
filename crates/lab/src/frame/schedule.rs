//! The number of operations of each cell in each round.
//!
//! A *cell* is one subject under one set of parameters and conditions: it becomes a series. If a number of samples is
//! requested, every cell gets that number, spread evenly over the rounds. If a time is requested, it is divided: a cell's
//! share is proportional to the square root of the expected cost of an operation, so that short operations get more samples
//! and long ones still get enough. A cell saves its share until that pays for an operation. So a slow one (a wait rounded up
//! to a second) is measured in some rounds only, and not at all if the whole run does not pay for one.

use std::time::Duration;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// This many samples of every series.
    Samples(u64),
    /// This long in total.
    Time(Duration),
}

/// The estimated cost of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CellCost {
    /// Cost of an operation without any delay, in ns. It sets the share of time.
    pub(crate) ideal_ns: f64,
    /// Expected cost of an operation, in ns. It sets how many fit, until a measurement replaces it.
    pub(crate) expected_ns: f64,
}

impl CellCost {
    /// An operation that takes as long as it does without any delay.
    pub(crate) const fn exactly(ns: f64) -> Self {
        Self { ideal_ns: ns, expected_ns: ns }
    }
}

/// Divides samples or time among cells and rounds.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    amount: Amount,
    rounds: u32,
    cells: Vec<Cell>,
    /// The duration of the pilot.
    pilot: Option<Duration>,
    /// No pilot runs.
    unrehearsed: bool,
    /// The longest duration, if known in advance.
    at_most: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Cell {
    weight: f64,
    cost_ns: f64,
    saved_ns: f64,
    dropped: bool,
    /// Its cost has been measured at least once.
    known: bool,
}

/// Weight of the newest measurement in a cell's cost. It adapts quickly, yet one disturbed batch does not starve the
/// next.
const NEWEST: f64 = 0.5;

/// Operations from this cost on are not rehearsed: a tenth of a second.
const LONG_NS: f64 = 1e8;

/// A pilot takes at most about a quarter of the time.
const PILOT_SHARE: u32 = 4;
/// Longest pilot if a number of samples is requested: a minute for some hundred cells.
const PILOT_AT_MOST: Duration = Duration::from_secs(60);
/// A number of samples is given up after three times the pilot's estimate plus twenty seconds. A busy machine may delay
/// the first sample by seconds.
const TIMES_EXPECTED: u32 = 3;
const AT_LEAST: Duration = Duration::from_secs(20);

/// Latest start of a run's last batch. A later one would not end within the run's grace.
const LATE: Duration = Duration::from_millis(200);

/// Most samples of a batch. An hour-long batch of the quickest operation stays below 10^7.
const MOST_PER_BATCH: f64 = 1e7;

impl Schedule {
    /// A schedule for these cells. `rounds` is at least 1.
    pub(crate) fn new(amount: Amount, rounds: u32, cells: impl IntoIterator<Item = CellCost>) -> Self {
        let cell = |c: CellCost| Cell {
            weight: c.ideal_ns.max(1.0).sqrt(),
            cost_ns: c.expected_ns.max(1.0),
            saved_ns: 0.0,
            dropped: false,
            known: false,
        };
        Self {
            amount,
            rounds: rounds.max(1),
            cells: cells.into_iter().map(cell).collect(),
            pilot: None,
            unrehearsed: false,
            at_most: None,
        }
    }

    /// This many operations of every cell in each round. Each takes about `each`, and all together at most `at_most`.
    /// There is no pilot.
    pub(crate) fn fixed(rounds: u32, operations: u32, each: Duration, cells: usize, at_most: Duration) -> Self {
        let amount = Amount::Samples(u64::from(rounds) * u64::from(operations));
        let ns = each.as_nanos() as f64;
        let schedule = Self::new(amount, rounds, vec![CellCost::exactly(ns); cells]);
        Self { at_most: Some(at_most), ..schedule.without_pilot() }
    }

    /// The same without a pilot: every batch begins with its own preparations.
    pub(crate) fn without_pilot(self) -> Self {
        Self { unrehearsed: true, ..self }
    }

    /// Number of rounds.
    pub(crate) const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Expected duration of the rounds. If a time is requested, it is the time that the pilot left, but at least
    /// half. On a busy machine a pilot may take longer than a short run.
    pub(crate) fn expected(&self) -> Duration {
        match self.amount {
            Amount::Time(time) => time.saturating_sub(self.pilot.unwrap_or_default()).max(time / 2),
            Amount::Samples(n) => {
                let ns: f64 = self.active().map(|c| c.cost_ns * n as f64).sum();
                let whole = Duration::try_from_secs_f64(ns / 1e9).unwrap_or(Duration::MAX);
                self.at_most.map_or(whole, |at_most| at_most.min(whole))
            }
        }
    }

    /// Enters the pilot's duration. Returns the expected duration of the rounds.
    pub(crate) fn after_pilot(&mut self, took: Duration) -> Duration {
        self.pilot = Some(took);
        self.expected()
    }

    /// Longest duration of pilot and rounds, or, after the pilot, of the rounds. A requested time is kept. A number
    /// of samples may exceed the pilot's estimate, but not several times.
    pub(crate) fn at_most(&self) -> Duration {
        if let Some(at_most) = self.at_most {
            return at_most;
        }
        match (self.amount, self.pilot) {
            (Amount::Time(_), _) => self.expected(),
            (Amount::Samples(_), None) => PILOT_AT_MOST,
            (Amount::Samples(_), Some(_)) => self.expected().saturating_mul(TIMES_EXPECTED).saturating_add(AT_LEAST),
        }
    }

    /// Whether the rounds are over, `gone` after they began. A requested time is kept, even if a machine busier than
    /// in the pilot has left out some batches.
    pub(crate) fn is_over(&self, gone: Duration) -> bool {
        matches!(self.amount, Amount::Time(_)) && gone > self.expected() + LATE
    }

    /// This cell's share of the whole time.
    pub(crate) fn share(&self, cell: usize) -> Duration {
        match self.amount {
            Amount::Samples(_) => Duration::MAX,
            Amount::Time(time) => time.mul_f64(self.cells[cell].weight / self.total_weight()),
        }
    }

    /// The time of which this cell's share is this many ns, rounded up to two digits.
    pub(crate) fn pays_for(&self, cell: usize, ns: f64) -> Duration {
        let ns = ns * self.total_weight() / self.cells[cell].weight;
        let unit = 10_f64.powf(ns.max(10.0).log10().floor() - 1.0);
        Duration::from_nanos(((ns / unit - 1e-6).ceil() * unit) as u64)
    }

    /// Whether the run pays for at least one operation of this cell.
    pub(crate) fn affords(&self, cell: usize) -> bool {
        self.share(cell).as_nanos() as f64 >= self.cells[cell].cost_ns
    }

    /// Gives a cell's share to the others.
    pub(crate) fn drop_cell(&mut self, cell: usize) {
        self.cells[cell].dropped = true;
    }

    /// Number of operations in the pilot when it has taken `gone` so far. Some operations warm up the caches. There
    /// is none if the first is too long to discard, or if the pilot has used its share of the time.
    pub(crate) fn pilot_operations(&self, cell: usize, gone: Duration) -> u64 {
        let enough = self.unrehearsed || matches!(self.amount, Amount::Time(time) if gone > time / PILOT_SHARE);
        if self.cells[cell].cost_ns < LONG_NS && !enough { 3 } else { 0 }
    }

    /// Enters the measured cost of an operation of the cell.
    pub(crate) fn learn(&mut self, cell: usize, cost_ns: f64) {
        // A duration known in advance covers more than the operations.
        if self.at_most.is_none() && cost_ns.is_finite() && cost_ns > 0.0 {
            let cell = &mut self.cells[cell];
            // The first measurement replaces the estimate, which may be wrong by orders of magnitude.
            let weight = if cell.known { NEWEST } else { 1.0 };
            cell.cost_ns += weight * (cost_ns - cell.cost_ns);
            cell.known = true;
        }
    }

    /// Expected cost of an operation of the cell, ns.
    pub(crate) fn cost_ns(&self, cell: usize) -> f64 {
        self.cells[cell].cost_ns
    }

    /// Whether a number of samples was requested, not a time.
    pub(crate) const fn counts_samples(&self) -> bool {
        matches!(self.amount, Amount::Samples(_))
    }

    /// Number of operations of the cell in `round` (from 0), with `left` of the time to go.
    pub(crate) fn take(&mut self, cell: usize, round: u32, left: Duration) -> u64 {
        if self.cells[cell].dropped {
            return 0;
        }
        match self.amount {
            Amount::Samples(n) => {
                let until = |r: u32| u128::from(n) * u128::from(r) / u128::from(self.rounds);
                (until(round + 1) - until(round)) as u64
            }
            Amount::Time(_) => {
                let rounds_left = f64::from(self.rounds.saturating_sub(round).max(1));
                let total = self.total_weight();
                let cell = &mut self.cells[cell];
                cell.saved_ns += left.as_nanos() as f64 / rounds_left * cell.weight / total;
                let n = (cell.saved_ns / cell.cost_ns).floor().clamp(0.0, MOST_PER_BATCH);
                cell.saved_ns = (cell.saved_ns - n * cell.cost_ns).clamp(0.0, 2.0 * cell.cost_ns);
                n as u64
            }
        }
    }

    fn active(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|c| !c.dropped)
    }

    fn total_weight(&self) -> f64 {
        self.active().map(|c| c.weight).sum::<f64>().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(ns: f64) -> CellCost {
        CellCost::exactly(ns)
    }

    #[test]
    fn samples_are_spread_and_add_up() {
        let mut schedule = Schedule::new(Amount::Samples(103), 10, [cost(1000.0)]);
        let taken: Vec<u64> = (0..10).map(|r| schedule.take(0, r, Duration::ZERO)).collect();
        assert_eq!(taken.iter().sum::<u64>(), 103);
        assert!(taken.iter().all(|n| (10..=11).contains(n)), "{taken:?}");
    }

    #[test]
    fn time_is_divided_by_the_square_root_of_cost() {
        let mut schedule = Schedule::new(Amount::Time(Duration::from_secs(11)), 1, [cost(1e4), cost(1e6)]);
        let left = Duration::from_secs(11);
        assert_eq!(schedule.take(0, 0, left), 100_000);
        assert_eq!(schedule.take(1, 0, left), 10_000);
    }

    #[test]
    fn a_slow_cell_saves_up_and_one_too_slow_is_not_afforded() {
        let slow = CellCost { ideal_ns: 1e5, expected_ns: 1e9 };
        let schedule = Schedule::new(Amount::Time(Duration::from_secs(1)), 10, [cost(1e5), slow]);
        assert!(!schedule.affords(1));
        let mut schedule = Schedule::new(Amount::Time(Duration::from_secs(10)), 10, [slow]);
        assert!(schedule.affords(0));
        let taken: u64 = (0..10).map(|r| schedule.take(0, r, Duration::from_secs(10 - u64::from(r)))).sum();
        assert!((9..=10).contains(&taken), "{taken}");
    }

    #[test]
    fn a_time_pays_for_what_its_share_covers() {
        let schedule = Schedule::new(Amount::Time(Duration::from_nanos(1)), 1, [cost(1e4), cost(1e6)]);
        assert_eq!(schedule.pays_for(0, 1e3), Duration::from_micros(11));
        assert_eq!(schedule.pays_for(1, 1e6), Duration::from_micros(1_100));
        assert_eq!(schedule.pays_for(1, 1.01e6), Duration::from_micros(1_200), "rounded up");
        let alone = Schedule::new(Amount::Time(Duration::from_nanos(1)), 1, [cost(1e6)]);
        assert_eq!(alone.pays_for(0, 1e6), Duration::from_millis(1));
        assert_eq!(alone.pays_for(0, 1.0), Duration::from_nanos(1));
    }

    #[test]
    fn the_pilot_counts_and_is_bounded() {
        let mut schedule = Schedule::new(Amount::Time(Duration::from_secs(1)), 1, [cost(1e5)]);
        assert_eq!(schedule.at_most(), Duration::from_secs(1));
        assert_eq!(schedule.pilot_operations(0, Duration::from_millis(200)), 3);
        assert_eq!(schedule.pilot_operations(0, Duration::from_millis(300)), 0);
        assert_eq!(schedule.after_pilot(Duration::from_millis(300)), Duration::from_millis(700));
        assert_eq!(schedule.at_most(), Duration::from_millis(700));
        assert!(!schedule.is_over(Duration::from_millis(900)) && schedule.is_over(Duration::from_millis(1100)));
        assert_eq!(schedule.after_pilot(Duration::from_secs(2)), Duration::from_millis(500));
        let mut schedule = Schedule::new(Amount::Samples(1000), 1, [cost(1e6)]);
        assert_eq!(schedule.pilot_operations(0, Duration::from_secs(10)), 3);
        assert_eq!(schedule.after_pilot(Duration::from_millis(3)), Duration::from_secs(1));
        assert_eq!(schedule.at_most(), Duration::from_secs(23));
    }

    #[test]
    fn the_first_measurement_replaces_the_guess() {
        let mut schedule = Schedule::new(Amount::Time(Duration::from_secs(1)), 1, [cost(1e6)]);
        schedule.learn(0, 100.0);
        assert_eq!(schedule.cells[0].cost_ns, 100.0);
        schedule.learn(0, 200.0);
        assert_eq!(schedule.cells[0].cost_ns, 150.0);
    }

    #[test]
    fn a_dropped_cell_leaves_its_share() {
        let mut schedule = Schedule::new(Amount::Time(Duration::from_secs(1)), 1, [cost(1e5), cost(1e5)]);
        schedule.drop_cell(0);
        assert_eq!(schedule.take(0, 0, Duration::from_secs(1)), 0);
        assert_eq!(schedule.take(1, 0, Duration::from_secs(1)), 10_000);
    }

    #[test]
    fn a_fixed_schedule_gives_every_round_as_much_and_learns_nothing() {
        let mut schedule = Schedule::fixed(4, 25, Duration::from_millis(2), 2, Duration::from_secs(3));
        let (taken, gone): (Vec<u64>, _) =
            ((0..4).map(|r| schedule.take(1, r, Duration::ZERO)).collect(), Duration::ZERO);
        assert_eq!((taken, schedule.rounds()), (vec![25; 4], 4));
        assert_eq!((schedule.pilot_operations(0, gone), schedule.at_most()), (0, Duration::from_secs(3)));
        schedule.learn(0, 7.0);
        assert_eq!((schedule.cost_ns(0), schedule.expected()), (2e6, Duration::from_millis(400)));
        assert!(schedule.affords(0) && !schedule.is_over(Duration::from_secs(100)));
    }
}

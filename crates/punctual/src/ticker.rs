//! Periodic deadlines without drift.
//!
//! A [`Ticker`] waits for the deadlines of an exact grid. The grid carries fractions of a nanosecond. After 10⁹ ticks of 1/44100 s, its
//! deadlines are still exact to the nanosecond. [`Ticker::tick`] returns a [`Tick`]: index, deadline, lateness, and the number of ticks
//! missed before it. No tick is missed silently.
//!
//! [`MissedTickBehavior`] decides what happens if the loop's body takes too long; the names are those of tokio. In the timelines, `|`
//! is a deadline, `*` the return of `tick()`, `====` the body. The body of tick 1 takes two and a half periods.
//!
//! [`MissedTickBehavior::Burst`]: serves every tick, the late ones at once, one after the other. For counting and simulation.
//! ```text
//! deadline  |0     |1     |2     |3     |4     |5
//! served    *==    *================*==*==*==  *==
//! index     0      1                2  3  4    5          missed 0 0 0 0 0 0
//! ```
//! [`MissedTickBehavior::Skip`] (default): serves the newest passed deadline at once and misses the older ones, then stays on the grid.
//! For control loops, where an old tick is useless.
//! ```text
//! deadline  |0     |1     |2     |3     |4     |5
//! served    *==    *================*== *==    *==
//! index     0      1                3   4      5          missed 0 0 1 0 0
//! ```
//! [`MissedTickBehavior::Delay`]: serves the tick at once and restarts the grid there: two ticks are at least a period apart. For
//! polling a resource at a limited rate.
//! ```text
//! deadline  |0     |1     |2     |3         |4     |5
//! served    *==    *================*==     *==    *==
//! index     0      1                3       4      5      missed 0 0 1 0 0
//! ```
//! In all three, ticks served plus ticks missed is the last index plus one.

use std::time::Duration;

use crate::rate::{BadRate, Grid, Rate};
use crate::sleeper::{Sleeper, SleeperOptions};
use crate::time::{Clock, Moment, SystemClock};

/// What happens to deadlines that passed unserved. The [module](self) has timelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTickBehavior {
    /// Serves them at once, one after the other, until it has caught up.
    Burst,
    /// Serves the tick at once and restarts the grid there.
    Delay,
    /// Serves the newest at once and skips the older ones; the grid stays.
    #[default]
    Skip,
}

/// A served tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The index, from 0; missed ticks count.
    pub index: u64,
    /// The deadline.
    pub deadline: Moment,
    /// When [`Ticker::tick`] returned, on the ticker's clock.
    pub woke_at: Moment,
    /// Ticks missed between the previous served tick and this one.
    pub missed: u64,
    /// Time slept, wake-up latency included.
    pub slept: Duration,
    /// Time spun.
    pub spun: Duration,
}

impl Tick {
    /// How late it was served; zero at the earliest.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.woke_at.since(self.deadline)
    }
}

/// Waits for periodic deadlines. See the [module](self).
#[derive(Debug)]
pub struct Ticker<C: Clock = SystemClock> {
    sleeper: Sleeper<C>,
    grid: Grid,
    next_index: u64,
    behavior: MissedTickBehavior,
    missed: u64,
}

impl Ticker {
    /// A ticker with this rate on `CLOCK_MONOTONIC`. The first tick is one period from now.
    ///
    /// ```
    /// use punctual::{Rate, Ticker};
    ///
    /// let mut ticker = Ticker::new(Rate::per_second(44_100)?);
    /// let first = ticker.tick();
    /// assert_eq!((first.index, first.missed), (0, 0));
    /// # Ok::<(), punctual::BadRate>(())
    /// ```
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Ticker::start(Sleeper::new(), rate, None, MissedTickBehavior::default())
    }

    /// A ticker with this period on `CLOCK_MONOTONIC`. The first tick is one period from now. Refuses a period of zero or above 292
    /// years.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut ticker = punctual::Ticker::every(Duration::from_millis(1))?;
    /// assert_eq!(ticker.tick().index, 0);
    /// # Ok::<(), punctual::BadRate>(())
    /// ```
    pub fn every(period: Duration) -> Result<Self, BadRate> {
        Rate::every(period).map(Self::new)
    }

    /// The builder: period, start, missed ticks, clock, strategy.
    pub fn options() -> TickerOptions {
        TickerOptions::new()
    }
}

impl<C: Clock> Ticker<C> {
    /// A ticker with a given sleeper. The first tick is at `start`, or one period from now.
    #[must_use]
    pub fn start(sleeper: Sleeper<C>, rate: Rate, start: Option<Moment>, behavior: MissedTickBehavior) -> Self {
        let start = start.unwrap_or_else(|| sleeper.now().plus_nanos(rate.time_of(1)));
        Self { sleeper, grid: Grid::new(rate, start), next_index: 0, behavior, missed: 0 }
    }

    /// Waits for the next tick; returns at once if its deadline has passed.
    pub fn tick(&mut self) -> Tick {
        let mut deadline = self.grid.next();
        let now = self.sleeper.now();
        let mut missed = 0;
        if now > deadline && self.behavior != MissedTickBehavior::Burst {
            missed = self.leave_out(now, &mut deadline);
        }
        let wake = self.sleeper.sleep_until(deadline);
        match self.behavior {
            // Late before the wait began: the loop's body took too long, so the grid restarts.
            MissedTickBehavior::Delay if now > deadline => {
                self.grid.restart_at(wake.woke_at);
                self.grid.advance();
            }
            _ => self.grid.advance(),
        }
        let index = self.next_index + missed;
        self.next_index = index + 1;
        self.missed += missed;
        Tick { index, deadline, woke_at: wake.woke_at, missed, slept: wake.slept, spun: wake.spun }
    }

    /// Skips all passed deadlines but the newest. Returns how many.
    #[cold]
    fn leave_out(&mut self, now: Moment, deadline: &mut Moment) -> u64 {
        let mut missed = self.grid.rate().periods_in(now.nanos_since(*deadline));
        let mut reached = self.grid;
        reached.advance_by(missed);
        // Counted from a deadline rounded up to a nanosecond, so the count may be short by one, never by two.
        let mut further = reached;
        further.advance();
        if further.next() <= now {
            (missed, reached) = (missed + 1, further);
        }
        self.grid = reached;
        *deadline = reached.next();
        missed
    }

    /// The deadline of the next tick.
    #[must_use]
    pub fn next_deadline(&self) -> Moment {
        self.grid.next()
    }

    /// Ticks missed so far.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.grid.rate()
    }

    /// The sleeper.
    #[must_use]
    pub fn sleeper(&self) -> &Sleeper<C> {
        &self.sleeper
    }
}

// The builder of a [`Ticker`].

/// The time of the first tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// One period after [`TickerOptions::build`].
    Soon,
    /// At this moment of the clock.
    At(Moment),
    /// At the next multiple of this duration on the clock.
    Whole(Duration),
}

/// The builder of a [`Ticker`]; it can be sent to the thread that ticks.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until `build`"]
pub struct TickerOptions<C: Clock = SystemClock> {
    sleeper: SleeperOptions<C>,
    rate: Result<Rate, BadRate>,
    start: Start,
    behavior: MissedTickBehavior,
}

impl TickerOptions {
    /// A period of 1 s, the first tick one period after [`build`](Self::build), missed ticks skipped, a hybrid sleeper on
    /// `CLOCK_MONOTONIC`.
    pub fn new() -> Self {
        Self {
            sleeper: SleeperOptions::new(),
            rate: Rate::per_second(1),
            start: Start::Soon,
            behavior: MissedTickBehavior::default(),
        }
    }
}

impl Default for TickerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> TickerOptions<C> {
    /// Sets the period, 1 ns to 292 years; [`build`](Self::build) refuses others.
    pub fn every(mut self, period: Duration) -> Self {
        self.rate = Rate::every(period);
        self
    }

    /// Sets the frequency in ticks per second, 10⁻⁹ to 10⁹; [`build`](Self::build) refuses others.
    pub fn hertz(mut self, frequency: f64) -> Self {
        self.rate = Rate::hertz(frequency);
        self
    }

    /// Sets an exact rate.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Ok(rate);
        self
    }

    /// Puts the first tick at `start`: a [`Moment`] of the ticker's clock or, on `CLOCK_MONOTONIC`, an [`Instant`](std::time::Instant).
    /// After a start in the past, the ticks since then are late: the [`MissedTickBehavior`] decides.
    pub fn starting_at(mut self, start: impl Into<Moment>) -> Self {
        self.start = Start::At(start.into());
        self
    }

    /// Puts the first tick at the next multiple of `unit` on the ticker's clock. On [`SystemClock::wall`] with a unit of 1 s, that is a
    /// whole second of the wall clock.
    pub fn starting_at_whole(mut self, unit: Duration) -> Self {
        self.start = Start::Whole(unit);
        self
    }

    /// Sets what happens to missed ticks (default: `Skip`).
    pub fn missed_tick_behavior(mut self, behavior: MissedTickBehavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Sets the sleeper, its clock included.
    pub fn sleeper<D: Clock>(self, sleeper: SleeperOptions<D>) -> TickerOptions<D> {
        let Self { rate, start, behavior, .. } = self;
        TickerOptions { sleeper, rate, start, behavior }
    }

    /// Sets the clock: another [`SystemClock`], or a [`ManualClock`](crate::ManualClock) for tests (default: `CLOCK_MONOTONIC`).
    pub fn clock<D: Clock>(self, clock: D) -> TickerOptions<D> {
        let Self { sleeper, rate, start, behavior } = self;
        TickerOptions { sleeper: sleeper.clock(clock), rate, start, behavior }
    }

    /// Builds a ticker for the calling thread. Refuses an invalid rate.
    pub fn build(self) -> Result<Ticker<C>, BadRate> {
        let rate = self.rate?;
        let sleeper = self.sleeper.build();
        let start = match self.start {
            Start::Soon => None,
            Start::At(start) => Some(start),
            Start::Whole(unit) => {
                let (now, unit) = (sleeper.now().as_nanos(), i64::try_from(unit.as_nanos()).unwrap_or(i64::MAX).max(1));
                Some(sleeper.now().plus_nanos(unit - now.rem_euclid(unit)))
            }
        };
        Ok(Ticker::start(sleeper, rate, start, self.behavior))
    }
}

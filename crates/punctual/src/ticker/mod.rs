//! Periodic deadlines without drift.
//!
//! A [`Ticker`] waits for the deadlines of an exact grid: after 10⁹ ticks of 1/44100 s the deadline is still right to the
//! nanosecond, because it is counted, not added up. [`Ticker::tick`] waits for the next one and returns a [`Tick`]: its index, its
//! deadline, how late it was served, and how many were missed before it. Nothing is missed silently.
//!
//! What happens when the loop's body takes too long is chosen by [`Missed`]. In the timelines `|` are the deadlines, `*` is where `tick()`
//! returns, `====` the body. The body of tick 1 takes two and a half periods.
//!
//! [`Missed::Burst`]: all ticks are served, the late ones at once, one after the other. For counting and for simulation.
//! ```text
//! deadline  |0     |1     |2     |3     |4     |5
//! served    *==    *================*==*==*==  *==
//! index     0      1                2  3  4    5          missed 0 0 0 0 0 0
//! ```
//! [`Missed::Skip`] (default): the newest passed deadline is served at once, older ones are missed; then back on the grid.
//! For control loops, where an old tick is worth nothing.
//! ```text
//! deadline  |0     |1     |2     |3     |4     |5
//! served    *==    *================*== *==    *==
//! index     0      1                3   4      5          missed 0 0 1 0 0
//! ```
//! [`Missed::Delay`]: the tick is served at once and the grid restarts there, so that there is always a whole period between two ticks. For
//! polling something that must not be asked too often.
//! ```text
//! deadline  |0     |1     |2     |3         |4     |5
//! served    *==    *================*==     *==    *==
//! index     0      1                3       4      5      missed 0 0 1 0 0
//! ```
//! Whatever is chosen, ticks served plus ticks missed is the last index plus one.

mod options;

use std::time::Duration;

pub use options::TickerOptions;

use crate::rate::{Grid, Rate};
use crate::sleeper::Sleeper;
use crate::time::{Clock, Moment, SystemClock};

/// What becomes of deadlines that passed unserved; timelines in the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// They are served at once, one after the other, until the grid is caught up with.
    Burst,
    /// The tick is served at once and the grid restarts from then.
    Delay,
    /// The newest is served at once, older ones are left out; the grid stays.
    #[default]
    Skip,
}

/// A tick that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Its number, from 0; missed ticks have numbers too.
    pub index: u64,
    /// When it was due.
    pub deadline: Moment,
    /// When [`Ticker::tick`] returned.
    pub woke_at: Moment,
    /// How many ticks passed unserved between the tick served before and this one.
    pub missed: u64,
    /// How long was slept for it, the wake-up latency included.
    pub slept: Duration,
    /// How long was spun for it.
    pub spun: Duration,
}

impl Tick {
    /// How late it was served.
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
    behaviour: Missed,
    missed: u64,
}

impl Ticker {
    /// A ticker at a rate, on `CLOCK_MONOTONIC`; the first tick is one period from now.
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
        Ticker::start(Sleeper::new(), rate, None, Missed::default())
    }

    /// Choices: period, start, missed ticks, clock, strategy.
    #[must_use]
    pub fn options() -> TickerOptions {
        TickerOptions::new()
    }
}

impl<C: Clock> Ticker<C> {
    /// A ticker by a sleeper of one's own; the first tick is at `start`, or one period from now.
    #[must_use]
    pub fn start(sleeper: Sleeper<C>, rate: Rate, start: Option<Moment>, behaviour: Missed) -> Self {
        let start = start.unwrap_or_else(|| sleeper.now().plus_nanos(rate.time_of(1)));
        Self { sleeper, grid: Grid::new(rate, start), next_index: 0, behaviour, missed: 0 }
    }

    /// Waits for the next tick, or returns at once when its deadline has passed.
    pub fn tick(&mut self) -> Tick {
        let mut deadline = self.grid.next();
        let now = self.sleeper.now();
        let mut missed = 0;
        if now > deadline && self.behaviour != Missed::Burst {
            missed = self.leave_out(now, &mut deadline);
        }
        let wake = self.sleeper.sleep_until(deadline);
        match self.behaviour {
            // The grid restarts where a tick was late by more than a wait is: the loop's body took too long.
            Missed::Delay if now > deadline => {
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

    /// Goes over the deadlines before the newest that has passed.
    #[cold]
    fn leave_out(&mut self, now: Moment, deadline: &mut Moment) -> u64 {
        let mut missed = self.grid.rate().periods_in(now.nanos_since(*deadline));
        let mut reached = self.grid;
        reached.advance_by(missed);
        // Counted from a deadline that was rounded up to a nanosecond, one period may be wanting; never two.
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

    /// How many ticks were missed so far.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.grid.rate()
    }

    /// The sleeper that waits.
    #[must_use]
    pub fn sleeper(&self) -> &Sleeper<C> {
        &self.sleeper
    }
}

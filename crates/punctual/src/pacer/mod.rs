//! Events at a rate: packets, requests, samples.
//!
//! A [`Pacer`] lets its caller go on when the next event is due. Every event has an ideal time on an exact grid, from 0.01 to 10⁹ a second,
//! so the long-run rate is exact: being late now and then does not slow it down, because lateness is measured against the grid
//! and does not move it. What happens after a stall is chosen by [`CatchUp`]:
//!
//! - [`CatchUp::AtOnce`]: all that is due goes out at once; the long-run rate is exact.
//! - [`CatchUp::Gradually`]: the arrears are worked off at a rate that is some per cent higher; the long-run rate is exact, and no two
//!   events are closer than half a period. (libmy's `my_rate` corrects its period slowly in this way; here ordinary wake-up latencies are no
//!   reason to correct anything, only stalls are.)
//! - [`CatchUp::Bucket`]: a token bucket: at most so many events at once, what does not fit is forfeited, and in any window of time *t* there are
//!   at most rate × *t* + depth events.
//!
//! At high rates a wait per event costs too much. With a jitter to keep, events go out in batches, as large as that jitter allows:
//! each batch leaves when its last event is due, so that none is early and the first is late by the jitter at most.
//!
//! ```
//! use std::time::Duration;
//! use punctual::{Pacer, Rate};
//!
//! let mut pacer = Pacer::options(Rate::per_second(200_000)?).jitter(Duration::from_micros(50)).open();
//! let mut sent = 0;
//! while sent < 1_000 {
//!     let turn = pacer.next();
//!     sent += turn.count; // send turn.count packets
//! }
//! # Ok::<(), punctual::BadRate>(())
//! ```

mod options;

use std::time::Duration;

pub use options::PacerOptions;

use crate::rate::{Grid, Rate};
use crate::sleeper::Sleeper;
use crate::time::{Clock, Moment, SystemClock};

/// What happens to events that are overdue. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// They go out at once.
    #[default]
    AtOnce,
    /// They go out at a rate that is so many per cent higher (at least 1).
    Gradually {
        /// How much higher, in per cent of the rate.
        percent: u32,
    },
    /// At most so many go out at once (at least 1); the rest is forfeited.
    Bucket {
        /// Events that an idle pacer saves up; also the burst at the start.
        depth: u64,
    },
}

impl CatchUp {
    /// How fast arrears are worked off: nothing is held back yet.
    fn hurry(self, rate: Rate) -> Grid {
        let rate = match self {
            Self::Gradually { percent } => rate.faster_by(percent.max(1)),
            Self::AtOnce | Self::Bucket { .. } => rate,
        };
        Grid::new(rate, Moment::from_nanos(i64::MIN))
    }
}

/// Permission for the events that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Number of the first of them, from 0; forfeited events have no numbers.
    pub index: u64,
    /// How many.
    pub count: u64,
    /// When the last of them was due; when the batch was to leave.
    pub deadline: Moment,
    /// When [`Pacer::next`] returned.
    pub woke_at: Moment,
    /// Events that a token bucket forfeited just before.
    pub forfeited: u64,
    /// How long was slept, the wake-up latency included.
    pub slept: Duration,
    /// How long was spun.
    pub spun: Duration,
}

impl Turn {
    /// How late the batch is against the grid.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.woke_at.since(self.deadline)
    }
}

/// Lets events happen at a rate. See the [module](self).
#[derive(Debug)]
pub struct Pacer<C: Clock = SystemClock> {
    sleeper: Sleeper<C>,
    grid: Grid,
    index: u64,
    batch: Batch,
    catch_up: CatchUp,
    /// Not before its next moment, while arrears are worked off gradually: a grid at the higher rate, so that not even fractions of a
    /// nanosecond are lost by which an event gains.
    hurry: Grid,
    forfeited: u64,
}

/// How many events go out together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Batch {
    Fixed(u64),
    Jitter(Duration),
}

/// Largest batch: what `sendmmsg(2)` takes in one call (UIO_MAXIOV).
pub const LARGEST_BATCH: u64 = 1024;

impl Batch {
    fn size(self, rate: Rate) -> u64 {
        match self {
            Self::Fixed(size) => size.clamp(1, LARGEST_BATCH),
            Self::Jitter(jitter) => (1 + rate.periods_in(crate::time::nanos(jitter))).min(LARGEST_BATCH),
        }
    }
}

impl Pacer {
    /// An evenly spaced pacer on `CLOCK_MONOTONIC` that catches up at once; the first event is due now.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        PacerOptions::new(rate).open()
    }

    /// Choices: batches, catching up, clock, strategy.
    #[must_use]
    pub fn options(rate: Rate) -> PacerOptions {
        PacerOptions::new(rate)
    }
}

impl<C: Clock> Pacer<C> {
    fn start(sleeper: Sleeper<C>, rate: Rate, batch: Batch, catch_up: CatchUp) -> Self {
        let now = sleeper.now();
        let saved = match catch_up {
            CatchUp::Bucket { depth } => rate.time_of(depth.max(1) - 1),
            CatchUp::AtOnce | CatchUp::Gradually { .. } => 0,
        };
        let grid = Grid::new(rate, now.plus_nanos(saved.saturating_neg()));
        Self { sleeper, grid, index: 0, batch, catch_up, hurry: catch_up.hurry(rate), forfeited: 0 }
    }

    /// Starts over: the first event is due at `start`, at `rate`. What was learned of the machine stays.
    pub fn restart(&mut self, start: Moment, rate: Rate) {
        self.grid = Grid::new(rate, start);
        self.hurry = self.catch_up.hurry(rate);
        (self.index, self.forfeited) = (0, 0);
    }

    /// Puts the thread's timer slack back until the next wait.
    pub fn rest(&mut self) {
        self.sleeper.rest();
    }

    /// The same as [`next`](Self::next), unless `give_up` says so after a signal interrupted the sleep: then `None`, and nothing has happened.
    pub fn next_unless(&mut self, give_up: impl Fn() -> bool) -> Option<Turn> {
        self.turn(give_up)
    }

    /// Waits until the next event, or batch of events, is due.
    // Not an iterator: it never ends, and a `for` loop would hide the rate's change.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Turn {
        loop {
            if let Some(turn) = self.turn(|| false) {
                return turn;
            }
        }
    }

    fn turn(&mut self, give_up: impl Fn() -> bool) -> Option<Turn> {
        let rate = self.grid.rate();
        let count = self.batch_size();
        let mut deadline = self.last_of(count);
        let planned = deadline.max(self.hurry.next());
        let wake = self.sleeper.sleep_until_unless(planned, give_up)?;
        // A bucket overflows until the moment its tokens are taken, the wake-up latency included.
        let before = self.grid.next();
        let forfeited = self.forfeit(rate, wake.woke_at);
        if self.grid.next() > before {
            deadline = self.last_of(count).min(wake.woke_at);
        }
        self.grid.advance_by(count);
        if let CatchUp::Gradually { .. } = self.catch_up {
            let period = rate.time_of(count);
            // The next gap is measured from the plan, as long as the batch left within half a period of it: that is a wake-up
            // latency, and measuring from there would slow every event down, for ever. What is later is a stall.
            let from = planned.max(wake.woke_at.plus_nanos(-(period / 2)));
            if from != self.hurry.next() {
                self.hurry.restart_at(from);
            }
            self.hurry.advance_by(count);
        }
        let index = self.index;
        self.index += count;
        self.forfeited += forfeited;
        Some(Turn { index, count, deadline, woke_at: wake.woke_at, forfeited, slept: wake.slept, spun: wake.spun })
    }

    /// When the last of the next `count` events is due.
    fn last_of(&self, count: u64) -> Moment {
        let mut grid = self.grid;
        if count > 1 {
            grid.advance_by(count - 1);
        }
        grid.next()
    }

    /// Leaves out what the bucket does not hold at `now`.
    fn forfeit(&mut self, rate: Rate, now: Moment) -> u64 {
        let CatchUp::Bucket { depth } = self.catch_up else { return 0 };
        let full = now.plus_nanos(-rate.time_of(depth.max(1) - 1));
        let behind = full.nanos_since(self.grid.next());
        if behind <= 0 {
            return 0;
        }
        self.grid.restart_at(full);
        // Time lost that is less than a period costs no whole event, but the grid moves all the same.
        rate.periods_in(behind)
    }

    fn depth(&self) -> u64 {
        match self.catch_up {
            CatchUp::Bucket { depth } => depth.max(1),
            CatchUp::AtOnce | CatchUp::Gradually { .. } => u64::MAX,
        }
    }

    /// Changes the rate. The event that is next stays due when it was, but no later than one new period from now; from there on the new rate holds.
    pub fn set_rate(&mut self, rate: Rate) {
        self.grid.set_rate(rate);
        let latest = self.sleeper.now().plus_nanos(rate.time_of(1));
        if self.grid.next() > latest {
            self.grid.restart_at(latest);
        }
        self.hurry.set_rate(self.catch_up.hurry(rate).rate());
        if self.hurry.next() > latest {
            self.hurry.restart_at(latest);
        }
    }

    /// The rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.grid.rate()
    }

    /// How many events go out together at the present rate.
    #[must_use]
    pub fn batch_size(&self) -> u64 {
        self.batch.size(self.grid.rate()).min(self.depth())
    }

    /// Events let go so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.index
    }

    /// Events forfeited so far.
    #[must_use]
    pub fn forfeited(&self) -> u64 {
        self.forfeited
    }

    /// The sleeper that waits.
    #[must_use]
    pub fn sleeper(&self) -> &Sleeper<C> {
        &self.sleeper
    }
}

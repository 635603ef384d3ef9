//! Events at a rate: packets, requests, samples.
//!
//! A [`Pacer`] returns when the next event is due. Every event has an ideal time on an exact grid, at 0.01 to 10⁹ events per second.
//! Lateness does not move the grid, so the long-run rate is exact. [`CatchUp`] decides what happens after a stall:
//!
//! - [`CatchUp::AtOnce`]: overdue events leave at once; the long-run rate is exact.
//! - [`CatchUp::Gradually`]: overdue events leave at a rate some per cent higher. The long-run rate is exact, and two events are at least
//!   half a period apart. Only stalls are corrected, not ordinary wake-up latencies (unlike in libmy's `my_rate`, which always corrects
//!   its period).
//! - [`CatchUp::Bucket`]: a token bucket. At most `depth` events leave at once; the rest is forfeited. Any window of time *t* has at most
//!   rate × *t* + depth events.
//!
//! At high rates a wait per event costs too much. With [`PacerOptions::jitter`], events leave in batches as large as that jitter allows. A
//! batch leaves when its last event is due, so no event is early. The first is late by the jitter plus the wake-up's lateness.
//!
//! ```
//! use std::time::Duration;
//! use punctual::{Pacer, Rate};
//!
//! let mut pacer = Pacer::options(Rate::per_second(200_000)?).jitter(Duration::from_micros(50)).build();
//! let mut sent = 0;
//! while sent < 1_000 {
//!     let batch = pacer.next();
//!     sent += batch.count; // send that many packets
//! }
//! # Ok::<(), punctual::BadRate>(())
//! ```

use std::time::Duration;

use crate::rate::{Grid, Rate};
use crate::sleeper::{Sleeper, SleeperOptions};
use crate::time::{Clock, Moment, SystemClock};

/// What happens to overdue events. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// They leave at once.
    #[default]
    AtOnce,
    /// They leave at a rate that is `percent` higher.
    Gradually {
        /// The increase in per cent of the rate, at least 1.
        percent: u32,
    },
    /// At most `depth` leave at once; the rest is forfeited.
    Bucket {
        /// Events that an idle pacer saves up, at least 1; also the burst at the start.
        depth: u64,
    },
}

impl CatchUp {
    /// The depth of a token bucket, at least 1.
    fn depth(self) -> Option<u64> {
        if let Self::Bucket { depth } = self { Some(depth.max(1)) } else { None }
    }

    /// The grid of the catch-up rate; it holds nothing back yet.
    fn hurry(self, rate: Rate) -> Grid {
        let rate = match self {
            Self::Gradually { percent } => rate.faster_by(percent.max(1)),
            Self::AtOnce | Self::Bucket { .. } => rate,
        };
        Grid::new(rate, Moment::from_nanos(i64::MIN))
    }
}

/// The events due now, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The index of the first event, from 0; forfeited events do not count.
    pub index: u64,
    /// The number of events.
    pub count: u64,
    /// When the last event was due, which is when the batch should leave.
    pub deadline: Moment,
    /// When [`Pacer::next`] returned, on the pacer's clock.
    pub woke_at: Moment,
    /// Events that the token bucket forfeited just before this batch.
    pub forfeited: u64,
    /// Time slept, wake-up latency included.
    pub slept: Duration,
    /// Time spun.
    pub spun: Duration,
}

impl Batch {
    /// How late the batch left against the grid; zero at the earliest.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.woke_at.since(self.deadline)
    }
}

/// Paces events at a rate. See the [module](self).
#[derive(Debug)]
pub struct Pacer<C: Clock = SystemClock> {
    sleeper: Sleeper<C>,
    grid: Grid,
    index: u64,
    batch: BatchSize,
    catch_up: CatchUp,
    /// The grid of the higher rate while catching up gradually: no event leaves before its next moment. A grid, so that no fraction of a
    /// nanosecond is lost.
    hurry: Grid,
    forfeited: u64,
}

/// The number of events per batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchSize {
    Fixed(u64),
    Jitter(Duration),
}

/// The largest batch: `sendmmsg(2)` takes this many messages per call (UIO_MAXIOV).
pub const LARGEST_BATCH: u64 = 1024;

impl BatchSize {
    fn size(self, rate: Rate) -> u64 {
        match self {
            Self::Fixed(size) => size.clamp(1, LARGEST_BATCH),
            Self::Jitter(jitter) => (1 + rate.periods_in(crate::time::nanos(jitter))).min(LARGEST_BATCH),
        }
    }
}

impl Pacer {
    /// A pacer of single events on `CLOCK_MONOTONIC` that catches up at once. The first event is due now.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        PacerOptions::new(rate).build()
    }

    /// The builder: batches, catching up, clock, strategy.
    pub fn options(rate: Rate) -> PacerOptions {
        PacerOptions::new(rate)
    }
}

impl<C: Clock> Pacer<C> {
    /// Restarts at `rate`, with the first event due at `start`. Keeps the learned margins.
    pub fn restart(&mut self, start: impl Into<Moment>, rate: Rate) {
        self.grid = Grid::new(rate, start.into());
        self.hurry = self.catch_up.hurry(rate);
        (self.index, self.forfeited) = (0, 0);
    }

    /// Restores the thread's timer slack until the next wait.
    pub fn restore_timer_slack(&mut self) {
        self.sleeper.restore_timer_slack();
    }

    /// Like [`next`](Self::next), but returns `None`, without any effect, if a signal interrupts the sleep and `give_up` then returns true.
    pub fn next_unless(&mut self, give_up: impl Fn() -> bool) -> Option<Batch> {
        let rate = self.grid.rate();
        let count = self.batch_size();
        let mut deadline = self.last_of(count);
        let planned = deadline.max(self.hurry.next());
        let wake = self.sleeper.sleep_until_unless(planned, give_up)?;
        // A bucket overflows until its tokens are taken, the wake-up latency included.
        let before = self.grid.next();
        let forfeited = self.forfeit(rate, wake.woke_at);
        if self.grid.next() > before {
            deadline = self.last_of(count).min(wake.woke_at);
        }
        self.grid.advance_by(count);
        if let CatchUp::Gradually { .. } = self.catch_up {
            let period = rate.time_of(count);
            // If the batch left within half a period of the plan, the next gap is measured from the plan. Measured from the wake-up,
            // its latency would slow down every event. A later batch is a stall.
            let from = planned.max(wake.woke_at.plus_nanos(-(period / 2)));
            if from != self.hurry.next() {
                self.hurry.restart_at(from);
            }
            self.hurry.advance_by(count);
        }
        let index = self.index;
        self.index += count;
        self.forfeited += forfeited;
        Some(Batch { index, count, deadline, woke_at: wake.woke_at, forfeited, slept: wake.slept, spun: wake.spun })
    }

    /// Waits until the next batch is due. Without [batching](PacerOptions::batch), a batch is one event.
    // Not an iterator: it never ends, and a `for` loop would rule out a change of rate.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Batch {
        loop {
            if let Some(batch) = self.next_unless(|| false) {
                return batch;
            }
        }
    }

    /// The due time of the last of the next `count` events.
    fn last_of(&self, count: u64) -> Moment {
        let mut grid = self.grid;
        if count > 1 {
            grid.advance_by(count - 1);
        }
        grid.next()
    }

    /// Forfeits the events that the bucket does not hold at `now`. Returns how many.
    fn forfeit(&mut self, rate: Rate, now: Moment) -> u64 {
        let Some(depth) = self.catch_up.depth() else { return 0 };
        let full = now.plus_nanos(-rate.time_of(depth - 1));
        let behind = full.nanos_since(self.grid.next());
        if behind <= 0 {
            return 0;
        }
        self.grid.restart_at(full);
        // Less than a period costs no whole event, but the grid still moves.
        rate.periods_in(behind)
    }

    /// Changes the rate. The next event keeps its due time, or is due one new period from now if that is earlier. Then the new rate holds.
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

    /// The number of events per batch at the present rate.
    #[must_use]
    pub fn batch_size(&self) -> u64 {
        self.batch.size(self.grid.rate()).min(self.catch_up.depth().unwrap_or(u64::MAX))
    }

    /// Events released so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.index
    }

    /// Events forfeited so far.
    #[must_use]
    pub fn forfeited(&self) -> u64 {
        self.forfeited
    }

    /// The sleeper.
    #[must_use]
    pub fn sleeper(&self) -> &Sleeper<C> {
        &self.sleeper
    }
}

// The builder of a [`Pacer`].

/// The part of the jitter reserved for the sleeper's lateness. A wake-up later than this exceeds the jitter by the difference.
const SLEEPER_JITTER: Duration = Duration::from_micros(1);

/// The builder of a [`Pacer`]; it can be sent to the thread that paces.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until `build`"]
pub struct PacerOptions<C: Clock = SystemClock> {
    sleeper: SleeperOptions<C>,
    rate: Rate,
    batch: BatchSize,
    catch_up: CatchUp,
}

impl PacerOptions {
    /// Single events, catching up at once, with a hybrid sleeper on `CLOCK_MONOTONIC`.
    pub fn new(rate: Rate) -> Self {
        Self { sleeper: SleeperOptions::new(), rate, batch: BatchSize::Fixed(1), catch_up: CatchUp::default() }
    }
}

impl<C: Clock> PacerOptions<C> {
    /// Sets the events per batch, 1 to [`LARGEST_BATCH`], clamped.
    pub fn batch(mut self, events: u64) -> Self {
        self.batch = BatchSize::Fixed(events);
        self
    }

    /// Makes batches as large as this jitter allows. An event leaves at most `jitter` after its time, plus any wake-up lateness above 1 µs.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.batch = BatchSize::Jitter(jitter.saturating_sub(SLEEPER_JITTER));
        self
    }

    /// Sets what happens to overdue events (default: `AtOnce`).
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Sets the sleeper, its clock included.
    pub fn sleeper<D: Clock>(self, sleeper: SleeperOptions<D>) -> PacerOptions<D> {
        PacerOptions { sleeper, rate: self.rate, batch: self.batch, catch_up: self.catch_up }
    }

    /// Sets the clock: another [`SystemClock`], or a [`ManualClock`](crate::ManualClock) for tests (default: `CLOCK_MONOTONIC`).
    pub fn clock<D: Clock>(self, clock: D) -> PacerOptions<D> {
        PacerOptions { sleeper: self.sleeper.clock(clock), rate: self.rate, batch: self.batch, catch_up: self.catch_up }
    }

    /// Builds a pacer for the calling thread.
    #[must_use]
    pub fn build(self) -> Pacer<C> {
        let Self { sleeper, rate, batch, catch_up } = self;
        let sleeper = sleeper.build();
        let saved = catch_up.depth().map_or(0, |depth| rate.time_of(depth - 1));
        let grid = Grid::new(rate, sleeper.now().plus_nanos(saved.saturating_neg()));
        Pacer { sleeper, grid, index: 0, batch, catch_up, hurry: catch_up.hurry(rate), forfeited: 0 }
    }
}

//! The runner that all families share: subjects take turns in rounds.
//!
//! A family says what its cells are and how to perform a batch of operations of one cell ([`Bench`]); this module lets them
//! take turns. In each round each variant of conditions is applied, its cells are measured one after the other, and
//! the variant is put back. A round starts one cell further than the one before, so that no cell always runs after
//! the same neighbour. A pilot round before the first teaches the schedule what an operation costs and warms up
//! whatever is cold; its samples are thrown away.
//!
//! Real-time variants are watched ([`punctual::watchdog`]), and between batches the thread steps aside long enough that a
//! machine with one CPU stays usable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual::conditions::{Applied, Guard, Policy};
use punctual::watchdog::{Limits, Watchdog};
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Recorder, SeriesTally, Usage};

use crate::schedule::Schedule;
use crate::session;
use crate::stage::{Progress, Stage};
use crate::usage::Sum;
use crate::variant::Variant;

/// What a family gives the runner.
pub trait Bench {
    /// What the cell measures, in words, for whoever watches.
    fn doing(&self, cell: usize) -> String;

    /// The variant that the cell runs under.
    fn variant(&self, cell: usize) -> usize;

    /// The pilot is over: what it left is to be forgotten.
    fn begin(&mut self) {}

    /// Performs `operations` of the cell, records each, and tells what they cost altogether.
    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure>;
}

/// Why a batch could not be performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The run was asked to end.
    Stopped,
    /// The subject cannot be measured, and why; it is not tried again.
    Impossible {
        /// What was tried and what the kernel said.
        why: String,
        /// What would make it possible.
        remedy: Option<String>,
    },
}

/// What has been measured so far; shared with whoever reports if the experiment must be left behind.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Per cell.
    pub tallies: Vec<SeriesTally>,
    /// Per cell: why it was given up.
    pub failures: Vec<Option<Failure>>,
    /// Per variant: what held, once it was applied.
    pub held: Vec<Option<Held>>,
    /// What was noticed.
    pub notices: Vec<Notice>,
    /// The measured thread's own use of the machine.
    pub own: Sum,
    /// Whether every round was run.
    pub complete: bool,
}

/// What came of applying a variant.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// What the kernel said holds.
    pub applied: Applied,
    /// What it refused.
    pub refused: Vec<punctual::conditions::Refused>,
    /// It was left out: the refusal made it the same as another variant.
    pub left_out: bool,
}

/// A ledger that two threads see.
pub type SharedLedger = Arc<Mutex<Ledger>>;

/// The ledger's lock; a panic elsewhere does not make what was measured unreadable.
pub fn open(ledger: &SharedLedger) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new ledger for so many cells and variants.
#[must_use]
pub fn ledger(cells: usize, variants: usize) -> SharedLedger {
    Arc::new(Mutex::new(Ledger {
        tallies: (0..cells).map(|_| SeriesTally::new()).collect(),
        failures: vec![None; cells],
        held: vec![None; variants],
        ..Ledger::default()
    }))
}

/// One performance of all rounds.
pub struct Rounds<'a, B> {
    /// The family's part.
    pub bench: B,
    /// Who measures how much.
    pub schedule: Schedule,
    /// The condition sets.
    pub variants: &'a [Variant],
    /// How many rounds.
    pub rounds: u32,
    /// A refused condition is an error.
    pub require: bool,
    /// Where the results go.
    pub ledger: SharedLedger,
    /// Where the caller is told.
    pub stage: &'a Stage,
}

/// The run ends before its time.
struct Ended;

/// Time since a reading of the clock.
fn since(begin_ns: i64) -> Duration {
    Duration::from_nanos((now_ns(Clock::Monotonic) - begin_ns).unsigned_abs())
}

/// How closely a real-time thread is watched. The watchdog preempts what it watches, so it looks seldom: about once in ten thousand
/// waits of 100 µs. The breaks between stretches keep a thread well below these limits.
const WATCH: Limits = Limits {
    every: Duration::from_millis(800),
    window: Duration::from_millis(1600),
    busy_without_break: Duration::from_millis(1200),
    busy: Duration::from_millis(1580),
};

impl<B: Bench> Rounds<'_, B> {
    /// Performs the pilot and all rounds. Returns early, with what there is, when the run was asked to end.
    pub fn perform(mut self) {
        let cells = self.cells();
        let mut recorder = Recorder::new();
        let pilot = now_ns(Clock::Monotonic);
        self.stage.announce(self.schedule.at_most());
        if self.pilot(cells, &mut recorder).is_err() {
            return;
        }
        self.bench.begin();
        let begin = now_ns(Clock::Monotonic);
        let total = self.schedule.after_pilot(since(pilot));
        self.stage.announce(self.schedule.at_most());
        for round in 0..self.rounds {
            if self.round(round, total.saturating_sub(since(begin)), (begin, total), &mut recorder).is_err() {
                return;
            }
        }
        open(&self.ledger).complete = true;
    }

    fn cells(&self) -> usize {
        open(&self.ledger).tallies.len()
    }

    fn cells_of(&self, variant: usize, cells: usize) -> Vec<usize> {
        (0..cells).filter(|&cell| self.bench.variant(cell) == variant).collect()
    }

    fn given_up(&self, cell: usize) -> bool {
        open(&self.ledger).failures[cell].is_some()
    }

    /// Applies each variant once, and learns what an operation of each cell costs.
    fn pilot(&mut self, cells: usize, recorder: &mut Recorder) -> Result<(), Ended> {
        let begin = now_ns(Clock::Monotonic);
        for variant in 0..self.variants.len() {
            let watchdog = self.watch(variant);
            let guard = self.variants[variant].conditions.apply();
            let held = self.judge(&guard);
            let left_out = held.left_out;
            open(&self.ledger).held[variant] = Some(held);
            for cell in self.cells_of(variant, cells) {
                if left_out || self.given_up(cell) || !self.schedule.affords(cell) {
                    self.schedule.drop_cell(cell);
                    continue;
                }
                self.pause(cell, 0.0, self.schedule.expected())?;
                recorder.clear();
                let operations = self.schedule.pilot_operations(cell, since(begin));
                if operations > 0 {
                    self.batch(cell, operations, recorder)?;
                }
                if self.given_up(cell) {
                    self.schedule.drop_cell(cell);
                }
            }
            self.unwatch(variant, watchdog);
            self.put_back(guard);
        }
        Ok(())
    }

    fn round(
        &mut self,
        round: u32,
        left: Duration,
        (begin, total): (i64, Duration),
        recorder: &mut Recorder,
    ) -> Result<(), Ended> {
        let cells = self.cells();
        for variant in 0..self.variants.len() {
            if open(&self.ledger).held[variant].as_ref().is_none_or(|h| h.left_out) {
                continue;
            }
            let mine = self.cells_of(variant, cells);
            let watchdog = self.watch(variant);
            let guard = self.variants[variant].conditions.apply();
            for turn in 0..mine.len() {
                let cell = mine[(turn + round as usize) % mine.len()];
                let operations = self.schedule.take(cell, round, left);
                if operations == 0 || self.given_up(cell) {
                    continue;
                }
                let gone = since(begin);
                if self.schedule.is_over(gone) {
                    continue;
                }
                let done = gone.as_secs_f64() / total.as_secs_f64().max(1e-9);
                self.pause(cell, done.min(1.0), total.saturating_sub(gone))?;
                recorder.clear();
                let started = (now_ns(Clock::Monotonic) - begin).unsigned_abs();
                if let Some(usage) = self.batch(cell, operations, recorder)? {
                    let mut ledger = open(&self.ledger);
                    ledger.tallies[cell].add_round(round, started, recorder, usage);
                    ledger.own.add(usage);
                }
            }
            self.unwatch(variant, watchdog);
            self.put_back(guard);
        }
        Ok(())
    }

    /// One batch; a failure is entered in the ledger.
    fn batch(&mut self, cell: usize, operations: u64, recorder: &mut Recorder) -> Result<Option<Usage>, Ended> {
        match self.bench.batch(cell, operations, recorder) {
            Ok(usage) => {
                self.schedule.learn(cell, usage.elapsed_ns as f64 / operations.max(1) as f64);
                Ok(Some(usage))
            }
            Err(Failure::Stopped) => Err(Ended),
            Err(failure) => {
                open(&self.ledger).failures[cell] = Some(failure);
                Ok(None)
            }
        }
    }

    fn pause(&self, cell: usize, done: f64, left: Duration) -> Result<(), Ended> {
        let doing = self.bench.doing(cell);
        if self.stage.pause(Progress { doing, done, left }) { Ok(()) } else { Err(Ended) }
    }

    /// Whether the variant, as the kernel granted it, is worth measuring.
    fn judge(&self, guard: &Guard) -> Held {
        let refused = guard.refused().to_vec();
        let left_out = !refused.is_empty() && (self.variants.len() > 1 || self.require);
        Held { applied: guard.applied().clone(), refused, left_out }
    }

    /// A watchdog for a variant under which the thread could hold a CPU. It starts before the variant is applied, so that it does not
    /// inherit it.
    fn watch(&self, variant: usize) -> Option<Watchdog> {
        let policy = self.variants[variant].conditions.policy.filter(Policy::is_real_time)?;
        Watchdog::over_this_thread(policy, WATCH).ok()
    }

    fn unwatch(&self, variant: usize, watchdog: Option<Watchdog>) {
        let Some(watchdog) = watchdog else { return };
        if let Some(tripped) = watchdog.tripped() {
            let conditions = self.variants[variant].label.clone();
            let busy_ns = tripped.busy.as_nanos() as u64;
            open(&self.ledger).notices.push(Notice::WatchdogTripped { conditions, busy_ns });
        }
    }

    fn put_back(&self, guard: Guard) {
        for left in guard.restore() {
            let notice = session::not_restored(&left);
            let mut ledger = open(&self.ledger);
            if !ledger.notices.contains(&notice) {
                ledger.notices.push(notice);
            }
        }
    }
}

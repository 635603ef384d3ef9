//! The runner that all families share: subjects take turns in rounds.
//!
//! A family says what its cells are and how to perform a batch of operations of one cell ([`Bench`]); this module lets them
//! take turns. In each round each variant of conditions is applied, its cells are measured one after the other, and
//! the variant is put back. A round starts one cell further than the one before, so that no cell always runs after
//! the same neighbour. A pilot round before the first teaches the schedule what an operation costs and warms up
//! whatever is cold; its samples are thrown away.
//!
//! A batch counts only if all conditions still hold when it ends and time did not break meanwhile ([`crate::breaks`]). Otherwise it is
//! left out, what was lost is set again, and the batch is repeated where there is time.
//!
//! Real-time variants are watched ([`punctual::watchdog`]), and between batches the thread steps aside long enough that a
//! machine with one CPU stays usable.

use std::time::Duration;

use punctual::conditions::{Guard, Policy};
use punctual::watchdog::{Limits, Watchdog};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Recorder, Usage};

use crate::breaks::Look;
pub use crate::failure::Failure;
use crate::hold::Hold;
pub use crate::ledger::{Held, Ledger, SharedLedger, ledger, open};
use crate::left_out::Spoilt;
use crate::schedule::Schedule;
use crate::session;
use crate::stage::{Progress, Stage};
use crate::variant::Variant;

/// What a family gives the runner.
pub trait Bench {
    /// What the cell measures, in words, for whoever watches.
    fn doing(&self, cell: usize) -> String;

    /// The variant that the cell runs under.
    fn variant(&self, cell: usize) -> usize;

    /// The pilot is over.
    fn begin(&mut self) {}

    /// Performs `operations` of the cell, records each, and tells what they cost altogether.
    fn batch(&mut self, cell: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure>;

    /// The last batch counts: what it measured beside its samples is to be entered. Not called for a batch of the pilot, nor for one that
    /// is left out.
    fn keep(&mut self, _cell: usize) {}
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
    /// A condition that is refused or lost is an error.
    pub require: bool,
    /// Where the results go.
    pub ledger: SharedLedger,
    /// Where the caller is told.
    pub stage: &'a Stage,
    /// What holds in all variants.
    pub base: &'a mut Guard,
    /// How the clocks are looked at: [`Look::now`].
    pub look: fn() -> Look,
}

/// The run ends before its time.
struct Ended;

/// Time since a reading of the clock.
fn since(begin_ns: i64) -> Duration {
    Duration::from_nanos((now_ns(Clock::Monotonic) - begin_ns).unsigned_abs())
}

/// What came of a batch.
enum Done {
    /// It counts.
    Measured(Usage),
    /// It does not count.
    Spoilt(Spoilt),
    /// The cell is given up.
    GivenUp,
}

/// When the rounds began, and how long they are to take.
#[derive(Clone, Copy)]
struct Course {
    begin_ns: i64,
    total: Duration,
}

impl Course {
    fn gone(&self) -> Duration {
        since(self.begin_ns)
    }

    fn left(&self) -> Duration {
        self.total.saturating_sub(self.gone())
    }

    fn done(&self) -> f64 {
        (self.gone().as_secs_f64() / self.total.as_secs_f64().max(1e-9)).min(1.0)
    }
}

/// A cell's turn in a round.
#[derive(Clone, Copy)]
struct Turn {
    cell: usize,
    variant: usize,
    round: u32,
    operations: u64,
}

/// How often a batch is tried in one turn.
const ATTEMPTS: u32 = 2;
/// Longest wait for a condition that cannot be had again now.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Between two looks at whether the run was asked to end meanwhile.
const NAP: Duration = Duration::from_millis(20);

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
        let course = Course { begin_ns: now_ns(Clock::Monotonic), total: self.schedule.after_pilot(since(pilot)) };
        self.stage.announce(self.schedule.at_most());
        let ended = (0..self.rounds).any(|round| self.round(round, course, &mut recorder).is_err());
        let mut ledger = open(&self.ledger);
        ledger.give_reasons(|cell| self.variants[self.bench.variant(cell)].label.as_str());
        ledger.complete = !ended;
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
                    self.batch(Turn { cell, variant, round: 0, operations }, &guard, recorder)?;
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

    fn round(&mut self, round: u32, course: Course, recorder: &mut Recorder) -> Result<(), Ended> {
        let left = course.left();
        for variant in 0..self.variants.len() {
            if open(&self.ledger).held[variant].as_ref().is_none_or(|h| h.left_out) {
                continue;
            }
            let watchdog = self.watch(variant);
            let mut guard = self.variants[variant].conditions.apply();
            let outcome = self.turns((variant, round), (left, course), &mut guard, recorder);
            self.unwatch(variant, watchdog);
            self.put_back(guard);
            outcome?;
        }
        Ok(())
    }

    /// The turns of one variant's cells.
    fn turns(
        &mut self,
        (variant, round): (usize, u32),
        (left, course): (Duration, Course),
        guard: &mut Guard,
        recorder: &mut Recorder,
    ) -> Result<(), Ended> {
        let mine = self.cells_of(variant, self.cells());
        for turn in 0..mine.len() {
            let cell = mine[(turn + round as usize) % mine.len()];
            let operations = self.schedule.take(cell, round, left);
            if operations == 0 || self.given_up(cell) || self.schedule.is_over(course.gone()) {
                continue;
            }
            self.pause(cell, course.done(), course.left())?;
            if !self.turn(Turn { cell, variant, round, operations }, course, guard, recorder)? {
                // The other cells of this variant lack the same condition.
                return self.wait_a_round(round, course);
            }
        }
        Ok(())
    }

    /// One cell's turn. False: a condition does not hold, and cannot be had again now.
    fn turn(&mut self, turn: Turn, course: Course, guard: &mut Guard, recorder: &mut Recorder) -> Result<bool, Ended> {
        for _ in 0..ATTEMPTS {
            let missing = self.hold(turn.variant).renew(guard, &mut *self.base);
            if linux::stop::requested() {
                return Err(Ended);
            }
            if !missing.is_empty() {
                self.leave_out(Spoilt::Lost(missing))?;
                return Ok(false);
            }
            recorder.clear();
            let started = course.gone();
            match self.batch(turn, guard, recorder)? {
                Done::GivenUp => return Ok(true),
                Done::Measured(usage) => {
                    self.bench.keep(turn.cell);
                    let mut ledger = open(&self.ledger);
                    ledger.tallies[turn.cell].add_round(turn.round, started.as_nanos() as u64, recorder, usage);
                    ledger.own.add(usage);
                    return Ok(true);
                }
                Done::Spoilt(why) => {
                    self.leave_out(why)?;
                    let took = course.gone().saturating_sub(started);
                    if !self.schedule.counts_samples() && took > course.left() {
                        return Ok(true);
                    }
                }
            }
        }
        // Lost twice in a row: what takes it away may be over in a while.
        self.wait_a_round(turn.round, course)?;
        Ok(true)
    }

    /// One batch; a failure is entered in the ledger.
    fn batch(&mut self, turn: Turn, guard: &Guard, recorder: &mut Recorder) -> Result<Done, Ended> {
        let before = (self.look)();
        let outcome = self.bench.batch(turn.cell, turn.operations, recorder);
        let spoilt = self.spoilt(turn, &before, &outcome, guard, recorder);
        if outcome == Err(Failure::Stopped) {
            // A break may be why the time is over.
            if let Some(why @ Spoilt::Broken(_)) = spoilt {
                self.leave_out(why)?;
            }
            return Err(Ended);
        }
        match spoilt {
            // Ending a run may free its threads from their CPUs: nobody else took a condition away.
            Some(Spoilt::Lost(_)) if linux::stop::requested() => return Err(Ended),
            Some(why) => return Ok(Done::Spoilt(why)),
            None => {}
        }
        match outcome {
            Ok(usage) => {
                self.schedule.learn(turn.cell, usage.elapsed_ns as f64 / turn.operations.max(1) as f64);
                Ok(Done::Measured(usage))
            }
            Err(failure) => {
                open(&self.ledger).failures[turn.cell] = Some(failure);
                Ok(Done::GivenUp)
            }
        }
    }

    /// Why the batch since `before` does not count. A failure is one only where nothing was lost: a stop, too, ends some calls early.
    fn spoilt(
        &self,
        turn: Turn,
        before: &Look,
        outcome: &Result<Usage, Failure>,
        guard: &Guard,
        recorder: &Recorder,
    ) -> Option<Spoilt> {
        let expected_ns = (self.schedule.cost_ns(turn.cell) * turn.operations as f64) as u64;
        let largest_ns = recorder.extremes().map_or(0, |(_, max)| max);
        let theirs = match outcome {
            Err(Failure::Lost(theirs)) => theirs.as_slice(),
            _ => &[],
        };
        self.hold(turn.variant).spoilt((guard, self.base), before, (expected_ns, largest_ns), theirs)
    }

    fn hold(&self, variant: usize) -> Hold {
        Hold::of(&self.ledger, variant, &self.variants[variant].label, self.look)
    }

    fn leave_out(&self, why: Spoilt) -> Result<(), Ended> {
        if leave_out(&self.ledger, why, self.require) { Err(Ended) } else { Ok(()) }
    }

    /// Lets the time of a round go by, so that a condition that comes back is there for a later one.
    fn wait_a_round(&self, round: u32, course: Course) -> Result<(), Ended> {
        let share = course.left() / self.rounds.saturating_sub(round).max(1);
        let until = course.gone() + share.min(LONGEST_WAIT);
        while course.gone() < until {
            if linux::stop::requested() {
                return Err(Ended);
            }
            std::thread::sleep(NAP.min(until.saturating_sub(course.gone())));
        }
        Ok(())
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

/// Enters what does not count. True: it ends the run, since a condition was lost that the caller insists on.
pub(crate) fn leave_out(ledger: &SharedLedger, why: Spoilt, require: bool) -> bool {
    let mut ledger = open(ledger);
    ledger.left_out.add(&why, now_ns(Clock::Monotonic));
    match why {
        Spoilt::Lost(mut lost) if require && !lost.is_empty() => {
            ledger.not_kept = Some(lost.swap_remove(0));
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;

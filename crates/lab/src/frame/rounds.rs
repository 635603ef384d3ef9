//! The runner that all families share: subjects take turns in rounds.
//!
//! A family names its cells and performs a batch of operations of one cell ([`Bench`]). This module decides whose
//! turn it is. In each round it applies each variant of conditions, measures its cells one after the other, and
//! restores the conditions. Each round starts one cell further than the one before, so no cell always runs after the
//! same neighbour. A pilot round comes first: it shows the schedule what an operation costs, and warms up caches. Its
//! samples are discarded.
//!
//! A batch counts only if all conditions still hold at its end and time did not break meanwhile
//! ([`breaks`](super::breaks)). Otherwise it is left out, the lost conditions are set again, and the batch is
//! repeated if there is time.
//!
//! A watchdog watches real-time variants ([`punctual::watchdog`]). Between batches the thread yields long enough to
//! keep a machine with one CPU usable.

use std::time::Duration;

use punctual::Policy;
use punctual::conditions::{Applied, Guard};
use punctual::watchdog::{Watchdog, WatchdogConfig};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Recorder, Usage};

use super::breaks::{Hold, Look, Spoilt};
use super::error::Failure;
use super::family::Bench;
use super::ledger::{Held, Ledger};
use super::plan::{Request, Variant};
use super::schedule::Schedule;
use super::stage::{Progress, Shared, Stage};
use super::watch::Watching;

/// One performance of all rounds.
pub(crate) struct Rounds<'a> {
    /// The family's part.
    pub(crate) bench: &'a mut dyn Bench<Extra = ()>,
    /// The number of operations of each cell.
    pub(crate) schedule: Schedule,
    /// Conditions, rounds, and whether a refused or lost condition is an error.
    pub(crate) request: &'a Request,
    /// The variant of each cell.
    pub(crate) variant_of: Vec<usize>,
    pub(crate) ledger: Shared<Ledger>,
    /// The progress display.
    pub(crate) stage: &'a Stage,
    /// The conditions of all variants.
    pub(crate) base: &'a mut Guard,
    /// How the clocks are read: [`Look::now`].
    pub(crate) look: fn() -> Look,
    /// Says why the thread wakes up late.
    pub(crate) watching: Watching,
}

/// The run ends early.
struct Ended;

/// The outcome of a batch.
enum Done {
    /// The batch counts.
    Measured(Usage),
    /// The batch does not count.
    Spoilt(Spoilt),
    /// The cell is given up.
    GivenUp,
}

/// A cell's slot in a round.
#[derive(Clone, Copy)]
struct Slot {
    cell: usize,
    variant: usize,
    round: u32,
    operations: u64,
}

/// Attempts at a batch in one turn.
const ATTEMPTS: u32 = 2;
/// Longest wait for a lost condition to become available again.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Interval of checks for a stop request during that wait.
const NAP: Duration = Duration::from_millis(20);

/// Interval of the watchdog's checks of a real-time thread. The watchdog preempts the thread it watches, so it
/// checks seldom: about once in ten thousand waits of 100 µs. The breaks between stretches keep a thread well
/// below these limits.
const WATCH: WatchdogConfig = WatchdogConfig {
    every: Duration::from_millis(800),
    window: Duration::from_millis(1600),
    busy_without_break: Duration::from_millis(1200),
    busy: Duration::from_millis(1580),
};

impl Rounds<'_> {
    /// Performs the pilot and all rounds. Returns early, with the results so far, when the run must end.
    pub(crate) fn perform(mut self) {
        self.perform_all();
        self.bench.end();
        if self.watching.takes() > Duration::ZERO {
            self.stage.announce(self.watching.takes());
        }
        let (causes, refused) = self.watching.end();
        let mut ledger = self.ledger.open();
        ledger.causes = causes;
        refused.into_iter().for_each(|refused| ledger.notice(refused));
    }

    fn perform_all(&mut self) {
        let mut recorder = Recorder::new();
        let pilot = now_ns(Clock::Monotonic);
        self.stage.announce(self.schedule.at_most() + self.watching.takes());
        if self.pilot(&mut recorder).is_err() {
            return;
        }
        self.bench.begin();
        let took = since(pilot);
        self.watching.open();
        if self.watching.is_in_vain() {
            return;
        }
        let course = Course { begin_ns: now_ns(Clock::Monotonic), total: self.schedule.after_pilot(took) };
        self.stage.announce(self.schedule.at_most() + self.watching.takes());
        let ended = (0..self.schedule.rounds()).any(|round| self.round(round, course, &mut recorder).is_err());
        let mut ledger = self.ledger.open();
        ledger.give_reasons(|cell| self.request.variants[self.variant_of[cell]].label.as_str());
        ledger.complete = !ended;
    }

    fn cells_of(&self, variant: usize) -> Vec<usize> {
        (0..self.variant_of.len()).filter(|&cell| self.variant_of[cell] == variant).collect()
    }

    fn given_up(&self, cell: usize) -> bool {
        self.ledger.open().failures[cell].is_some()
    }

    /// Applies each variant once, and measures the cost of an operation of each cell.
    fn pilot(&mut self, recorder: &mut Recorder) -> Result<(), Ended> {
        let begin = now_ns(Clock::Monotonic);
        let mut rehearse = |rounds: &mut Self, variant, applied: &mut Applied| {
            let held = rounds.judge(applied);
            let left_out = held.left_out;
            rounds.ledger.open().held[variant] = Some(held);
            for cell in rounds.cells_of(variant) {
                if left_out || rounds.given_up(cell) || !rounds.schedule.affords(cell) {
                    rounds.schedule.drop_cell(cell);
                    continue;
                }
                rounds.pause(cell, 0.0, rounds.schedule.expected())?;
                recorder.clear();
                let operations = rounds.schedule.pilot_operations(cell, since(begin));
                if operations > 0 {
                    rounds.batch(Slot { cell, variant, round: 0, operations }, applied, recorder)?;
                }
                if rounds.given_up(cell) {
                    rounds.schedule.drop_cell(cell);
                }
            }
            Ok(())
        };
        (0..self.request.variants.len()).try_for_each(|variant| self.under(variant, &mut rehearse))
    }

    fn round(&mut self, round: u32, course: Course, recorder: &mut Recorder) -> Result<(), Ended> {
        let left = course.left();
        // Causes of several conditions would be mixed: those of the first are found.
        let variants = if self.watching.is_due(round) { 1 } else { self.request.variants.len() };
        for variant in 0..variants {
            let idle = self.cells_of(variant).into_iter().all(|cell| self.bench.operations(cell, 1) == 0);
            if idle || self.ledger.open().held[variant].as_ref().is_none_or(|held| held.left_out) {
                continue;
            }
            self.under(variant, &mut |rounds, variant, guard| {
                rounds.turns((variant, round), (left, course), guard, recorder)
            })?;
        }
        Ok(())
    }

    /// Applies a variant, does the work under it, and restores what it changed.
    fn under(
        &mut self,
        variant: usize,
        work: &mut dyn FnMut(&mut Self, usize, &mut Applied) -> Result<(), Ended>,
    ) -> Result<(), Ended> {
        let Variant { label, conditions } = &self.request.variants[variant];
        // It starts before the variant is applied, so that it does not inherit it.
        let real_time = conditions.get_policy().filter(Policy::is_real_time);
        let watchdog = real_time.and_then(|policy| Watchdog::over_this_thread(policy, WATCH).ok());
        let mut applied = conditions.apply();
        let outcome = work(self, variant, &mut applied);
        if let Some(tripped) = watchdog.and_then(|watchdog| watchdog.tripped()) {
            let (conditions, busy_ns) = (label.clone(), tripped.busy.as_nanos() as u64);
            self.ledger.open().notices.push(Notice::WatchdogTripped { conditions, busy_ns });
        }
        self.ledger.put_back(applied.guard);
        outcome
    }

    /// The turns of one variant's cells.
    fn turns(
        &mut self,
        (variant, round): (usize, u32),
        (left, course): (Duration, Course),
        applied: &mut Applied,
        recorder: &mut Recorder,
    ) -> Result<(), Ended> {
        let mine = self.cells_of(variant);
        for turn in 0..mine.len() {
            let cell = mine[(turn + round as usize) % mine.len()];
            let scheduled = self.schedule.take(cell, round, left);
            let most = self.watching.most(round, self.schedule.cost_ns(cell));
            let operations = self.bench.operations(cell, scheduled.min(most));
            if operations == 0 || self.given_up(cell) || self.schedule.is_over(course.gone()) {
                continue;
            }
            self.pause(cell, course.done(), course.left())?;
            if !self.slot(Slot { cell, variant, round, operations }, course, applied, recorder)? {
                // The other cells of this variant lack the same condition.
                return self.wait_a_round(round, course);
            }
        }
        Ok(())
    }

    /// One cell's turn. Returns false if a condition does not hold and cannot be restored now.
    fn slot(
        &mut self,
        slot: Slot,
        course: Course,
        applied: &mut Applied,
        recorder: &mut Recorder,
    ) -> Result<bool, Ended> {
        for _ in 0..ATTEMPTS {
            let missing = self.hold(slot.variant).renew(applied, &mut *self.base);
            if linux::stop::requested() {
                return Err(Ended);
            }
            if !missing.is_empty() {
                self.leave_out(slot.cell, Spoilt::Lost(missing))?;
                return Ok(false);
            }
            recorder.clear();
            let started = course.gone();
            match self.batch(slot, applied, recorder)? {
                Done::GivenUp => return Ok(true),
                Done::Measured(usage) => {
                    self.enter(slot, started, recorder, usage);
                    return Ok(true);
                }
                Done::Spoilt(why) => {
                    self.leave_out(slot.cell, why)?;
                    let took = course.gone().saturating_sub(started);
                    if !self.schedule.counts_samples() && took > course.left() {
                        return Ok(true);
                    }
                }
            }
        }
        // Lost twice in a row: the cause may pass in a while.
        self.wait_a_round(slot.round, course)?;
        Ok(true)
    }

    /// Enters a batch that counts. The figures of a watched one show the effect of watching only.
    fn enter(&mut self, slot: Slot, started: Duration, recorder: &Recorder, usage: Usage) {
        self.watching.compare(slot.cell, slot.round, recorder, usage);
        let mut ledger = self.ledger.open();
        ledger.own.add(usage);
        if !self.watching.is_due(slot.round) {
            let (round, started_ns) = (self.watching.figures_of(slot.round), started.as_nanos() as u64);
            self.bench.keep(slot.cell, (round, started_ns), &mut ());
            ledger.tallies[slot.cell].add_round(round, started_ns, recorder, usage);
        }
    }

    /// One batch; a failure is entered in the ledger.
    fn batch(&mut self, slot: Slot, applied: &Applied, recorder: &mut Recorder) -> Result<Done, Ended> {
        let before = (self.look)();
        let round = (slot.round, self.bench.nominal_ns(slot.cell));
        let (bench, many) = (&mut *self.bench, (slot.operations, self.schedule.cost_ns(slot.cell)));
        let outcome = self.watching.batch(round, many, &mut |n| bench.batch(slot.cell, n, recorder));
        if let Err(ended @ Failure::PeerEnded { .. }) = outcome {
            let mut ledger = self.ledger.open();
            ledger.failures[slot.cell] = Some(ended);
            ledger.ended_ns = now_ns(Clock::Monotonic);
            return Err(Ended);
        }
        let spoilt = self.spoilt(slot, &before, &outcome, applied, recorder);
        let ends = linux::stop::requested();
        if outcome == Err(Failure::Stopped) {
            // A break may be why the time is over.
            if let Some(why @ Spoilt::Broken(_)) = spoilt.filter(|_| !ends) {
                self.leave_out(slot.cell, why)?;
            }
            return Err(Ended);
        }
        match spoilt {
            // Ending a run may free its threads from their CPUs: then no other program took a condition away. And timeout(1) continues the
            // program that it ends (SIGCONT), which is no stop.
            Some(_) if ends => return Err(Ended),
            Some(why) => return Ok(Done::Spoilt(why)),
            None => {}
        }
        match outcome {
            Ok(usage) => {
                self.schedule.learn(slot.cell, usage.elapsed_ns as f64 / slot.operations.max(1) as f64);
                Ok(Done::Measured(usage))
            }
            Err(failure) => {
                self.ledger.open().failures[slot.cell] = Some(failure);
                Ok(Done::GivenUp)
            }
        }
    }

    /// Why the batch since `before` does not count. A failure counts as one only if nothing was lost: a stop, too,
    /// ends some calls early.
    fn spoilt(
        &self,
        slot: Slot,
        before: &Look,
        outcome: &Result<Usage, Failure>,
        applied: &Applied,
        recorder: &Recorder,
    ) -> Option<Spoilt> {
        let expected_ns = (self.schedule.cost_ns(slot.cell) * slot.operations as f64) as u64;
        let largest_ns = recorder.extremes().map_or(0, |(_, max)| max);
        let theirs = match outcome {
            Err(Failure::Lost(theirs)) => theirs.as_slice(),
            _ => &[],
        };
        self.hold(slot.variant).spoilt((applied, self.base), before, (expected_ns, largest_ns), theirs)
    }

    fn hold(&self, variant: usize) -> Hold {
        let ledger = self.ledger.open();
        let refused = ledger.held[variant].as_ref().map(|held| held.refused.clone()).unwrap_or_default();
        let label = self.request.variants[variant].label.clone();
        Hold { label, refused, guest_cpus: ledger.guest_cpus, look: self.look }
    }

    /// Enters a batch that does not count. The loss of a required condition ends the run.
    fn leave_out(&self, cell: usize, why: Spoilt) -> Result<(), Ended> {
        let mut ledger = self.ledger.open();
        if matches!(why, Spoilt::Broken(_)) {
            ledger.broken.insert(cell);
        }
        ledger.left_out.add(&why, now_ns(Clock::Monotonic));
        match why {
            Spoilt::Lost(mut lost) if self.request.require && !lost.is_empty() => {
                ledger.not_kept = Some(lost.swap_remove(0));
                Err(Ended)
            }
            _ => Ok(()),
        }
    }

    /// Lets the time of a round pass, so that a condition may hold again in a later one.
    fn wait_a_round(&self, round: u32, course: Course) -> Result<(), Ended> {
        let share = course.left() / self.schedule.rounds().saturating_sub(round).max(1);
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
        let (doing, detail) = (self.bench.doing(cell), self.bench.detail(cell));
        if self.stage.pause(Progress { doing, detail, done, left }) { Ok(()) } else { Err(Ended) }
    }

    /// Whether the variant, as the kernel granted it, is worth measuring.
    fn judge(&self, applied: &Applied) -> Held {
        let refused = applied.refused.clone();
        let left_out = !refused.is_empty() && (self.request.variants.len() > 1 || self.request.require);
        // Only the base's guard can read some conditions, such as interrupts. They are part of the variant too.
        Held { applied: applied.guard.applied().over(&self.base.applied()), refused, left_out }
    }
}

/// Time since a reading of the clock.
pub(super) fn since(begin_ns: i64) -> Duration {
    Duration::from_nanos((now_ns(Clock::Monotonic) - begin_ns).unsigned_abs())
}

/// The beginning and the planned duration of the rounds.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) begin_ns: i64,
    pub(super) total: Duration,
}

impl Course {
    pub(super) fn gone(&self) -> Duration {
        since(self.begin_ns)
    }

    pub(super) fn left(&self) -> Duration {
        self.total.saturating_sub(self.gone())
    }

    pub(super) fn done(&self) -> f64 {
        (self.gone().as_secs_f64() / self.total.as_secs_f64().max(1e-9)).min(1.0)
    }
}

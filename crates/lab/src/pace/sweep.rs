//! The highest rate that each way holds.
//!
//! A way *holds* a rate when what it reached is within 1 % of it and the 99th percentile of lateness is within the bound. The rate is doubled
//! until that fails, then the gap is halved (geometrically) until it is below 5 %. The ways take turns, one trial each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::Rate;
use punctual::conditions::{Conditions, Guard};
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::{Notice, Param, Quantity, Recorder, SeriesTally, Usage};

use super::bench::{PaceBench, Reception};
use super::plan::{Goal, Plan};
use super::stand::Counts;
use super::{Error, identity, not_measured, say_reception};
use crate::breaks::Look;
use crate::hold::Hold;
use crate::rounds::{self, Failure};
use crate::schedule::Amount;
use crate::stage::{Progress, Stage};
use crate::{Session, family};

/// The rate must be reached to within this share.
const HELD: f64 = 0.01;
/// The highest rate held is told apart from the lowest one not held to within this factor.
const FINE: f64 = 1.05;
/// Shortest trial: enough events for a percentile, and long enough that one bad moment of the machine is not all of it.
const SHORTEST: Duration = Duration::from_millis(40);
/// Fewest events of a trial.
const FEWEST: u64 = 200;
/// Trials that one search takes at most, doubling and halving, for dividing the time.
const TRIALS: u32 = 15;
/// A rate that failed is tried so often again: a moment's disturbance is no limit.
const SECOND_CHANCES: u32 = 2;

/// Trials that may be left out, of all ways under one set of conditions.
const MOST_SPOILT: u32 = 20;

/// The search of one way.
#[derive(Debug, Default)]
pub(super) struct Search {
    held: Option<f64>,
    failed: Option<f64>,
    chances: u32,
    why: String,
    best: SeriesTally,
    reached: f64,
    failure: Option<Failure>,
}

impl Search {
    /// The rate to try next; none: the search is over.
    fn next(&self, from: f64, to: f64) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        match (self.held, self.failed) {
            (None, None) => Some(from),
            (Some(held), None) if held >= to => None,
            (Some(held), None) => Some((held * 2.0).min(to)),
            (Some(held), Some(failed)) if failed / held > FINE => Some((held * failed).sqrt()),
            _ => None,
        }
    }

    /// Takes in how a trial ended: why the rate was not held, if it was not.
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
}

pub(super) fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = Arc::new(plan);
    let ledger = rounds::ledger(session, plan.cells.len(), plan.wanted.variants.len());
    let searches: Arc<Mutex<Vec<Search>>> =
        Arc::new(Mutex::new(plan.cells.iter().map(|_| Search::default()).collect()));
    let beside = Arc::new(Mutex::new(Vec::new()));
    let done = session.perform(plan.place(), {
        let (plan, ledger, searches) = (Arc::clone(&plan), Arc::clone(&ledger), Arc::clone(&searches));
        move |stage| {
            stage.announce(trial_time(&plan).1);
            let (mut bench, reception) = PaceBench::open(&plan, &beside);
            let mut guard = Conditions { one_way: true, ..plan.wanted.base.clone() }.apply();
            let refused = guard.refused().to_vec();
            if !plan.wanted.require || refused.is_empty() {
                search_all(&plan, (&mut bench, &mut guard), &ledger, &searches, stage);
            }
            family::put_back(guard, &ledger);
            (refused, reception)
        }
    })?;
    let ledger = std::mem::take(&mut *rounds::open(&ledger));
    let searches = std::mem::take(&mut *lock(&searches));
    let (refused, reception) = done.unwrap_or((Vec::new(), Reception::Own));
    let wanted = &plan.wanted;
    let met = family::report_conditions(&wanted.variants, &wanted.base, wanted.require, &ledger, &refused, session);
    say_reception(&reception, session);
    for (cell, search) in searches.iter().enumerate() {
        report(&plan, cell, search, session);
    }
    family::close(ledger, session);
    Ok(met?)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// All searches of all variants; those of one variant take turns.
fn search_all(
    plan: &Plan,
    (bench, base): (&mut PaceBench<'_>, &mut Guard),
    ledger: &rounds::SharedLedger,
    searches: &Mutex<Vec<Search>>,
    stage: &Stage,
) {
    let Goal::Highest { from, to, within } = plan.wanted.goal else { return };
    let (from, to) = (from.per_second_f64(), to.per_second_f64());
    let begin = now_ns(Clock::Monotonic);
    let (trial, total) = trial_time(plan);
    for (variant, conditions) in plan.wanted.variants.iter().enumerate() {
        let mut guard = conditions.conditions.apply();
        let refused = guard.refused().to_vec();
        let left_out = !refused.is_empty() && (plan.wanted.variants.len() > 1 || plan.wanted.require);
        rounds::open(ledger).held[variant] = Some(rounds::Held { applied: guard.applied().clone(), refused, left_out });
        let cells: Vec<usize> = (0..plan.cells.len()).filter(|&c| plan.cells[c].1 == variant && !left_out).collect();
        let hold = Hold::of(ledger, variant, &conditions.label, Look::now);
        let mut spoilt = 0;
        let mut busy = true;
        while busy {
            busy = false;
            for &cell in &cells {
                let Some(rate) = lock(searches)[cell].next(from, to) else { continue };
                busy = true;
                let gone = Duration::from_nanos((now_ns(Clock::Monotonic) - begin).unsigned_abs());
                let doing = format!("{} at {rate:.0} events a second", plan.wanted.ways[plan.cells[cell].0].name);
                let done = (gone.as_secs_f64() / total.as_secs_f64()).min(1.0);
                if !stage.pause(Progress { doing, done, left: total.saturating_sub(gone) }) {
                    return;
                }
                // What is refused is still lost, as will be seen.
                let _ = hold.renew(&mut guard, base);
                let before = Look::now();
                let tried = match try_rate(plan, bench, cell, rate, trial) {
                    Err(Failure::Stopped) => return,
                    tried => tried,
                };
                match hold.spoilt((&guard, base), &before, (trial.as_nanos() as u64, 0), &[]) {
                    Some(why) => {
                        // The same rate is tried again; what is spoilt again and again is not measured.
                        spoilt += 1;
                        if spoilt > MOST_SPOILT {
                            lock(searches)[cell].failure = Some(Failure::again_and_again(&why));
                        }
                        if rounds::leave_out(ledger, why, plan.wanted.require) {
                            return;
                        }
                    }
                    None => enter(&mut lock(searches)[cell], rate, within, tried),
                }
            }
        }
        family::put_back(guard, ledger);
    }
}

/// How long a trial takes, and all of them.
fn trial_time(plan: &Plan) -> (Duration, Duration) {
    let trials = plan.cells.len() as u32 * TRIALS;
    let total = match plan.wanted.amount {
        Amount::Time(total) => total,
        Amount::Samples(_) => SHORTEST * trials,
    };
    ((total / trials.max(1)).max(SHORTEST), total.max(SHORTEST * trials))
}

/// What a trial brought.
type Tried = Option<(Recorder, Usage, Counts)>;

/// One trial. None: the rate is none.
fn try_rate(plan: &Plan, bench: &mut PaceBench<'_>, cell: usize, rate: f64, trial: Duration) -> Result<Tried, Failure> {
    let Ok(exact) = Rate::hertz(rate.round().max(1.0)) else { return Ok(None) };
    let wanted = match plan.wanted.amount {
        Amount::Samples(samples) => samples,
        Amount::Time(_) => (rate * trial.as_secs_f64()) as u64,
    };
    let mut recorder = Recorder::new();
    let (usage, counts, _) = bench.trial(plan.cells[cell].0, exact, wanted.max(FEWEST), &mut recorder)?;
    Ok(Some((recorder, usage, counts)))
}

/// Enters a trial that counts.
fn enter(search: &mut Search, rate: f64, within: Duration, tried: Result<Tried, Failure>) {
    let (recorder, usage, counts) = match tried {
        Err(failure) => {
            search.failure = Some(failure);
            return;
        }
        Ok(None) => return,
        Ok(Some(tried)) => tried,
    };
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
        search.best = SeriesTally::new();
        search.best.add_round(0, 0, &recorder, usage);
        search.reached = reached;
    }
    search.take(rate, why_not);
}

fn report(plan: &Plan, cell: usize, search: &Search, session: &mut Session<'_>) {
    if let Some(Failure::Impossible { why, remedy }) = &search.failure {
        session.add_not_measured(not_measured(plan, cell, why.clone(), remedy.clone()));
        return;
    }
    let Goal::Highest { from, to, within } = plan.wanted.goal else { return };
    let Some(held) = search.held else {
        if search.failed.is_some() {
            let why = format!("not even the lowest rate was held: {}", search.why);
            session.add_not_measured(not_measured(plan, cell, why, Some("sweep from a lower rate".into())));
        } else if !session.stopped() {
            session.notice(Notice::Other { text: "a way was left out of the sweep".into() });
        }
        return;
    };
    let rate = Rate::hertz(held.round().max(1.0)).unwrap_or(from);
    let mut series = search.best.to_series(identity(plan, cell, rate, Quantity::Lateness, "departure"));
    series.parameters.insert("sweep_to_per_second".into(), Param::Real(to.per_second_f64()));
    series.parameters.insert("within_ns".into(), Param::Int(within.as_nanos() as i64));
    let mut outcome = BTreeMap::from([
        ("highest_rate_held".to_owned(), Param::Real(held)),
        ("rate_reached".to_owned(), Param::Real(search.reached)),
    ]);
    if let Some(failed) = search.failed {
        outcome.insert("rate_not_held".into(), Param::Real(failed));
        outcome.insert("why_not_higher".into(), Param::Text(search.why.clone()));
    }
    series.outcome = outcome;
    session.add_series(series);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for the limit of a way that holds everything up to `limit`.
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
}

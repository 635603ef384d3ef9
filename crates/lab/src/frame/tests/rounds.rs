//! The runner with a bench that loses its conditions, has the clock set, or is stopped, as each test requests.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::conditions::Conditions;
use punctual_linux as linux;
use punctual_linux::sched::{set_timer_slack_ns, timer_slack_ns};
use punctual_record::{PauseCause, Recorder, Usage};
use punctual_testing::in_a_process_of_its_own;

use crate::frame::breaks::{Break, Look, Offset};
use crate::frame::family::WithExtras;
use crate::frame::places::Place;
use crate::frame::rounds::Rounds;
use crate::frame::schedule::{CellCost, Schedule};
use crate::frame::stage::{OfRun, perform};
use crate::frame::watch::Watching;
use crate::frame::{Amount, Bench, Failure, Ledger, Portion, Request, Shared, Silent, Stop, Unavailable, Variant};

const SLACK_NS: u64 = 123_456;

thread_local! {
    /// The offset of the wall clock.
    static SET_BY_NS: Cell<i64> = const { Cell::new(0) };
    static CONTINUED: Cell<bool> = const { Cell::new(false) };
}

/// Clocks that nothing but the test sets.
fn look() -> Look {
    let [realtime, boottime] = [SET_BY_NS.get(), 0].map(|ns| Offset { least_ns: ns, most_ns: ns });
    Look { realtime, boottime, continued: CONTINUED.replace(false), ..Look::now() }
}

/// Events in a batch.
#[derive(Clone, Copy, PartialEq)]
enum Happens {
    Nothing,
    SlackLost,
    /// The end of a run that moves its threads off their CPUs.
    SlackLostByAStop,
    ClockSet,
    /// The process is stopped, which also ends the call early.
    Stopped,
    /// The end of a run by timeout(1), which continues the program.
    ContinuedByAStop,
    Failed,
}

/// What the bench observed.
#[derive(Default)]
struct Seen {
    /// The slack at the beginning of each batch, the pilot's first.
    slack_ns: Vec<u64>,
    /// Which batches counted.
    kept: Vec<usize>,
}

struct Fake {
    script: fn(usize) -> Happens,
    seen: Arc<Mutex<Seen>>,
}

impl Bench for Fake {
    /// Batches that count.
    type Extra = u32;

    fn doing(&self, _: usize) -> String {
        "pretending".into()
    }

    fn batch(&mut self, _: usize, operations: u64, into: &mut Recorder) -> Result<Usage, Failure> {
        let number = {
            let slack_ns = &mut self.seen.lock().unwrap().slack_ns;
            slack_ns.push(timer_slack_ns().unwrap());
            slack_ns.len() - 1
        };
        (0..operations).for_each(|_| into.record(1_000));
        let failure = || Failure::Impossible(Unavailable::because("interrupted"));
        match (self.script)(number) {
            Happens::Nothing => {}
            Happens::SlackLost => set_timer_slack_ns(SLACK_NS / 2).unwrap(),
            Happens::SlackLostByAStop => {
                set_timer_slack_ns(SLACK_NS / 2).unwrap();
                linux::stop::request();
            }
            Happens::ClockSet => SET_BY_NS.set(SET_BY_NS.get() - 6_000_000_000),
            Happens::Stopped => {
                CONTINUED.set(true);
                return Err(failure());
            }
            Happens::ContinuedByAStop => {
                CONTINUED.set(true);
                linux::stop::request();
                return Err(Failure::Stopped);
            }
            Happens::Failed => return Err(failure()),
        }
        Ok(Usage { elapsed_ns: operations * 1_000, ..Usage::default() })
    }

    fn keep(&mut self, _: usize, _: (u32, u64), extra: &mut u32) {
        *extra += 1;
        let mut seen = self.seen.lock().unwrap();
        let last = seen.slack_ns.len() - 1;
        seen.kept.push(last);
    }
}

/// Five rounds of 20 samples; the slack is a condition of the run or of the variant.
fn performed(in_base: bool, require: bool, script: fn(usize) -> Happens) -> (Ledger, Seen) {
    let ledger = Shared::new(Ledger::empty(1, 1));
    let extras = Shared::new(vec![0]);
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (theirs, their_extras) = (ledger.clone(), extras.clone());
    let mut bench = Fake { script, seen: Arc::clone(&seen) };
    let of_run = &mut OfRun { observer: &mut Silent, portion: Portion::default(), so_far: None };
    let outcome = perform(&Stop::default(), of_run, (&Place::default(), Duration::ZERO), move |stage| {
        let slack = Conditions::new().timer_slack(Duration::from_nanos(SLACK_NS));
        let (base, variant) = if in_base { (slack, Conditions::new()) } else { (Conditions::new(), slack) };
        let as_asked = Request::as_found(Amount::Samples(100), 5);
        let request = Request { variants: vec![Variant::new(variant)], require, ..as_asked };
        let schedule = Schedule::new(request.amount, 5, [CellCost { ideal_ns: 1e3, expected_ns: 1e3 }]);
        let (bench, request, variant_of, base) =
            (&mut WithExtras { bench: &mut bench, extras: their_extras }, &request, vec![0], &mut base.apply().guard);
        let watching = Watching::default();
        Rounds { bench, schedule, request, variant_of, ledger: theirs, stage, base, look, watching }.perform();
    });
    outcome.unwrap();
    let ledger = ledger.replace(Ledger::empty(1, 1));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(extras.replace(vec![0]), [seen.kept.len() as u32], "what is beside the samples counts with them");
    (ledger, seen)
}

fn only(number: usize, which: usize, what: Happens) -> Happens {
    if number == which { what } else { Happens::Nothing }
}

#[test]
fn a_batch_that_lost_a_condition_is_left_out_and_repeated_with_it() {
    for in_base in [true, false] {
        let (ledger, seen) = performed(in_base, false, |number| only(number, 3, Happens::SlackLost));
        assert_eq!((ledger.tallies[0].count(), ledger.tallies[0].rounds().len()), (100, 5));
        assert_eq!(seen.kept, [1, 2, 4, 5, 6], "the third batch does not count, the pilot's neither");
        assert_eq!(seen.slack_ns, [SLACK_NS; 7], "it was set again before the next batch");
        let label = if in_base { "as found" } else { "slack 123456 ns" };
        let lost = ledger.left_out.lost_of(label).unwrap_or_else(|| panic!("{:?}", ledger.left_out));
        assert_eq!(
            (lost.condition.as_str(), lost.set.as_str(), lost.found.as_str()),
            ("timer-slack", "123456ns", "61728ns")
        );
        assert!(ledger.complete && ledger.not_kept.is_none());
    }
}

#[test]
fn a_lost_condition_that_is_required_ends_the_run_and_keeps_what_was_measured() {
    let (ledger, seen) = performed(true, true, |number| only(number, 3, Happens::SlackLost));
    let lost = ledger.not_kept.unwrap();
    assert_eq!((ledger.tallies[0].count(), ledger.complete), (40, false));
    assert_eq!(seen.kept, [1, 2]);
    let said = lost.to_string();
    for word in ["timer-slack", "123456ns", "61728ns", "timerslack_ns"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn what_is_lost_again_and_again_is_not_measured_and_says_why() {
    let (ledger, seen) = performed(true, false, |_| Happens::SlackLost);
    assert_eq!((ledger.tallies[0].count(), seen.kept.len()), (0, 0));
    let Some(Failure::Impossible(Unavailable { why, remedy })) = &ledger.failures[0] else {
        panic!("{:?}", ledger.failures)
    };
    assert!(why.contains("timer-slack was set to 123456ns") && remedy.is_some(), "{why}");
}

#[test]
fn a_batch_in_which_the_clock_was_set_is_left_out_and_repeated() {
    let (ledger, seen) = performed(true, false, |number| only(number, 2, Happens::ClockSet));
    assert_eq!((ledger.tallies[0].count(), seen.kept), (100, vec![1, 3, 4, 5, 6]));
    assert_eq!(ledger.left_out.last_break(), Some(Break::Stepped { by_ns: -6_000_000_000 }));
}

#[test]
fn a_method_without_a_turn_is_not_said_to_lack_samples_by_a_break_in_another() {
    let mut ledger = Ledger { broken: [0].into(), ..Ledger::empty(2, 1) };
    ledger.give_reasons(|_| "as found");
    assert!(matches!(ledger.failures.as_slice(), [Some(Failure::Impossible(_)), None]), "{:?}", ledger.failures);
}

#[test]
fn a_call_that_a_stop_ended_early_has_not_failed_and_another_has() {
    let (ledger, seen) = performed(true, false, |number| only(number, 2, Happens::Stopped));
    assert_eq!((ledger.tallies[0].count(), seen.kept), (100, vec![1, 3, 4, 5, 6]));
    assert_eq!(ledger.failures, [None]);
    assert!(matches!(ledger.left_out.last_break(), Some(Break::Paused { cause: PauseCause::Stopped, .. })));
    let (ledger, seen) = performed(true, false, |number| only(number, 2, Happens::Failed));
    assert_eq!((ledger.tallies[0].count(), seen.kept), (20, vec![1]));
    assert!(ledger.failures[0].is_some() && ledger.left_out.last_break().is_none());
}

/// A request to stop applies to the whole process, so this test runs in one of its own.
#[test]
fn a_condition_that_the_end_of_the_run_took_away_is_not_lost() {
    if !in_a_process_of_its_own("frame::tests::rounds::a_condition_that_the_end_of_the_run_took_away_is_not_lost") {
        return;
    }
    let (ledger, seen) = performed(true, true, |number| only(number, 3, Happens::SlackLostByAStop));
    assert_eq!(seen.kept, [1, 2], "the batch that the end came into does not count");
    assert!(ledger.left_out.lost_of("as found").is_none(), "{:?}", ledger.left_out);
}

#[test]
fn a_continuation_that_comes_with_the_end_of_the_run_is_no_stop() {
    if !in_a_process_of_its_own("frame::tests::rounds::a_continuation_that_comes_with_the_end_of_the_run_is_no_stop") {
        return;
    }
    let (ledger, _) = performed(true, false, |number| only(number, 1, Happens::ContinuedByAStop));
    assert_eq!((ledger.left_out.last_break(), ledger.failures), (None, vec![None]));
}

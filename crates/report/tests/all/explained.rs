//! The first sentence of a check-up. It names the causes that watched wake-ups show. With other data it must not name
//! them.

use punctual_record::{Cause, CauseSource, Causes, LatePart, Notice, Run, Unseen};
use punctual_report::export::{Reported, text};
use punctual_report::{Document, Style, Verdict};

use crate::common::causes::{cause, causes, redis, sleep, spread};
use crate::common::{Made, run, set};
use crate::forms::written;

/// A check-up whose sleep is 74 µs late as found, and this late with a slack of 1 ns.
pub(crate) fn checkup(without_slack: i64) -> Run {
    let (found, less) = ("SCHED_OTHER", "SCHED_OTHER, slack 1 ns");
    let sets = vec![set(found, "other", None, 50_000), set(less, "other", Some(1), 1)];
    let call = "clock_nanosleep_abs";
    let made =
        [Made::sleep(call, found, 74_000), Made::sleep(call, less, without_slack), Made::spin("spin_clock", found, 40)];
    let mut run = run(&["punctual", "checkup"], sets, &made);
    run.causes = Some(causes(vec![sleep(100_000)]));
    run
}

fn first(run: &Run) -> String {
    Verdict::from_run(run).answer[0].replace('\u{a0}', " ")
}

/// The check-up with other causes.
fn with(change: impl FnOnce(&mut Causes)) -> String {
    let mut run = checkup(24_000);
    change(run.causes.as_mut().unwrap());
    first(&run)
}

const COMPARED: &str = "; 50.0 µs of it is timer slack.";

#[test]
fn the_causes_of_watched_wake_ups_are_in_the_first_sentence() {
    let said = first(&checkup(24_000));
    assert!(said.starts_with("A sleep of 100 µs ends 74.0 µs late here (p99 "), "{said}");
    assert!(said.ends_with("): 50.0 µs of it is timer slack, 12.0 µs is leaving idle state C1."), "{said}");
}

#[test]
fn json_has_the_same_sentence() {
    let run = checkup(24_000);
    let said = first(&run);
    let json: serde_json::Value = serde_json::from_str(&written(Reported::write_json, &run)).unwrap();
    assert_eq!(json["answer"][0].as_str().unwrap().replace('\u{a0}', " "), said);
    assert_eq!(json["causes"]["calls"][0]["nominal_ns"], 100_000, "the evidence");
}

#[test]
fn the_first_screen_is_a_screen() {
    let mut run = checkup(24_000);
    let screen = text::head(&Document::from_run(&run), &Style { width: 80, ..Style::default() }, 23);
    assert!(screen.lines().count() <= 23 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    // A cause with the longest name.
    let calls = &mut run.causes.as_mut().unwrap().calls;
    calls[0].causes[1] =
        cause(LatePart::RunQueue, Cause::InterruptsOff, Some("a-worker-with-a-long-name/1:2-and-its-queue"), 12_000);
    let screen = text::head(&Document::from_run(&run), &Style { width: 80, ..Style::default() }, 23);
    assert!(screen.contains("a-worker") && screen.lines().count() <= 23, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

/// What cannot be shown is said as the comparison of waits shows it.
#[test]
fn without_evidence_the_sentence_is_that_of_the_comparison() {
    let said = |text: String| assert!(text.ends_with(COMPARED), "{text}");
    said(with(|causes| causes.calls[0].late.count = 99));
    said(with(|causes| {
        causes.split = 0;
        causes.calls[0].late = spread(0, 0);
        causes.calls[0].causes.clear();
    }));
    // Fewer than half were split: these may be others than most.
    said(with(|causes| causes.calls[0].blocked = 2_100));
    said(with(|causes| causes.calls.clear()));
    said(with(|causes| causes.calls[0].nominal_ns = Some(1_000_000)));
    said(with(|causes| causes.program = Some(redis())));
    said(with(|causes| causes.source = CauseSource::RunDelay));
    said(with(|causes| causes.calls[0].causes.iter_mut().for_each(|cause| cause.stretches_ns.truncate(4))));
    // Few rounds: neither the causes nor the comparison are shown.
    let mut few = checkup(24_000);
    few.series.iter_mut().for_each(|series| series.rounds.truncate(4));
    assert!(first(&few).ends_with(')') || first(&few).ends_with(")."), "{}", first(&few));
}

#[test]
fn a_refusal_leaves_the_comparison_and_says_what_would_allow_more() {
    let mut run = checkup(24_000);
    run.causes = None;
    let plain = crate::forms::shown(&run, &Style::default());
    assert!(first(&run).ends_with(COMPARED) && !plain.contains("causes"), "{plain}");
    let (why, remedy) = ("causes of late wake-ups: reading tracefs: permission denied", "run as root (CAP_PERFMON)");
    // As older files have it, and as newer ones.
    let older = Unseen { why: why.into(), remedy: Some(remedy.into()), ..Unseen::default() };
    let (what, because) = why.split_once(": ").unwrap();
    let newer = Unseen { what: what.into(), why: because.into(), ..older.clone() };
    assert_eq!(older.text(), newer.text());
    run.notices = vec![Notice::Unseen(older)];
    assert_eq!(Verdict::from_run(&run).untried[0].what, what);
    run.notices = vec![Notice::Unseen(newer)];
    assert!(first(&run).ends_with(COMPARED), "{}", first(&run));
    assert_eq!(Verdict::from_run(&run).untried[0].to_string(), format!("{why}. To allow it: {remedy}."));
    let screen = text::head(&Document::from_run(&run), &Style { width: 80, ..Style::default() }, 23);
    let line = "Could not be tried: causes of late wake-ups. For the causes: run as root (CAP_PERFMON).";
    assert!(screen.split_whitespace().collect::<Vec<_>>().join(" ").contains(line), "{screen}");
    assert!(screen.lines().count() <= 23, "{screen}");
}

#[test]
fn a_cause_that_scatters_or_is_rare_is_not_named() {
    let idle = "leaving idle state";
    assert!(with(|_| ()).contains(idle));
    // Its time varies by more than itself from stretch to stretch.
    let scattered = with(|causes| causes.calls[0].causes[1].stretches_ns = vec![0.0, 40e3, 0.0, 41e3, 39e3, 0.0]);
    assert!(scattered.ends_with("): 50.0 µs of it is timer slack."), "{scattered}");
    // One in seven wake-ups lacks it: it is no part of the median.
    let rare = with(|causes| causes.calls[0].causes[1].time.count = 850);
    assert!(!rare.contains(idle), "{rare}");
    let small = with(|causes| causes.calls[0].causes[1].time.p50_ns = 7_000);
    assert!(!small.contains(idle), "a tenth of the lateness explains little: {small}");
    // The median itself varies by more between rounds.
    let mut run = checkup(24_000);
    for (round, by) in run.series[0].rounds.iter_mut().zip([0, 30, -28, 5, 33, -31, 29, 0, -30, 27]) {
        round.summary.p50 = round.summary.p50.map(|ns| ns + by * 1_000);
    }
    assert!(!first(&run).contains(idle), "{}", first(&run));
}

#[test]
fn slack_is_named_only_where_there_is_some() {
    let mut run = checkup(74_000);
    let calls = &mut run.causes.as_mut().unwrap().calls;
    calls[0].causes[0] = cause(LatePart::RunQueue, Cause::OtherThread, Some("cc1"), 50_000);
    let said = first(&run);
    assert!(
        said.ends_with("): 53.0 µs of it passes while other threads run (cc1 most), 12.0 µs is leaving idle state C1."),
        "{said}"
    );
    assert!(!said.contains("slack"), "{said}");
}

#[test]
fn a_comparison_that_contradicts_the_causes_is_said() {
    let said = |without_slack| first(&checkup(without_slack));
    assert!(!said(24_000).contains("alone"));
    assert!(said(50_000).ends_with(" Less slack alone gains 23.9 µs."), "{}", said(50_000));
    assert!(said(74_000).ends_with(" Less slack alone shows no gain."), "{}", said(74_000));
    // Without slack among the causes, a gain of less slack contradicts them too.
    let mut run = checkup(24_000);
    run.causes.as_mut().unwrap().calls[0].causes.remove(0);
    assert!(first(&run).contains(" Less slack alone gains "), "{}", first(&run));
}

#[test]
fn watched_wake_ups_that_are_unlike_the_measured_ones_are_said_apart() {
    let said = with(|causes| causes.calls[0].late.p50_ns = 140_000);
    assert!(said.contains("); when watched, 140 µs: 50.0 µs of that is timer slack, 12.0 µs"), "{said}");
    assert!(!with(|causes| causes.calls[0].late.p50_ns = 77_000).contains("when watched"), "watching adds a little");
}

#[test]
fn several_culprits_and_parts_are_one_cause() {
    let half = |name, each| {
        let mut one = cause(LatePart::TimerInterrupt, Cause::IdleState, Some(name), each);
        one.time.count = 500;
        one
    };
    let said = with(|causes| {
        let all = &mut causes.calls[0].causes;
        all.remove(1);
        all.extend([half("C1", 10_000), half("C2", 30_000)]);
    });
    assert!(said.ends_with("20.0 µs is leaving idle states (C2 most)."), "{said}");
    let said = with(|causes| {
        let all = &mut causes.calls[0].causes;
        all.push(cause(LatePart::Return, Cause::TimerPath, None, 13_000));
    });
    assert!(said.ends_with("15.0 µs is the kernel's timer path."), "{said}");
}

#[test]
fn other_commands_answer_as_before() {
    let mut run = checkup(24_000);
    run.subcommand = "wait".into();
    assert!(Verdict::from_run(&run).answer[1].contains("late on average"), "{:?}", Verdict::from_run(&run).answer);
    assert!(first(&run).ends_with(COMPARED), "{}", first(&run));
}

//! The verdict on runs made by hand: what is advised, what is not, and what must not be said.

use punctual_record::{Notice, Run};
use punctual_report::export::Reported;
use punctual_report::verdict::{Advice, Level, Standing};
use punctual_report::{Document, Style, Verdict};

use crate::common::{Made, few_rounds, lever_run, remedies_run, run, set};
use crate::forms::written;

fn named<'v>(all: &'v [Advice], what: &str) -> Option<&'v Advice> {
    all.iter().find(|advice| advice.what == what)
}

fn head(run: &Run, columns: usize) -> String {
    let style = Style { width: columns, ..Style::default() };
    punctual_report::export::text::head(&Document::from_run(run), &style, 23)
}

#[test]
fn the_largest_gain_for_its_price_comes_first_and_equals_are_one() {
    let verdict = Verdict::from_run(&remedies_run(52_100, 52_100, 30_000));
    let order: Vec<&str> = verdict.advice.iter().map(|advice| advice.what.as_str()).collect();
    assert_eq!(order, ["slack 1 ns", "C-states off", "spin_counter"]);
    let slack = &verdict.advice[0];
    let equal: Vec<&str> = slack.equal.iter().map(|variant| variant.what.as_str()).collect();
    assert_eq!(equal, ["SCHED_FIFO 40"], "a timerfd is as late as found here");
    assert_eq!(slack.equal[0].price.privilege.as_deref(), Some("CAP_SYS_NICE"));
    let text = slack.text().replace('\u{a0}', " ");
    assert!(text.contains("and at p99, within 1.63 µs: SCHED_FIFO 40 (CAP_SYS_NICE)."), "{text}");
    assert_eq!(slack.code.c.as_deref(), Some("#include <sys/prctl.h>\nprctl(PR_SET_TIMERSLACK, 1UL);"));
    let gain = slack.best().and_then(|case| case.p50.better()).expect("a gain");
    assert!((48_000..50_500).contains(&gain.ns) && gain.low_ns > 40_000, "{gain:?}");
}

#[test]
fn what_changes_nothing_or_makes_it_worse_is_no_advice() {
    let verdict = Verdict::from_run(&remedies_run(60_000, 52_100, 52_100));
    assert!(named(&verdict.advice, "memory locked").is_none());
    assert!(named(&verdict.advice, "CPU 1").is_none());
    let standing = |what| named(&verdict.tried, what).map(|advice| advice.standing);
    assert_eq!(standing("memory locked"), Some(Standing::NoDifference));
    assert_eq!(standing("CPU 1"), Some(Standing::Worse));
}

/// Too few rounds for a test: nothing is advised, and nothing is said to make no difference.
#[test]
fn not_tested_is_not_no_difference() {
    let run = few_rounds(remedies_run(60_000, 52_100, 20_000));
    let verdict = Verdict::from_run(&run);
    assert!(verdict.advice.is_empty(), "{:?}", verdict.advice);
    for advice in &verdict.tried {
        assert_eq!(advice.standing, Standing::NotTested, "{}", advice.what);
        assert!(advice.text().contains("not tested") && !advice.text().contains("no difference"), "{}", advice.text());
    }
    let text = head(&run, 80);
    assert!(!text.contains("timer slack") && !text.contains("no difference"), "{text}");
}

#[test]
fn slack_is_a_cause_only_where_less_of_it_helps() {
    let said = |run: &Run| Verdict::from_run(run).answer[0].contains("timer slack");
    assert!(said(&lever_run(&["punctual", "wait"])));
    let sets = || vec![set("slack 50 us", "other", None, 50_000), set("slack 1 ns", "other", Some(1), 1)];
    let with = |median| {
        let call = "clock_nanosleep_abs";
        run(
            &["punctual", "wait"],
            sets(),
            &[Made::sleep(call, "slack 50 us", 52_000), Made::sleep(call, "slack 1 ns", median)],
        )
    };
    assert!(said(&with(4_000)));
    assert!(!said(&with(52_000)), "no difference");
    assert!(!said(&with(60_000)), "worse");
}

#[test]
fn a_busy_machine_is_the_first_thing_to_say() {
    let mut busy = remedies_run(52_100, 52_100, 52_100);
    assert_eq!(Verdict::from_run(&busy).trust.level, Level::Good);
    assert!(head(&busy, 80).starts_with("A sleep of 100 µs ends"));
    busy.notices.push(Notice::Unsteady { series: 2, judged: 20 });
    assert_eq!(Verdict::from_run(&busy).trust.level, Level::Good);
    busy.notices.push(Notice::Unsteady { series: 6, judged: 10 });
    let fair = Verdict::from_run(&busy).trust;
    assert_eq!((fair.level, fair.busy), (Level::Fair, false));
    assert!(head(&busy, 80).contains("Trust: fair. 8 of 30 series drifted between rounds."));
    busy.notices.push(Notice::BusyMachine { share: 0.43 });
    let poor = Verdict::from_run(&busy).trust;
    assert_eq!((poor.level, poor.busy), (Level::Fair, true));
    let text = head(&busy, 80);
    assert!(text.trim_start().starts_with("Busy machine: "), "{text}");
    assert!(text.contains("Trust: fair. The machine was busy."), "{text}");
    assert!(poor.why.iter().any(|why| why.starts_with("8 of 30 series drifted")), "{poor:?}");
}

/// Three samples say nothing, however quiet the machine was. Neither do drift alone nor other programs make figures poor.
#[test]
fn trust_is_what_the_rounds_show() {
    let trust = |run: &Run| Verdict::from_run(run).trust;
    let good = remedies_run(52_100, 52_100, 52_100);
    assert_eq!((trust(&good).level, trust(&good).why.len()), (Level::Good, 0));
    let mut few = good.clone();
    for series in &mut few.series {
        series.rounds.clear();
        series.summary.count = 3;
    }
    assert_eq!(trust(&few).level, Level::Unknown);
    assert_eq!(trust(&few).why, ["At most 3 samples of a series: too few to tell."]);
    let mut drifting = good.clone();
    drifting.notices.push(Notice::Unsteady { series: 3, judged: 3 });
    assert_eq!(
        (trust(&drifting).level, trust(&drifting).why),
        (Level::Fair, vec!["3 of 3 series drifted between rounds.".to_owned()])
    );
    let mut wandering = good.clone();
    for series in &mut wandering.series {
        for round in &mut series.rounds {
            let times = if round.round < 5 { 1 } else { 4 };
            round.summary.p50 = round.summary.p50.map(|ns| ns * times);
        }
    }
    assert_eq!(trust(&wandering).level, Level::Poor);
    assert!(
        trust(&wandering).why[0].starts_with("Another run may find several times the p50."),
        "{:?}",
        trust(&wandering)
    );
    let unseen = Run { disturbance: Default::default(), ..good };
    assert_eq!((trust(&unseen).level, trust(&unseen).busy), (Level::Unknown, false));
}

#[test]
fn the_first_screen_is_a_screen() {
    for run in [remedies_run(20_000, 30_000, 10_000), lever_run(&["punctual", "checkup"])] {
        let text = head(&run, 80);
        assert!(text.lines().count() <= 23, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("  1 ") && text.contains("Trust: "), "{text}");
        for columns in [40, 60, 120] {
            assert!(head(&run, columns).lines().all(|line| line.chars().count() <= columns));
        }
    }
}

/// JSON has the advice, as the document has.
#[test]
fn json_has_the_same_advice() {
    let run = remedies_run(20_000, 52_100, 52_100);
    let text = written(Reported::write_json, &run);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let advice = json["advice"].as_array().unwrap();
    assert_eq!(advice.len(), Verdict::from_run(&run).advice.len());
    assert!(Run::from_slice(text.as_bytes()).unwrap() == run, "a reader ignores the verdict");
    assert_eq!(json["advice"][0]["cases"][0]["p50"]["outcome"], "better");
}

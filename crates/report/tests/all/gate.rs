//! Limits on a run: what is judged, and the verdict as every form says it.

use insta::assert_snapshot;
use punctual_record::{Experiment, Key, Limit, Quantity, Run};
use punctual_report::export::{self, text};
use punctual_report::gate::{self, Gate, Outcome};
use punctual_report::{Document, Style};

use crate::common::{Made, run, set};

fn limit(figure: Key, subject: Option<&str>, above_ns: i64) -> Limit {
    Limit { figure, subject: subject.map(str::to_owned), above_ns }
}

/// A method that is late, one with 20 samples, and one that is not late.
fn with(limits: Vec<Limit>) -> Run {
    let made = [
        Made::sleep("nanosleep", "SCHED_OTHER", 52_300),
        Made::sleep("sleep", "SCHED_OTHER", 52_300).count(20),
        Made::spin("spin_counter", "SCHED_OTHER", 33),
    ];
    Run { limits, ..run(&["punctual", "wait"], vec![set("SCHED_OTHER", "other", None, 50_000)], &made) }
}

fn outcome(run: &Run) -> Outcome {
    Gate::from_run(run).expect("limits").outcome
}

#[test]
fn limits_are_judged_and_what_cannot_be_is_said() {
    let run = with(vec![limit(Key::P99, None, 200_000), limit(Key::Mean, None, 10_000)]);
    let judgement = gate::evaluate(&run);
    assert_eq!((judgement.failed.len(), judgement.unjudged.len(), judgement.kept), (3, 1, 2));
    assert!(!judgement.all_kept());
    assert_snapshot!(text::phrases(judgement.phrases(), &Style::default()));
}

#[test]
fn a_percentile_of_too_few_samples_fails_where_a_lower_one_does() {
    let few = |above_ns| with(vec![limit(Key::P99, Some("sleep"), above_ns)]);
    assert_eq!(outcome(&few(1_000_000)), Outcome::Undecided, "the median keeps it: the percentile is not known");
    let failed = Gate::from_run(&few(1_000)).expect("limits");
    assert_eq!(failed.outcome, Outcome::Fail);
    assert!(
        failed.sentence.contains("p99 of sleep") && failed.sentence.contains("is at least 56.0"),
        "{}",
        failed.sentence
    );
}

#[test]
fn a_figure_equal_to_its_limit_keeps_it_and_nothing_judged_is_no_pass() {
    let most = with(Vec::new()).series[2].summary.max.expect("a largest");
    let exact = with(vec![limit(Key::Max, Some("spin_counter"), most)]);
    assert_eq!(outcome(&exact), Outcome::Pass);
    assert_eq!(outcome(&with(vec![limit(Key::Max, Some("spin_counter"), most - 1)])), Outcome::Fail);
    assert_eq!(outcome(&Run { series: Vec::new(), ..exact.clone() }), Outcome::Undecided);
    assert_eq!(Gate::from_run(&Run { limits: Vec::new(), ..exact }), None);
}

/// A fixed piece of work takes its time; it is not late.
#[test]
fn work_loops_and_costs_of_calls_are_judged_only_by_name() {
    for quantity in [Quantity::Loop, Quantity::CallCost, Quantity::Away, Quantity::Settling, Quantity::Response] {
        let judged = |limits| {
            let mut run = with(limits);
            run.series[2].quantity = quantity;
            run.series[2].experiment = Experiment::Ramp(punctual_record::Typed::default());
            gate::evaluate(&run)
        };
        let unnamed = judged(vec![limit(Key::P50, None, 1)]);
        assert!(unnamed.failed.iter().all(|failed| failed.series != Some(2)), "{quantity:?}: {unnamed:?}");
        for name in ["spin_counter", "ramp spin*", "*"] {
            let named = judged(vec![limit(Key::P50, Some(name), 1)]);
            assert!(named.failed.iter().any(|failed| failed.series == Some(2)), "{quantity:?} {name}: {named:?}");
        }
    }
}

/// The verdict is the first line of the text and a field of the JSON. It comes first in Markdown and on the page.
#[test]
fn the_verdict_comes_first_in_every_form() {
    for (run, word) in [
        (with(vec![limit(Key::P50, None, 1_000_000)]), "PASS"),
        (with(vec![limit(Key::P50, None, 40_000)]), "FAIL"),
        (with(vec![limit(Key::P99, Some("sleep"), 1_000_000)]), "UNDECIDED"),
    ] {
        let document = Document::from_run(&run);
        for text in [text::render(&document, &Style::default()), text::head(&document, &Style::default(), 23)] {
            assert!(text.starts_with(word), "{text}");
        }
        let form = |name: &str| {
            let mut out = Vec::new();
            (export::of_run(name).expect("a form").write)(&run, &mut out).expect("written");
            String::from_utf8(out).expect("UTF-8")
        };
        let markdown = form("markdown");
        let (verdict, table) = (markdown.find(&format!("**{word}:")), markdown.find("\n| "));
        assert!(verdict.is_some() && verdict < table, "{markdown}");
        let html = form("html");
        let (verdict, table) = (html.find(&format!("{word}:")), html.find("<table"));
        assert!(verdict.is_some() && verdict < table, "{word}");
        let json: serde_json::Value = serde_json::from_str(&form("json")).expect("JSON");
        assert_eq!(json["gate"]["outcome"], word.to_lowercase().as_str());
        assert!(json["gate"]["sentence"].as_str().is_some_and(|text| text.starts_with(word)));
        assert_eq!(json["limits"].as_array().map(Vec::len), Some(1));
    }
    let without = text::render(&Document::from_run(&with(Vec::new())), &Style::default());
    assert!(["PASS", "FAIL", "UNDECIDED"].iter().all(|word| !without.contains(word)), "{without}");
}

#[test]
fn the_verdict_in_words() {
    let said = |limits: Vec<Limit>| Gate::from_run(&with(limits)).expect("limits").sentence;
    assert_snapshot!(
        [
            said(vec![limit(Key::P50, None, 1_000_000)]),
            said(vec![limit(Key::P50, None, 40_000)]),
            said(vec![limit(Key::P99, None, 1_000_000)]),
            said(vec![limit(Key::P999, Some("sleep"), 1_000_000), limit(Key::P99, Some("sleep"), 1)]),
            said(vec![limit(Key::P99, Some("umwait"), 1_000_000)]),
        ]
        .join("\n")
    );
}

//! The text of yielding and polling, of runs made by hand.

use crate::common::{Made, histogram, run, samples, set, summary};
use crate::forms::shown;
use insta::assert_snapshot;
use punctual_record::experiment::polls::{self, Load, SenderPlace};
use punctual_record::experiment::yielding::{self, CompetitorKind, Rank};
use punctual_record::{Experiment, Quantity, Run, Series, Typed};
use punctual_report::Style;

fn series(experiment: Experiment, subject: &str, quantity: Quantity, median: i64, count: usize) -> Series {
    let samples = samples(median, count);
    Series {
        experiment,
        subject: subject.into(),
        conditions: "SCHED_OTHER".into(),
        quantity,
        summary: summary(&samples),
        histogram: Some(histogram(&samples)),
        ..Made::sleep("nanosleep", "SCHED_OTHER", median).series()
    }
}

/// A method alone.
fn alone(subject: &str, ns: i64, observed: &str) -> Series {
    let metrics = yielding::Metrics {
        bare_ns: Some(ns as f64),
        user_ns_per_op: Some(ns as f64 / 4.0),
        system_ns_per_op: Some(ns as f64 / 2.0),
        observed: Some(observed.into()),
        ..yielding::Metrics::default()
    };
    let experiment = Experiment::Yield(Typed { parameters: yielding::Parameters::default(), metrics });
    series(experiment, subject, Quantity::CallCost, ns + 20, 3000)
}

/// A method with a competitor: its calls and, where it yields, those that did.
fn against(
    subject: &str,
    (policy, rank): (&str, Rank),
    shares: (f64, f64),
    (ns, away): (i64, Option<i64>),
) -> Vec<Series> {
    let parameters = yielding::Parameters {
        competitors: 1,
        competitor_kind: Some(CompetitorKind::Process),
        competitor_policy: Some(policy.into()),
        competitor_rank: Some(rank),
    };
    let metrics = yielding::Metrics {
        yielded_share: Some(shares.0),
        competitor_cpu_share: Some(shares.1),
        own_cpu_share: Some(1.0 - shares.1),
        observed: Some("some_call".into()),
        ..yielding::Metrics::default()
    };
    let none = Experiment::Yield(Typed::asked(parameters.clone()));
    let calls = Experiment::Yield(Typed { parameters, metrics });
    let calls = series(calls, subject, Quantity::CallCost, ns, 3000);
    let away = away.map(|ns| series(none, subject, Quantity::Away, ns, 1000));
    std::iter::once(calls).chain(away).collect()
}

fn yield_run(command: &[&str], series: Vec<Series>) -> Run {
    Run { series, ..run(command, vec![set("SCHED_OTHER", "other", None, 50_000)], &[]) }
}

fn usual() -> Vec<Series> {
    let mut all = vec![
        alone("sched_yield", 400, "sched_yield"),
        alone("usleep0", 70_000, "clock_nanosleep"),
        alone("pause", 20, "none"),
    ];
    let same = ("as found", Rank::Same);
    all.extend(against("sched_yield", same, (0.36, 0.997), (750, Some(4_000_000))));
    all.extend(against("usleep0", same, (0.999, 0.81), (63_000, Some(63_000))));
    all.extend(against("nanosleep0", same, (0.999, 0.81), (63_000, Some(63_000))));
    all.extend(against("pause", same, (0.000_01, 0.5), (40, None)));
    all.extend(against("pause", ("SCHED_FIFO 50", Rank::Higher), (0.02, 0.5), (40, Some(1_000_000))));
    all
}

#[test]
fn tables_and_words_of_yielding() {
    let run = yield_run(&["punctual", "yield"], usual());
    assert_snapshot!(shown(&run, &Style { width: 160, ..Style::default() }));
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for width in [40, 60, 80, 100] {
        let run = yield_run(&["punctual", "yield"], usual());
        let text = shown(&run, &Style { width, ..Style::default() });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
    }
}

#[test]
fn the_check_up_recommends_what_was_measured() {
    let run = yield_run(&["punctual", "checkup"], usual());
    let text = shown(&run, &Style { width: 100, ..Style::default() });
    let advice = text.split("What to do").nth(1).unwrap_or_else(|| panic!("no advice in\n{text}"));
    let advice: String = advice.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(advice.contains("sched_yield() instead of usleep(0)") && advice.contains("sched_yield();"), "{advice}");
    assert!(advice.contains("a competitor gets 100 % of the CPU instead of 81 %"), "{advice}");
    // Where nothing was measured of it, nothing is said.
    let run = yield_run(&["punctual", "checkup"], vec![alone("pause", 20, "none")]);
    assert!(!shown(&run, &Style::default()).contains("What to do"));
}

/// A way of waiting for a message: `(idle, busy)` latency and the shares of the busy program and the receiver.
fn way(subject: &str, polls: Option<u32>, latency: (i64, i64), shares: (f64, f64)) -> Vec<Series> {
    let mut all = Vec::new();
    for (load, ns) in [(Load::Idle, latency.0), (Load::Busy, latency.1)] {
        for (quantity, ns) in [(Quantity::OneWay, ns), (Quantity::RoundTrip, 2 * ns)] {
            let told = load == Load::Busy && quantity == Quantity::OneWay;
            let metrics = polls::Metrics {
                competitor_cpu_share: told.then_some(shares.0),
                own_cpu_share: told.then_some(shares.1),
            };
            let parameters = polls::Parameters { load, sender: SenderPlace::OtherCpu, polls };
            all.push(series(Experiment::Polls(Typed { parameters, metrics }), subject, quantity, ns, 3000));
        }
    }
    all
}

fn settings() -> Vec<Series> {
    [
        way("never_yields", Some(0), (105, 1090), (0.49, 0.5)),
        way("sched_yield", Some(1), (380, 1_890_000), (0.992, 0.002)),
        way("sched_yield", Some(100), (104, 1_790_000), (0.995, 0.003)),
        way("sched_yield", Some(100_000), (115, 334_000), (0.53, 0.46)),
        way("usleep0", Some(1), (37_200, 30_700), (0.81, 0.19)),
        way("usleep0", Some(100_000), (131, 1590), (0.49, 0.5)),
        way("futex_wait", None, (25_200, 21_900), (0.998, 0.001)),
    ]
    .concat()
}

#[test]
fn tables_and_words_of_polling() {
    let run = yield_run(&["punctual", "yield", "--polls", "0,1,100"], settings());
    assert_snapshot!(shown(&run, &Style { width: 160, ..Style::default() }));
}

#[test]
fn a_setting_beaten_in_both_is_not_on_the_front() {
    let run = yield_run(&["punctual", "yield"], settings());
    let text: String = shown(&run, &Style::default()).split_whitespace().collect::<Vec<_>>().join(" ");
    // After 1 poll: slower and leaves less than after 100; after 100 000: slower and leaves less.
    assert!(text.contains("sched_yield: 100 polls: 104 ns, 100 %."), "{text}");
    assert!(text.contains("usleep0: 100 000 polls: 131 ns, 49 %; 1 poll: 37.3 µs, 81 %."), "{text}");
    assert!(text.contains("No polling setting beats it in all three."), "{text}");
}

#[test]
fn half_a_run_is_told_as_far_as_it_goes() {
    let mut incomplete = settings();
    incomplete.retain(|s| s.experiment.polls().unwrap().parameters.load == Load::Idle);
    let run = Run { complete: false, ..yield_run(&["punctual", "yield"], incomplete) };
    let text = shown(&run, &Style::default());
    assert!(text.contains("Incomplete") && text.contains("105 ns") && !text.contains("Least latency"), "{text}");
}

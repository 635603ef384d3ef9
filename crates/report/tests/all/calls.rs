//! What a run says of a program's waits by call site.

use crate::common::{found, run, samples, summary};
use crate::forms::shown;
use insta::assert_snapshot;
use punctual_record::experiment::calls::{Metrics, Parameters};
use punctual_record::{About, Experiment, Quantity, Run, Series, Summary, Typed};
use punctual_report::{Style, Verdict};

const FOUND: &str = "as found";

fn series(call: &str, site: &str, quantity: Quantity, summary: Summary, cpu_ns: f64, metrics: Metrics) -> Series {
    let parameters = Parameters { program: "server".into(), site: site.into() };
    Series {
        experiment: Experiment::Calls(Typed { parameters, metrics }),
        subject: call.into(),
        about: About::default(),
        conditions: FOUND.into(),
        quantity,
        unit: "ns".into(),
        summary,
        cpu_ns_per_op: Some(cpu_ns),
        cpu_share: None,
        voluntary_switches_per_op: None,
        involuntary_switches_per_op: None,
        histogram: None,
        negative_histogram: None,
        samples: None,
        rounds: Vec::new(),
        parts: Vec::new(),
    }
}

fn counts(calls: u64, nothing: u64, events: u64, expired: u64) -> Metrics {
    let [calls, nothing, events, expired] = [calls, nothing, events, expired].map(Some);
    Metrics { calls, nothing, events, expired, failed: Some(0), ..Metrics::default() }
}

pub(crate) fn observed(all: Vec<Series>) -> Run {
    let mut run = run(&["punctual", "run"], vec![found(FOUND, 50_000)], &[]);
    run.elapsed_ns = 2_000_000_000;
    run.series = all;
    run
}

pub(crate) fn sleeping() -> Series {
    let metrics = Metrics { asked_p50_ns: Some(1_000_000), late_total_ns: Some(37_400_000), ..counts(400, 0, 0, 400) };
    series("usleep", "server:tick", Quantity::Lateness, summary(&samples(93_500, 400)), 9_100.0, metrics)
}

pub(crate) fn polling(found_nothing: u64) -> Vec<Series> {
    let metrics = counts(1_000_000, found_nothing, 1_000_000 - found_nothing, 0);
    vec![
        series("poll", "libio.so:loop", Quantity::Away, summary(&samples(40_000, 500)), 4_000.0, metrics),
        series("poll", "libio.so:loop", Quantity::CallCost, summary(&samples(300, 9_000)), 310.0, Metrics::default()),
    ]
}

pub(crate) fn yielding(let_run: f64, timed: usize) -> Series {
    let metrics = Metrics { let_run_share: Some(let_run), ..counts(3_000_000, 0, 0, 0) };
    series("sched_yield", "server:spin", Quantity::CallCost, summary(&samples(400, timed)), 410.0, metrics)
}

fn answer(run: &Run) -> String {
    Verdict::from_run(run).answer.join("\n").replace('\u{a0}', " ")
}

#[test]
fn the_latest_and_the_most_wasteful_call_site_are_named() {
    let all = [vec![sleeping()], polling(990_000), vec![yielding(0.25, 46_000)]].concat();
    let run = observed(all);
    assert_snapshot!(answer(&run));
    assert_snapshot!(shown(&run, &Style { width: 120, ..Style::default() }));
}

#[test]
fn calls_that_are_never_late_are_said_not_to_be() {
    let run = observed(polling(10));
    assert_eq!(answer(&run), "None of 1 000 000 calls waited until the end of its time, so none was late.");
}

/// Calls that find something, yields that let others run, few timed calls, and little time waste nothing that is shown.
#[test]
fn waste_is_named_only_where_it_is_seen() {
    for (what, run) in [
        ("events", observed(polling(1_000))),
        ("yields that serve", observed(vec![yielding(1.0, 46_000)])),
        ("too few timed", observed(vec![yielding(0.0, 19)])),
        ("no yield was timed", {
            let mut one = yielding(0.0, 46_000);
            let Experiment::Calls(calls) = &mut one.experiment else { unreachable!() };
            calls.metrics.let_run_share = None;
            observed(vec![one])
        }),
        ("1 % of the time", {
            let mut run = observed(polling(990_000));
            run.elapsed_ns = 60_000_000_000;
            run
        }),
    ] {
        let said = answer(&run);
        assert!(!said.contains("CPU time"), "{what}: {said}");
    }
    assert_eq!(answer(&observed(vec![yielding(1.0, 46_000)])), "", "yields wait for nothing, so none could be late");
    let said = answer(&observed(vec![yielding(0.0, 20)]));
    assert!(
        said.contains("sched_yield in server:spin gives the CPU to no other thread about 3 000 000 times: 1.23 s"),
        "{said}"
    );
}

#[test]
fn nothing_is_said_to_be_never_late_that_was_not_counted() {
    let mut run = observed(polling(10));
    let Experiment::Calls(calls) = &mut run.series[0].experiment else { unreachable!() };
    calls.metrics.expired = None;
    assert_eq!(answer(&run), "");
    let mut late = sleeping();
    late.summary = Summary { count: 2, ..Summary::default() };
    assert_eq!(answer(&observed(vec![late])), "", "too few for a median, and yet late");
}

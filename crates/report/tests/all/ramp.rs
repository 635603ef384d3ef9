//! What a check-up says of CPU frequency, of runs made by hand.

use crate::common::{Made, run, set, summary};
use crate::forms::shown;
use punctual_record::experiment::ramp::{Metrics, Parameters};
use punctual_record::{Cpufreq, Experiment, Notice, Quantity, Refusal, Run, Series, Typed};
use punctual_report::Style;

const LOOPS: usize = 10;
/// What a loop takes at full speed.
const BEST: i64 = 750_000;

/// The loops of a governor: the first one of each round, then nine at full speed.
fn ramp(subject: &str, first: &[i64]) -> Series {
    let samples: Vec<i64> = first.iter().flat_map(|ns| std::iter::once(*ns).chain([BEST; LOOPS - 1])).collect();
    let mut sorted = first.to_vec();
    sorted.sort_unstable();
    let parameters = Parameters { loops: LOOPS as u32, work_ns: BEST, rest_ns: 300_000_000 };
    let metrics = Metrics { best_ns: Some(BEST), first_ns: Some(sorted[first.len() / 2]), ..Metrics::default() };
    Series {
        experiment: Experiment::Ramp(Typed { parameters, metrics }),
        subject: subject.into(),
        quantity: Quantity::Loop,
        summary: summary(&samples),
        histogram: None,
        samples: Some(samples),
        ..Made::sleep("nanosleep", "SCHED_OTHER", 1000).series()
    }
}

fn said(series: Vec<Series>, notices: Vec<Notice>) -> String {
    let mut run =
        Run { series, notices, ..run(&["punctual", "checkup"], vec![set("SCHED_OTHER", "other", None, 50_000)], &[]) };
    run.host.cpufreq = Some(Cpufreq { governors: vec!["schedutil".into()], ..Cpufreq::default() });
    let text = shown(&run, &Style { width: 1000, ..Style::default() });
    let what = text.split_once("What to do").map_or("", |(_, what)| what);
    // Wrapped as the terminal needs it.
    what.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Six rounds, the slowest first loop twice as long as the quickest.
const SLOW: [i64; 6] = [1_400_000, 1_500_000, 1_600_000, 1_700_000, 2_000_000, 2_100_000];
const FAST: [i64; 6] = [751_000, 750_000, 752_000, 750_000, 755_000, 750_000];

#[test]
fn a_governor_that_was_tried_and_helped_is_recommended_with_its_gain() {
    let text = said(vec![ramp("as found", &SLOW), ramp("performance", &FAST)], Vec::new());
    for part in [
        "governor performance instead of schedutil: the first 750 µs of work after a rest is done 950 µs sooner at p50",
        "It costs energy and heat",
        "sudo punctual run --governor performance -- PROGRAM",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn one_that_made_no_difference_or_made_it_worse_is_not() {
    let text = said(vec![ramp("as found", &FAST), ramp("performance", &FAST)], Vec::new());
    assert!(
        text.contains("No difference here that this run can show: governor performance instead of schedutil"),
        "{text}"
    );
    let text = said(vec![ramp("as found", &FAST), ramp("performance", &SLOW)], Vec::new());
    assert!(text.contains("Worse here: governor performance instead of schedutil"), "{text}");
    // One round of six the other way: that may be chance.
    let mut mixed = FAST;
    mixed[3] = 2_500_000;
    let text = said(vec![ramp("as found", &SLOW), ramp("performance", &mixed)], Vec::new());
    assert!(text.contains("No difference here that this run can show"), "{text}");
    assert!(!text.contains("--governor performance"), "{text}");
}

#[test]
fn one_that_could_not_be_tried_says_what_it_needs_and_the_loops_speak_for_themselves() {
    let refusal = Refusal {
        condition: "governor".into(),
        asked: "performance".into(),
        why: "writing scaling_governor: Permission denied".into(),
        remedy: "run as root".into(),
    };
    let notice = Notice::ConditionsSkipped { conditions: "governor performance".into(), refusal };
    let text = said(vec![ramp("as found", &SLOW)], vec![notice]);
    for part in [
        "Could not be tried: governor performance: writing scaling_governor: Permission denied. What would allow it: run as root.",
        "After a rest, the first 750 µs of work took 1.70 ms under the governor schedutil.",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

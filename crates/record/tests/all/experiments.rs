//! Runs of real machines, one of each experiment: read with their types, written and merged.

use punctual_record::experiment::{ipc, pace, yielding};
use punctual_record::*;

fn read(text: &str) -> Run {
    Run::from_json(text.as_bytes()).unwrap()
}

/// The series of one experiment.
fn series_of<'a>(run: &'a Run, experiment: &str) -> Vec<&'a Series> {
    run.series.iter().filter(|series| series.experiment.name() == experiment).collect()
}

#[test]
fn what_was_asked_and_what_came_out_are_told_apart() {
    let run = read(include_str!("../experiments/ramp.json"));
    assert_eq!((run.schema.as_str(), run.subcommand.as_str()), (SCHEMA, "governor ramp"));
    let ramp = run.series[0].experiment.ramp().unwrap();
    assert_eq!((ramp.parameters.loops, ramp.parameters.work_ns, ramp.parameters.rest_ns), (100, 750_000, 300_000_000));
    assert_eq!(
        (ramp.metrics.cpu, ramp.metrics.best_ns, ramp.metrics.rounds_at_full_speed),
        (Some(1), Some(653_833), Some(0))
    );
    assert!(ramp.metrics.own_spread.is_some_and(|spread| spread > 0.0));
    let names: Vec<String> = run.series[0].experiment.parameters().into_keys().collect();
    assert_eq!(names, ["loops", "rest_ns", "work_ns"]);
}

#[test]
fn every_experiment_comes_back_typed() {
    let checkup = read(include_str!("../experiments/checkup.json"));
    assert!(checkup.is_checkup());
    for experiment in ["wait", "on_time", "yield", "ipc", "ramp"] {
        assert!(!series_of(&checkup, experiment).is_empty(), "{experiment}");
    }
    let wait = &checkup.series[0];
    assert_eq!(wait.experiment.wait().unwrap().parameters.asked_ns, 100_000);
    assert_eq!(wait.experiment.wait().unwrap().metrics.effective_ns, Some(100_000));
    assert_eq!((wait.about.kind.as_deref(), wait.about.call.as_deref()), (Some("sleep"), Some("usleep(microseconds)")));
    let messages = series_of(&checkup, "ipc")[0].experiment.ipc().unwrap();
    assert_eq!((messages.parameters.mode, messages.parameters.place), (ipc::Mode::PingPong, ipc::Placement::SameCpu));
    assert_eq!((messages.metrics.verified, messages.metrics.duplicates), (Some(true), Some(0)));

    let yields = read(include_str!("../experiments/yield.json"));
    let against =
        yields.series.iter().filter_map(|s| s.experiment.yields()).find(|y| y.parameters.competitors > 0).unwrap();
    assert_eq!(against.parameters.competitor_kind, Some(yielding::CompetitorKind::Process));
    assert!(against.metrics.own_cpu_share.is_some());
    let pace = read(include_str!("../experiments/pace.json"));
    let sent = pace.series[0].experiment.pace().unwrap();
    assert_eq!((sent.parameters.measured, sent.parameters.size), (pace::Measured::Departure, Some(64)));
    assert_eq!(sent.metrics.departure, Some(pace::DepartureClock::KernelStamp));
    let boost = read(include_str!("../experiments/boost.json"));
    let boost = boost.series[0].experiment.boost().unwrap();
    assert_eq!((boost.parameters.periods, boost.metrics.met.is_some()), (100, true));
    for text in [include_str!("../experiments/polls.json"), include_str!("../experiments/calibrate.json")] {
        let run = read(text);
        assert!(run.series.iter().all(|series| !matches!(series.experiment, Experiment::Other(_))));
    }
}

#[test]
fn conditions_are_found_by_their_names() {
    let run = read(include_str!("../experiments/wait.json"));
    let set = run.conditions.iter().find(|set| set.label.starts_with("SCHED_FIFO 40, slack")).unwrap();
    assert!(set.is_real_time());
    let phrases: Vec<&str> =
        [POLICY, TIMER_SLACK].iter().map(|name| set.setting(name).unwrap().phrase.as_str()).collect();
    assert_eq!(phrases[0], "SCHED_FIFO 40");
    let other = run.conditions.iter().find(|set| set.label == "SCHED_OTHER, slack 50 us").unwrap();
    assert_eq!((other.policy(), other.timer_slack_ns()), (Some("other"), Some(50_000)));
    assert_eq!(other.setting(TIMER_SLACK).unwrap().phrase, "slack 50 us");
    let idle = read(include_str!("../experiments/checkup.json"));
    let idle = idle.conditions.iter().find(|set| set.label == "C-states off").unwrap();
    assert_eq!(idle.setting("dma-latency").unwrap().phrase, "C-states off");
}

#[test]
fn a_run_is_written_and_comes_back() {
    for text in [include_str!("../experiments/checkup.json"), include_str!("../experiments/boost.json")] {
        let run = read(text);
        let mut written = Vec::new();
        run.to_json(&mut written).unwrap();
        assert_eq!(Run::from_slice(&written).unwrap(), run);
    }
}

#[test]
fn the_same_run_has_the_same_identities_whatever_came_out() {
    let first = read(include_str!("../experiments/boost.json"));
    let mut second = first.clone();
    let Experiment::Boost(boost) = &mut second.series[0].experiment else { panic!("the first series is of a boost") };
    boost.metrics.met = boost.metrics.met.map(|met| met + 1);
    assert_ne!(first, second);
    assert_eq!(identities(&first), identities(&second));
}

#[test]
fn metrics_of_two_runs_merge_by_their_rules() {
    let messages = |started: &str, lost: u64, per_second: f64, verified: bool| {
        let mut run = crate::sample::sample();
        run.started = started.parse().unwrap();
        let Experiment::Ipc(ipc) = &mut run.series[1].experiment else { panic!("the second series is of messages") };
        ipc.metrics.lost = Some(lost);
        ipc.metrics.per_second = Some(per_second);
        ipc.metrics.verified = Some(verified);
        run
    };
    let mut merger = merge::Merger::new(messages("2030-01-01T00:00:00Z", 2, 1e5, true)).unwrap();
    merger.add(messages("2030-01-02T00:00:00Z", 3, 2e5, false)).unwrap();
    let tool = Tool { name: "punctual".into(), version: "0".into() };
    let merged = merger.finish(tool, Vec::new()).unwrap();
    let metrics = &merged.series[1].experiment.ipc().unwrap().metrics;
    assert_eq!((metrics.lost, metrics.verified), (Some(5), None));
    assert!(metrics.per_second.is_some_and(|rate| (rate - 1.5e5).abs() < 1.0), "{metrics:?}");
}

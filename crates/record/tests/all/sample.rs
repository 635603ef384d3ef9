//! A run for the tests of JSON and of the schema.

use std::collections::BTreeMap;

use punctual_record::experiment::{Experiment, Typed, ipc, wait};
use punctual_record::*;

/// A run in which every optional part is there.
pub(crate) fn sample() -> Run {
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for round in 0..3u32 {
        recorder.clear();
        (0..1000).for_each(|value| recorder.record(value * 37 - 500));
        recorder.record(i64::MAX);
        let usage =
            Usage { elapsed_ns: 9_000_000, cpu_ns: Some(1_234_567), voluntary: Some(1000), involuntary: Some(3) };
        tally.add_round(round, 1000, &recorder, usage);
    }
    let parameters = wait::Parameters::asking(100_000);
    let metrics = wait::Metrics { effective_ns: Some(100_000), ..wait::Metrics::default() };
    let series = Series {
        samples: Some(vec![-5, 0, i64::MAX]),
        ..tally.to_series(SeriesId {
            experiment: Experiment::Wait(Typed { parameters, metrics }),
            subject: "nanosleep".into(),
            about: About { kind: Some("sleep".into()), call: Some("nanosleep()".into()), ..About::default() },
            conditions: "SCHED_FIFO 40".into(),
            quantity: Quantity::Overshoot,
        })
    };
    let there_and_back = tally.to_series(SeriesId {
        experiment: messages(),
        subject: "pipe".into(),
        about: About::default(),
        conditions: "SCHED_FIFO 40".into(),
        quantity: Quantity::RoundTrip,
    });
    let refusal = Refusal {
        condition: "policy".into(),
        asked: "fifo:40".into(),
        why: "EPERM".into(),
        remedy: "ulimit -r 40".into(),
    };
    Run {
        schema: SCHEMA.into(),
        tool: Tool { name: "punctual".into(), version: "0.1.0".into() },
        started: "2026-11-20T08:00:00.123456789Z".parse().unwrap(),
        elapsed_ns: 12_000_000_000,
        complete: true,
        command: vec!["punctual".into(), "wait".into()],
        subcommand: "wait".into(),
        host: Host {
            kernel: Some("6.18.44".into()),
            cpu_quota: Some(1.5),
            cpuidle: Some(Cpuidle { driver: Some("intel_idle".into()), ..Cpuidle::default() }),
            cpufreq: Some(Cpufreq { governors: vec!["performance".into()], ..Cpufreq::default() }),
            ..Host::default()
        },
        conditions: vec![ConditionSet {
            label: "SCHED_FIFO 40".into(),
            settings: vec![Setting {
                condition: POLICY.into(),
                asked: Some(Param::Text("fifo:40".into())),
                applied: Some(Param::Text("other".into())),
                phrase: "SCHED_OTHER".into(),
            }],
            refused: vec![refusal.clone()],
        }],
        clock: Clock { source: "CLOCK_MONOTONIC".into(), read_ns: 23.4, resolution_ns: 1, granularity_ns: 20 },
        series: vec![series, there_and_back],
        not_measured: vec![NotMeasured {
            experiment: "wait".into(),
            subject: "umwait".into(),
            conditions: None,
            parameters: BTreeMap::from([("asked_ns".to_owned(), Param::Int(100_000))]),
            why: "the CPU has no WAITPKG".into(),
            remedy: None,
        }],
        notices: vec![
            Notice::ConditionRefused { conditions: "SCHED_FIFO 40".into(), refusal },
            Notice::Steal { share: 0.02 },
            Notice::Unsteady { series: 1, judged: 4 },
            Notice::Early { subject: "x".into(), count: 1, min_ns: -7 },
            Notice::Other { text: "anything".into() },
        ],
        disturbance: Disturbance { steal_ns: Some(10_000_000), steal_share: Some(0.001), ..Disturbance::default() },
        limits: Vec::new(),
        causes: None,
        paths: Vec::new(),
        merged_from: Vec::new(),
    }
}

fn messages() -> Experiment {
    let parameters = ipc::Parameters {
        size: 64,
        mode: ipc::Mode::PingPong,
        place: ipc::Placement::SameCpu,
        receive: ipc::Receive::Block,
        sender_cpu: Some(0),
        receiver_cpu: Some(0),
        interval_ns: None,
        depth: None,
    };
    let metrics =
        ipc::Metrics { per_second: Some(1e5), verified: Some(true), lost: Some(0), ..ipc::Metrics::default() };
    Experiment::Ipc(Typed { parameters, metrics })
}

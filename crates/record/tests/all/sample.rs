//! A run for the tests of JSON and of the schema.

use std::collections::BTreeMap;

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
    let parameters = BTreeMap::from([
        ("asked_ns".to_string(), Param::Int(100_000)),
        ("load".to_string(), Param::Real(0.5)),
        ("pinned".to_string(), Param::Flag(true)),
        ("peer".to_string(), Param::Text("same core".into())),
    ]);
    let series = Series {
        samples: Some(vec![-5, 0, i64::MAX]),
        ..tally.to_series(SeriesId {
            experiment: "wait".into(),
            subject: "nanosleep".into(),
            conditions: "fifo:40".into(),
            parameters: parameters.clone(),
            quantity: Quantity::Overshoot,
        })
    };
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
        host: Host {
            kernel: Some("6.18.44".into()),
            cpu_quota: Some(1.5),
            cpuidle: Some(Cpuidle { driver: Some("intel_idle".into()), ..Cpuidle::default() }),
            cpufreq: Some(Cpufreq { governors: vec!["performance".into()], ..Cpufreq::default() }),
            ..Host::default()
        },
        conditions: vec![ConditionSet {
            label: "fifo:40".into(),
            asked: Asked { policy: Some("fifo:40".into()), ..Asked::default() },
            applied: Applied { policy: Some("other".into()), ..Applied::default() },
            refused: vec![refusal.clone()],
        }],
        clock: Clock { source: "CLOCK_MONOTONIC".into(), read_ns: 23.4, resolution_ns: 1, granularity_ns: 20 },
        series: vec![series],
        not_measured: vec![NotMeasured {
            experiment: "wait".into(),
            subject: "umwait".into(),
            conditions: None,
            parameters,
            why: "the CPU has no WAITPKG".into(),
            remedy: None,
        }],
        notices: vec![
            Notice::ConditionRefused { conditions: "fifo:40".into(), refusal },
            Notice::Steal { share: 0.02 },
            Notice::Unsteady { series: 1, judged: 4 },
            Notice::Early { subject: "x".into(), count: 1, min_ns: -7 },
            Notice::Other { text: "anything".into() },
        ],
        disturbance: Disturbance { steal_ns: Some(10_000_000), steal_share: Some(0.001), ..Disturbance::default() },
        merged_from: Vec::new(),
    }
}

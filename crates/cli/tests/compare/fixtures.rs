//! Runs made by hand, the same each time: what a machine would measure whose figures are these.

use std::path::{Path, PathBuf};

use punctual_record::experiment::{Typed, wait};
use punctual_record::{
    About, Clock, ConditionSet, Disturbance, Experiment, Host, POLICY, Param, Quantity, Recorder, Run, SCHEMA,
    SeriesId, SeriesTally, Setting, TIMER_SLACK, Tool, Usage,
};

/// Numbers that look random and are not: a linear congruential generator.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a run is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    pub(crate) seed: u64,
    pub(crate) minute: u64,
    /// How many times later than usual `nanosleep` is.
    pub(crate) nanosleep: f64,
    pub(crate) rounds: u32,
    pub(crate) slack: u64,
    pub(crate) kernel: &'static str,
}

pub(crate) const USUAL: Made =
    Made { seed: 1, minute: 0, nanosleep: 1.0, rounds: 20, slack: 50_000, kernel: "6.1.0-18-amd64" };

fn series(subject: &str, median: f64, made: Made, numbers: &mut Numbers) -> punctual_record::Series {
    let mut tally = SeriesTally::new();
    let mut recorder = Recorder::new();
    for round in 0..made.rounds {
        recorder.clear();
        let level = median * (1.0 + 0.02 * (numbers.next() - 0.5));
        for _ in 0..250 {
            let tail = if numbers.next() < 0.02 { 2.0 + numbers.next() } else { 1.0 };
            recorder.record((level * (1.0 + 0.1 * (numbers.next() - 0.5)) * tail) as i64);
        }
        let cpu = 250.0 * 5_000.0 * (1.0 + 0.02 * (numbers.next() - 0.5));
        let usage =
            Usage { elapsed_ns: 40_000_000, cpu_ns: Some(cpu as u64), voluntary: Some(250), involuntary: Some(0) };
        tally.add_round(round, u64::from(round) * 100_000_000, &recorder, usage);
    }
    tally.to_series(SeriesId {
        experiment: Experiment::Wait(Typed::asked(wait::Parameters::asking(100_000))),
        subject: subject.into(),
        about: About::default(),
        conditions: AS_FOUND.into(),
        quantity: Quantity::Overshoot,
    })
}

/// Label of the conditions as found.
pub(crate) const AS_FOUND: &str = "as found";

/// A set of conditions that were read and not asked for.
pub(crate) fn set(label: &str, policy: &str, slack_ns: u64) -> ConditionSet {
    let read = |condition: &str, value: Param, phrase: &str| Setting {
        condition: condition.into(),
        applied: Some(value),
        phrase: phrase.into(),
        ..Setting::default()
    };
    let settings = vec![
        read(POLICY, Param::Text(policy.into()), policy),
        read("nice", Param::Int(0), "nice 0"),
        read("lock-memory", Param::Flag(false), "memory not locked"),
        read(TIMER_SLACK, Param::Int(slack_ns as i64), &format!("slack {slack_ns} ns")),
    ];
    ConditionSet { label: label.into(), settings, refused: Vec::new() }
}

/// The run.
pub(crate) fn run(made: Made) -> Run {
    let mut numbers = Numbers::new(made.seed);
    let subjects = [("nanosleep", 52_000.0 * made.nanosleep), ("ppoll", 54_000.0), ("futex", 53_000.0)];
    Run {
        schema: SCHEMA.into(),
        tool: Tool { name: "punctual".into(), version: "0.1.0".into() },
        started: format!("2026-01-02T03:{:02}:05Z", made.minute).parse().expect("a time"),
        elapsed_ns: 4_000_000_000,
        complete: true,
        command: ["punctual", "wait"].map(String::from).to_vec(),
        subcommand: "wait".into(),
        host: Host {
            kernel: Some(made.kernel.into()),
            cpu_model: Some("AMD EPYC 7763 64-Core Processor".into()),
            clocksource: Some("tsc".into()),
            ..Host::default()
        },
        conditions: vec![set(AS_FOUND, "other", made.slack)],
        clock: Clock { source: "CLOCK_MONOTONIC".into(), read_ns: 24.0, resolution_ns: 1, granularity_ns: 8 },
        series: subjects.map(|(subject, median)| series(subject, median, made, &mut numbers)).to_vec(),
        not_measured: Vec::new(),
        notices: Vec::new(),
        disturbance: Disturbance { steal_share: Some(0.001), busy_share: Some(0.1), ..Disturbance::default() },
        limits: Vec::new(),
        causes: None,
        paths: Vec::new(),
        merged_from: Vec::new(),
    }
}

/// Files of a test, gone at its end.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for the test"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path
    }

    pub(crate) fn save(&self, name: &str, run: &Run) -> PathBuf {
        let mut text = Vec::new();
        run.to_json(&mut text).expect("a run is JSON");
        self.write(name, &text)
    }
}

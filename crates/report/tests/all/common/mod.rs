//! Runs made by hand, with histograms, for the tests of the reports.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

pub mod causes;
mod remedies;

pub use remedies::remedies_run;

use std::collections::BTreeMap;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use punctual_record::experiment::wait;
use punctual_record::{
    About, CPU, Ci95, Clock, ConditionSet, Disturbance, Experiment, Host, Interval, NotMeasured, Notice, POLICY, Param,
    Quantity, RoundFigures, RtLimits, Run, SCHEMA, Series, Setting, Summary, TIMER_SLACK, Tool, Typed,
};

/// A set of conditions by its policy and timer slack; the policy was asked for.
pub fn set(label: &str, policy: &str, asked_slack: Option<i64>, slack: i64) -> ConditionSet {
    let slack = Setting { asked: asked_slack.map(Param::Int), ..slack_of(asked_slack.unwrap_or(slack), slack) };
    let held = |condition: &str, value: Param, phrase: &str| Setting {
        condition: condition.into(),
        applied: Some(value),
        phrase: phrase.into(),
        ..Setting::default()
    };
    ConditionSet {
        label: label.into(),
        settings: vec![
            asked_policy(policy),
            held("nice", Param::Int(0), "nice 0"),
            held(CPU, Param::Text("0-1".into()), "CPUs 0-1"),
            slack,
            held("lock-memory", Param::Flag(false), "memory not locked"),
        ],
        refused: Vec::new(),
    }
}

/// A set of which nothing was asked.
pub fn found(label: &str, slack: i64) -> ConditionSet {
    let mut set = set(label, "other", None, slack);
    set.settings[0].asked = None;
    set
}

/// A policy that was asked for and held.
pub fn asked_policy(policy: &str) -> Setting {
    let (name, priority) = policy.split_once(':').unwrap_or((policy, ""));
    let constant = format!("SCHED_{}", name.to_uppercase());
    Setting {
        condition: POLICY.into(),
        asked: Some(Param::Text(policy.into())),
        applied: Some(Param::Text(policy.into())),
        phrase: format!("{constant} {priority}").trim_end().into(),
    }
}

/// A slack that held, and its phrase by what was asked.
fn slack_of(phrase: i64, held: i64) -> Setting {
    let phrase = match phrase {
        0 => "no slack".to_owned(),
        ns if ns % 1000 == 0 => format!("slack {} us", ns / 1000),
        ns => format!("slack {ns} ns"),
    };
    Setting { condition: TIMER_SLACK.into(), asked: None, applied: Some(Param::Int(held)), phrase }
}

/// Adds a setting, or takes the place of the one that is there.
pub fn put(set: &mut ConditionSet, setting: Setting) {
    match set.settings.iter_mut().find(|present| present.condition == setting.condition) {
        Some(present) => *present = setting,
        None => set.settings.push(setting),
    }
}

/// A condition that was asked for and held.
pub fn asked(condition: &str, value: Param, phrase: &str) -> Setting {
    Setting { condition: condition.into(), asked: Some(value.clone()), applied: Some(value), phrase: phrase.into() }
}

/// `count` samples around `median`: most within a tenth of it, one in fifty several times as late.
pub fn samples(median: i64, count: usize) -> Vec<i64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ median.unsigned_abs();
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    let mut sample = || {
        let spread = (next() + next() - 1.0) * 0.1;
        let tail = if next() < 0.02 { 2.0 + 6.0 * next() } else { 1.0 };
        (median as f64 * (1.0 + spread) * tail) as i64
    };
    (0..count).map(|_| sample()).collect()
}

/// Ranks of a 95 % interval by the normal approximation of the binomial.
fn interval(sorted: &[i64], p: f64) -> Option<Interval> {
    let n = sorted.len() as f64;
    let half = 1.96 * (n * p * (1.0 - p)).sqrt();
    let (low, high) = ((n * p - half).floor(), (n * p + half).ceil());
    (low >= 1.0 && high <= n).then(|| Interval { low: sorted[low as usize - 1], high: sorted[high as usize - 1] })
}

pub fn summary(samples: &[i64]) -> Summary {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let at = |p: f64| {
        let rank = (n as f64 * p).ceil() as usize;
        ((n as f64 * (1.0 - p)) >= 1.0 && rank >= 1).then(|| sorted[rank - 1])
    };
    Summary {
        count: n as u64,
        negative: sorted.iter().filter(|&&x| x < 0).count() as u64,
        overflow: 0,
        min: sorted.first().copied(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: sorted.last().copied(),
        mean: (n > 0).then(|| sorted.iter().map(|&x| x as f64).sum::<f64>() / n as f64),
        stdev: (n > 1).then_some(1.0),
        ci95: Ci95 { p50: interval(&sorted, 0.5), p99: interval(&sorted, 0.99) },
    }
}

pub fn histogram(samples: &[i64]) -> String {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    for &ns in samples {
        histogram.record(ns.unsigned_abs()).unwrap();
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A series of `wait`: asked and effective duration, median, CPU time per wait, whether it sleeps.
#[derive(Clone, Copy)]
pub struct Made {
    pub subject: &'static str,
    pub conditions: &'static str,
    pub asked_ns: i64,
    pub effective_ns: i64,
    pub median: i64,
    pub count: usize,
    pub cpu_ns: f64,
    pub sleeps: bool,
}

impl Made {
    pub fn sleep(subject: &'static str, conditions: &'static str, median: i64) -> Self {
        Self {
            subject,
            conditions,
            asked_ns: 100_000,
            effective_ns: 100_000,
            median,
            count: 4000,
            cpu_ns: 4_200.0,
            sleeps: true,
        }
    }

    pub fn spin(subject: &'static str, conditions: &'static str, median: i64) -> Self {
        Self { sleeps: false, cpu_ns: 100_050.0, ..Self::sleep(subject, conditions, median) }
    }

    pub fn asked(self, asked_ns: i64) -> Self {
        let cpu_ns = if self.sleeps { self.cpu_ns } else { asked_ns as f64 + 50.0 };
        Self { asked_ns, effective_ns: asked_ns, cpu_ns, ..self }
    }

    pub fn rounding_to(self, effective_ns: i64) -> Self {
        Self { effective_ns, ..self }
    }

    pub fn count(self, count: usize) -> Self {
        Self { count, ..self }
    }

    pub fn cpu(self, cpu_ns: f64) -> Self {
        Self { cpu_ns, ..self }
    }

    pub fn series(self) -> Series {
        let samples = samples(self.median, self.count);
        let parameters = wait::Parameters::asking(self.asked_ns);
        let metrics = wait::Metrics { effective_ns: Some(self.effective_ns), ..wait::Metrics::default() };
        let round = |(round, samples): (u32, &[i64])| RoundFigures {
            round,
            summary: summary(samples),
            cpu_ns_per_op: Some(self.cpu_ns * [0.98, 1.0, 1.03][round as usize % 3]),
            ..RoundFigures::default()
        };
        let rounds = (0..).zip(samples.chunks(self.count.div_ceil(10).max(1))).map(round).collect();
        Series {
            experiment: Experiment::Wait(Typed { parameters, metrics }),
            subject: self.subject.into(),
            about: About {
                code: code(self.subject).map(str::to_owned),
                relative: self.subject.strip_suffix("_abs").map(str::to_owned),
                ..About::default()
            },
            conditions: self.conditions.into(),
            quantity: if self.subject.contains("_abs") { Quantity::Lateness } else { Quantity::Overshoot },
            unit: "ns".into(),
            summary: summary(&samples),
            cpu_ns_per_op: Some(self.cpu_ns),
            cpu_share: Some(self.cpu_ns / (self.effective_ns + self.median) as f64),
            voluntary_switches_per_op: Some(if self.sleeps { 1.0 } else { 0.0 }),
            involuntary_switches_per_op: Some(if self.sleeps { 0.0 } else { 0.001 }),
            histogram: Some(histogram(&samples)),
            negative_histogram: None,
            samples: None,
            rounds,
            parts: Vec::new(),
        }
    }
}

/// What programs write for some of the methods.
fn code(subject: &str) -> Option<&'static str> {
    Some(match subject {
        "nanosleep" => "nanosleep(&duration, &remaining);",
        "clock_nanosleep" => "clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);",
        "clock_nanosleep_abs" => "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);",
        "usleep" => "usleep(microseconds);",
        "poll" => "poll(NULL, 0, milliseconds);",
        "timerfd" => "timerfd_settime(fd, 0, &duration, NULL); read(fd, &expirations, sizeof expirations);",
        "spin_counter" => "while (__rdtsc() < deadline_in_ticks) ;",
        _ => return None,
    })
}

/// A run on a small virtual machine.
pub fn run(command: &[&str], conditions: Vec<ConditionSet>, series: &[Made]) -> Run {
    Run {
        schema: SCHEMA.into(),
        tool: Tool { name: "punctual".into(), version: "0.1.0".into() },
        started: "2026-01-02T03:04:05Z".parse().unwrap(),
        elapsed_ns: 4_000_000_000,
        complete: true,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        subcommand: command.get(1).copied().unwrap_or_default().to_owned(),
        host: host(),
        conditions,
        clock: Clock { source: "CLOCK_MONOTONIC".into(), read_ns: 24.3, resolution_ns: 1, granularity_ns: 8 },
        series: series.iter().map(|made| made.series()).collect(),
        not_measured: Vec::new(),
        notices: Vec::new(),
        disturbance: Disturbance {
            steal_ns: Some(20_000_000),
            steal_share: Some(0.0025),
            involuntary_switches: Some(17),
            busy_share: Some(0.53),
            interrupts: Some(123_456),
            major_faults: Some(0),
            ..Disturbance::default()
        },
        limits: Vec::new(),
        causes: None,
        paths: Vec::new(),
        merged_from: Vec::new(),
    }
}

pub fn host() -> Host {
    Host {
        architecture: Some("x86_64".into()),
        kernel: Some("6.1.0-18-amd64".into()),
        preemption: Some("voluntary".into()),
        cpu_model: Some("AMD EPYC 7763 64-Core Processor".into()),
        cpus_online: Some(2),
        clocksource: Some("kvm-clock".into()),
        hypervisor: Some("kvm".into()),
        timer_slack_ns: Some(50_000),
        rt: RtLimits {
            period_us: Some(1_000_000),
            runtime_us: Some(950_000),
            rtprio_limit: Some(0),
            cap_sys_nice: Some(true),
            ..RtLimits::default()
        },
        ..Host::default()
    }
}

/// One set of conditions, two durations, coarse methods, one that was not available.
pub fn plain_run() -> Run {
    let other = "SCHED_OTHER";
    let made = [
        Made::sleep("nanosleep", other, 52_300),
        Made::sleep("clock_nanosleep_abs", other, 52_100),
        Made::sleep("usleep", other, 53_900).cpu(5_200.0),
        Made::sleep("epoll_wait", other, 1_010_000).rounding_to(1_000_000),
        Made::sleep("sleep", other, 999_970_000).rounding_to(1_000_000_000).count(3),
        Made::spin("spin_clock", other, 41),
        Made::spin("spin_counter", other, 33),
        Made::sleep("nanosleep", other, 54_300).asked(1_000_000),
        Made::sleep("clock_nanosleep_abs", other, 52_700).asked(1_000_000),
        Made::sleep("epoll_wait", other, 58_000).asked(1_000_000),
        Made::spin("spin_counter", other, 35).asked(1_000_000).count(50),
    ];
    let mut run = run(&["punctual", "wait", "--for", "100us,1ms"], vec![set(other, "other", None, 50_000)], &made);
    run.not_measured.push(NotMeasured {
        experiment: "wait".into(),
        subject: "umwait".into(),
        conditions: None,
        parameters: BTreeMap::new(),
        why: "the CPU has no WAITPKG".into(),
        remedy: Some("measure on Intel Tremont, Alder Lake or later".into()),
    });
    run.notices = vec![
        Notice::Coarse { subject: "epoll_wait".into(), asked_ns: 100_000, effective_ns: 1_000_000 },
        Notice::Steal { share: 0.0025 },
    ];
    run
}

/// Four sets of conditions: two slacks, then FIFO with either.
pub fn lever_run(command: &[&str]) -> Run {
    let sets = vec![
        set("SCHED_OTHER", "other", None, 50_000),
        set("SCHED_OTHER, slack 1 ns", "other", Some(1), 1),
        set("SCHED_FIFO 40", "fifo:40", None, 0),
        set("SCHED_FIFO 40, slack 1 ns", "fifo:40", Some(1), 0),
    ];
    let mut made = Vec::new();
    let medians = [
        ("SCHED_OTHER", 52_100),
        ("SCHED_OTHER, slack 1 ns", 4_900),
        ("SCHED_FIFO 40", 3_100),
        ("SCHED_FIFO 40, slack 1 ns", 3_100),
    ];
    for (label, median) in medians {
        made.push(Made::sleep("clock_nanosleep_abs", label, median));
        made.push(Made::sleep("nanosleep", label, median + 200));
        made.push(Made::sleep("ppoll", label, median + 900));
        made.push(Made::spin("spin_counter", label, 33));
    }
    run(command, sets, &made)
}

/// The same with three rounds a series: too few for a comparison.
pub fn few_rounds(mut run: Run) -> Run {
    run.series.iter_mut().for_each(|series| series.rounds.truncate(3));
    run
}

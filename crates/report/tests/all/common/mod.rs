//! Runs made by hand, with histograms, for the tests of the reports.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use std::collections::BTreeMap;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use punctual_record::{
    Applied, Asked, Ci95, Clock, ConditionSet, Disturbance, Host, Interval, NotMeasured, Notice, Param, Quantity,
    RoundFigures, RtLimits, Run, SCHEMA, Series, Summary, Tool,
};

/// A set of conditions by its policy and timer slack.
pub fn set(label: &str, policy: &str, asked_slack: Option<u64>, slack: u64) -> ConditionSet {
    ConditionSet {
        label: label.into(),
        asked: Asked { policy: Some(policy.into()), timer_slack_ns: asked_slack, ..Asked::default() },
        applied: Applied {
            policy: Some(policy.into()),
            nice: Some(0),
            cpus: Some("0-1".into()),
            lock_memory: Some(false),
            timer_slack_ns: Some(slack),
            dma_latency_us: None,
            governor: None,
        },
        refused: Vec::new(),
    }
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
        let parameters = [("asked_ns", self.asked_ns), ("effective_ns", self.effective_ns)];
        let round = |round: u32, factor: f64| RoundFigures {
            round,
            cpu_ns_per_op: Some(self.cpu_ns * factor),
            ..RoundFigures::default()
        };
        Series {
            experiment: "wait".into(),
            subject: self.subject.into(),
            conditions: self.conditions.into(),
            parameters: parameters.iter().map(|&(name, ns)| (name.to_owned(), Param::Int(ns))).collect(),
            quantity: if self.subject.contains("_abs") { Quantity::Lateness } else { Quantity::Overshoot },
            unit: "ns".into(),
            summary: summary(&samples),
            cpu_ns_per_op: Some(self.cpu_ns),
            cpu_share: Some(self.cpu_ns / (self.effective_ns + self.median) as f64),
            voluntary_switches_per_op: Some(if self.sleeps { 1.0 } else { 0.0 }),
            involuntary_switches_per_op: Some(if self.sleeps { 0.0 } else { 0.001 }),
            histogram: Some(histogram(&samples)),
            outcome: BTreeMap::new(),
            negative_histogram: None,
            samples: None,
            rounds: vec![round(0, 0.98), round(1, 1.0), round(2, 1.03)],
            parts: Vec::new(),
        }
    }
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
    let other = "other";
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
    let mut run = run(&["punctual", "wait", "--for", "100us,1ms"], vec![set(other, other, None, 50_000)], &made);
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
        set("other", "other", None, 50_000),
        set("other, slack 1ns", "other", Some(1), 1),
        set("fifo:40", "fifo:40", None, 0),
        set("fifo:40, slack 1ns", "fifo:40", Some(1), 0),
    ];
    let mut made = Vec::new();
    let medians = [("other", 52_100), ("other, slack 1ns", 4_900), ("fifo:40", 3_100), ("fifo:40, slack 1ns", 3_100)];
    for (label, median) in medians {
        made.push(Made::sleep("clock_nanosleep_abs", label, median));
        made.push(Made::sleep("nanosleep", label, median + 200));
        made.push(Made::sleep("ppoll", label, median + 900));
        made.push(Made::spin("spin_counter", label, 33));
    }
    run(command, sets, &made)
}

/// What a check-up tries, each alone: the medians of the sleeping method under CPU 1, locked memory and without C-states are given.
pub fn remedies_run(cpu: i64, locked: i64, awake: i64) -> Run {
    let found = || set("as found", "other", None, 50_000);
    let with = |label: &str, change: &dyn Fn(&mut ConditionSet)| {
        let mut made = found();
        made.label = label.into();
        change(&mut made);
        made
    };
    let mut sets = vec![
        found(),
        with("slack 1ns", &|set| (set.asked.timer_slack_ns, set.applied.timer_slack_ns) = (Some(1), Some(1))),
        with("fifo:40", &|set| {
            (set.asked.policy, set.applied.policy) = (Some("fifo:40".into()), Some("fifo:40".into()));
            set.applied.timer_slack_ns = Some(0);
        }),
        with("memory locked", &|set| (set.asked.lock_memory, set.applied.lock_memory) = (Some(true), Some(true))),
        with("dma latency 0us", &|set| (set.asked.dma_latency_us, set.applied.dma_latency_us) = (Some(0), Some(0))),
        with("cpu 1", &|set| (set.asked.cpus, set.applied.cpus) = (Some("1".into()), Some("1".into()))),
    ];
    for set in &mut sets {
        if set.label != "fifo:40" {
            set.asked.policy = None;
        }
        set.applied.dma_latency_us = set.applied.dma_latency_us.or(Some(2_000_000_000));
    }
    let mut made = vec![Made::sleep("nanosleep", "as found", 52_300), Made::spin("spin_counter", "as found", 33)];
    for name in ["ppoll", "futex", "timerfd", "poll", "usleep"] {
        made.push(Made::sleep(name, "as found", 53_000));
    }
    let medians = [
        ("as found", 52_100),
        ("slack 1ns", 3_100),
        ("fifo:40", 3_100),
        ("memory locked", locked),
        ("dma latency 0us", awake),
        ("cpu 1", cpu),
    ];
    made.extend(medians.map(|(label, median)| Made::sleep("clock_nanosleep_abs", label, median)));
    run(&["punctual", "checkup"], sets, &made)
}

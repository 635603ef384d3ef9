//! A series: one subject under one set of parameters and conditions, and its figures.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{Experiment, words};
use crate::model::summary::{Summary, flat, tight};
use crate::statistics::{CONFIDENCE, binomial_upper_tail};

/// Fewest rounds with an interval (6 samples or more) for a verdict.
const MIN_ROUNDS: u64 = 3;

/// False-alarm rate: chance alone makes fewer than 1 of 100 steady series unsteady.
const SIGNIFICANCE: f64 = 0.01;

/// A round's interval must miss the series' median by more than this share of it. A smaller drift changes no decision.
const RELEVANT_SHARE: f64 = 0.05;

/// One subject, one set of parameters, one set of conditions: all its samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// The experiment, what it was asked and what came out beside the samples.
    #[serde(flatten)]
    pub experiment: Experiment,
    /// The subject, for instance `nanosleep`.
    pub subject: String,
    /// What the subject is.
    #[serde(flatten)]
    pub about: About,
    /// Label of the conditions it was measured under (`Run::conditions`).
    pub conditions: String,
    /// What the figures are.
    pub quantity: Quantity,
    /// Always `ns`.
    pub unit: String,
    /// The figures over all rounds.
    #[serde(flatten)]
    pub summary: Summary,
    /// CPU time of the measured thread per operation, the probe's own included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// The same as a share of elapsed time, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Times per operation that the thread gave up the CPU itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches_per_op: Option<f64>,
    /// Times per operation that the thread was preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches_per_op: Option<f64>,
    /// The samples that are zero or more: HdrHistogram V2, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// The magnitudes of the samples below zero: HdrHistogram V2, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_histogram: Option<String>,
    /// Every sample in order, for the experiments whose order matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<i64>>,
    /// The same figures, round by round.
    pub rounds: Vec<RoundFigures>,
    /// In a merged run: the figures of each run that has this series, in the order of [`Run::merged_from`](super::Run::merged_from).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl Series {
    /// The same without the resources used: its samples are no operations of the measured thread.
    #[must_use]
    pub fn without_use(self) -> Self {
        Self {
            cpu_ns_per_op: None,
            cpu_share: None,
            voluntary_switches_per_op: None,
            involuntary_switches_per_op: None,
            ..self
        }
    }

    /// Whether its rounds differ by more than their samples explain; `None` with fewer than 3 rounds that have an
    /// interval (6 samples or more).
    #[must_use]
    pub fn steadiness(&self) -> Option<Steadiness> {
        let median = self.summary.p50?;
        let tolerance = (median.unsigned_abs() as f64 * RELEVANT_SHARE) as i64;
        let intervals: Vec<_> = self.rounds.iter().filter_map(|round| round.summary.ci95.p50).collect();
        let rounds = intervals.len() as u64;
        if rounds < MIN_ROUNDS {
            return None;
        }
        let misses = intervals.iter().filter(|interval| {
            median < interval.low.saturating_sub(tolerance) || median > interval.high.saturating_add(tolerance)
        });
        let deviating = misses.count() as u64;
        Some(Steadiness { rounds, deviating, probability: binomial_upper_tail(rounds, 1.0 - CONFIDENCE, deviating) })
    }
}

/// Whether the rounds of a series differ by more than their samples explain.
///
/// If nothing changes between rounds, the 95 % interval of a round's median encloses the series' median. That holds in
/// at least 95 of 100 rounds. The rounds whose interval misses it are counted and compared with the binomial
/// distribution of such misses. If the probability of at least that number is below `SIGNIFICANCE`, the machine
/// drifted or was disturbed. Consecutive samples are never quite independent, so a miss also has to be relevant. It
/// must be more than `RELEVANT_SHARE` of the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// Number of rounds that could be judged.
    pub rounds: u64,
    /// Number of those whose median differs from the series' median, significantly and by a relevant amount.
    pub deviating: u64,
    /// Upper bound of the probability of at least this many misses in a steady series.
    pub probability: f64,
}

impl Steadiness {
    /// Whether the rounds differ by more than chance explains.
    #[must_use]
    pub fn is_unsteady(&self) -> bool {
        self.probability < SIGNIFICANCE
    }
}

/// What a subject is, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct About {
    /// Its kind, for instance `sleep`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The call that is measured, for instance `nanosleep(&duration, &remaining)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The line that a program writes to use it: C, or Rust where it is Rust's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Where it waits until a deadline: the subject that is the same call for a duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative: Option<String>,
}

impl About {
    /// Whether its call or line is Rust: C has no `::`.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        [&self.call, &self.code].into_iter().flatten().any(|text| text.contains("::"))
    }
}

/// What one run contributed to a series of a merged run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// Which run: its place in [`Run::merged_from`](super::Run::merged_from), from 0.
    pub source: u32,
    /// How many of the series' rounds are its; they stand in the order of the parts.
    pub rounds: u32,
    /// Its figures.
    #[serde(flatten)]
    pub summary: Summary,
    /// CPU time per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
}

flat! { Series {
    subject: String,
    conditions: String,
    quantity: Quantity,
    unit: String,
    cpu_ns_per_op: Option<f64>,
    cpu_share: Option<f64>,
    voluntary_switches_per_op: Option<f64>,
    involuntary_switches_per_op: Option<f64>,
    histogram: Option<String>,
    negative_histogram: Option<String>,
    samples: Option<Vec<i64>>,
    #[serde(deserialize_with = "tight")]
    rounds: Vec<RoundFigures>,
    #[serde(default)]
    parts: Vec<Part>,
} of {
    experiment: String,
    parameters: Value,
    metrics: Option<Value>,
    kind: Option<String>,
    call: Option<String>,
    code: Option<String>,
    relative: Option<String>,
} where
    experiment = Experiment::from_parts(experiment, parameters, metrics).map_err(D::Error::custom)?,
    // Older files have it in the name alone.
    about = About { kind, call, code, relative: relative.or_else(|| subject.strip_suffix("_abs").map(str::to_owned)) },
}

flat! { Part {
    source: u32,
    rounds: u32,
    cpu_ns_per_op: Option<f64>,
} }

flat! { RoundFigures {
    round: u32,
    started_ns: u64,
    cpu_ns_per_op: Option<f64>,
    involuntary_switches: Option<u64>,
    competitor_cpu_share: Option<f64>,
    own_cpu_share: Option<f64>,
} }

words! {
    /// What a series' figures are.
    pub enum Quantity {
        /// Elapsed minus asked, of a relative wait.
        Overshoot = "overshoot",
        /// Woke at minus deadline, signed.
        Lateness = "lateness",
        /// Distance between the gap of two events and their period, never negative.
        PeriodJitter = "period_jitter",
        /// From the call of send to the return of receive, in another process.
        OneWay = "one_way",
        /// There and back.
        RoundTrip = "round_trip",
        /// Duration of one call.
        CallCost = "call_cost",
        /// How long the caller was away from the CPU.
        Away = "away",
        /// Duration of a fixed piece of work.
        Loop = "loop",
        /// Duration of the same work right after a rest.
        FirstLoops = "first_loops",
        /// From a change being made to its effect.
        Settling = "settling",
        /// From an activation to the end of its work.
        Response = "response",
    }
}

impl Quantity {
    /// Whether it is lateness: the time by which an event is late, or that a message is under way. A work loop, the cost
    /// of a call and a time that holds work are not.
    #[must_use]
    pub const fn is_lateness(self) -> bool {
        matches!(self, Self::Overshoot | Self::Lateness | Self::PeriodJitter | Self::OneWay | Self::RoundTrip)
    }
}

/// One round's figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundFigures {
    /// Round number, from 0.
    pub round: u32,
    /// When the batch began, since the start of the run.
    pub started_ns: u64,
    /// The figures.
    #[serde(flatten)]
    pub summary: Summary,
    /// CPU time per operation in this round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// Involuntary switches in this round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Share of the CPU that competitors got in this round, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_cpu_share: Option<f64>,
    /// Share of the CPU that the caller took meanwhile, 0 to 1; absent where the round was shorter than some time slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_cpu_share: Option<f64>,
}

// What a remedy is to a program: what to write, and what it costs.

/// What to write. Absent: there is nothing to write in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Code {
    /// In C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c: Option<String>,
    /// In Rust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rust: Option<String>,
    /// In Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// In a shell, for a program as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
}

impl Code {
    /// This text, in the language of its series.
    #[must_use]
    pub fn of_series(about: &About, text: Option<String>) -> Self {
        let (rust, c) = if about.is_rust() { (text, None) } else { (None, text) };
        Self { c, rust, ..Self::default() }
    }

    /// The languages that have something to write, with their names.
    pub fn languages(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [("C", &self.c), ("Rust", &self.rust), ("Python", &self.python), ("shell", &self.shell)];
        all.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)))
    }
}

/// What a remedy costs. Empty: nothing known to be needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// The privilege that the program needs: `CAP_SYS_NICE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privilege: Option<String>,
    /// What it does to energy or heat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<String>,
    /// What it takes from other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
    /// What it changes in the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

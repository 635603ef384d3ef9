//! A whole run: the request, the machine and the results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::summary::is_zero;
use super::{Causes, ConditionSet, Hint, Host, Limit, Notice, Series};
use crate::experiment::Param;

/// The name and version of this format, as it stands in every file.
pub const SCHEMA: &str = "punctual.run/2";

/// Everything one invocation of `punctual` measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// `punctual.run/2`.
    pub schema: String,
    /// The program that measured.
    pub tool: Tool,
    /// When the measurement began (UTC, RFC 3339).
    pub started: jiff::Timestamp,
    /// How long it took, by the monotonic clock.
    pub elapsed_ns: u64,
    /// False when the run was interrupted or ended before its time (a notice says why): what is here was measured, the rest is missing.
    pub complete: bool,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The subcommand that measured: `checkup`, `wait`, `governor ramp`, ...; in a merged run that of the runs.
    pub subcommand: String,
    /// The machine.
    pub host: Host,
    /// The conditions under which series were measured; a series names one by its label.
    pub conditions: Vec<ConditionSet>,
    /// The clock that took the time.
    pub clock: Clock,
    /// The figures of at most 100 000 series.
    #[serde(deserialize_with = "super::summary::bounded")]
    pub series: Vec<Series>,
    /// What was asked for and could not be measured, and why.
    pub not_measured: Vec<NotMeasured>,
    /// What a reader of the figures ought to know.
    pub notices: Vec<Notice>,
    /// How much else happened on the machine meanwhile.
    pub disturbance: Disturbance,
    /// The limits that the run was asked to keep; its reports begin with the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Why threads woke up late, where it was asked for and permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Causes>,
    /// The ways of calls through the kernel, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<CallPath>,
    /// The runs that were merged into this one, in order; empty when it was measured as it stands. In a merged run, `host` holds the
    /// facts that all of them share, `started` is that of the earliest, `elapsed_ns` the sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged_from: Vec<Source>,
}

/// A run that was merged into another: all but its figures, which stand in [`Series::parts`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// The program that measured.
    pub tool: Tool,
    /// When the measurement began.
    pub started: jiff::Timestamp,
    /// How long it took.
    pub elapsed_ns: u64,
    /// False when it was interrupted.
    pub complete: bool,
    /// The command line.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// The clock.
    pub clock: Clock,
    /// What else happened meanwhile.
    pub disturbance: Disturbance,
}

impl Run {
    /// The runs inside: itself, or those merged into it.
    #[must_use]
    pub fn sources(&self) -> Vec<Source> {
        if !self.merged_from.is_empty() {
            return self.merged_from.clone();
        }
        vec![Source {
            tool: self.tool.clone(),
            started: self.started,
            elapsed_ns: self.elapsed_ns,
            complete: self.complete,
            command: self.command.clone(),
            host: self.host.clone(),
            clock: self.clock.clone(),
            disturbance: self.disturbance.clone(),
        }]
    }

    /// Whether it is a check-up.
    #[must_use]
    pub fn is_checkup(&self) -> bool {
        self.subcommand == "checkup"
    }
}

/// The program that made a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// `punctual`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The clock that took the time, and what one reading of it costs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clock {
    /// `CLOCK_MONOTONIC`, or the CPU's counter.
    pub source: String,
    /// Median cost of one reading. It is contained in every figure, never subtracted.
    pub read_ns: f64,
    /// What `clock_getres(2)` says.
    pub resolution_ns: u64,
    /// The smallest difference ever seen between two readings that differ.
    pub granularity_ns: u64,
}

/// A subject that was asked for and has no figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotMeasured {
    /// The experiment, for instance `wait`.
    pub experiment: String,
    /// The subject, for instance `umwait`.
    pub subject: String,
    /// The conditions' label, where the reason is peculiar to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// The parameters ([`Experiment::parameters`](crate::Experiment::parameters)), where the reason is peculiar to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Param>,
    /// Why it was not measured.
    pub why: String,
    /// What would make it measurable, where something would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Hint>,
}

/// What else happened while the run measured. Absent: the machine does not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// Time the hypervisor gave to others, summed over all CPUs (`/proc/stat`, steal). Counted in ticks of 10 ms.
    pub steal_ns: Option<u64>,
    /// That time as a share of the CPUs' time, 0 to 1.
    pub steal_share: Option<f64>,
    /// Times the measuring threads were preempted (`getrusage(2)`, `ru_nivcsw`).
    pub involuntary_switches: Option<u64>,
    /// Interrupts served by all CPUs (`/proc/stat`, intr); includes the timer interrupts that the measurement asked for.
    pub interrupts: Option<u64>,
    /// Context switches of the whole machine (`/proc/stat`, ctxt); includes the measurement's own.
    pub context_switches: Option<u64>,
    /// Share of all CPUs' time spent by anything but idling, 0 to 1; includes the measurement itself.
    pub busy_share: Option<f64>,
    /// Share of the last 10 s that some task waited for a CPU when the run began (`/proc/pressure/cpu`), 0 to 1.
    pub cpu_pressure_before: Option<f64>,
    /// Major page faults of the process during the run (`ru_majflt`).
    pub major_faults: Option<u64>,
    /// Other processes that used the CPUs most, at most three, the busiest first. Empty: none that could be seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<BusyProcess>,
}

/// Another process that used the CPUs during the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyProcess {
    /// Its name (`/proc/PID/stat`, comm).
    pub name: String,
    /// Its process ID.
    pub pid: u32,
    /// Its share of all CPUs' time, 0 to 1; includes children that it waited for.
    pub cpu_share: f64,
}

/// The way of a call through the kernel, of the median among those recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallPath {
    /// The way to wait or to yield: `sched_yield`.
    pub method: String,
    /// The call in C.
    pub call: String,
    /// What recorded it.
    pub source: PathSource,
    /// How long it took, ns; recording included.
    pub took_ns: u64,
    /// Its steps in the order of time.
    pub steps: Vec<PathStep>,
    /// Calls recorded.
    pub recorded: u64,
    /// Calls left out because an interrupt came in.
    pub interrupted: u64,
    /// Steps beyond those kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_off: u64,
}

/// What recorded a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathSource {
    /// The tracer `function_graph`: every function of the kernel.
    FunctionGraph,
    /// Tracepoints: what happened, not the functions.
    Events,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathStep {
    /// How deep it is called; 0 is the system call.
    pub depth: u32,
    /// The function, or the event.
    pub name: String,
    /// From the first step, ns; absent where the tracer does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// How long the function took, with all it called, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<u64>,
}

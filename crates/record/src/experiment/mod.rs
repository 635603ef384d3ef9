//! What each experiment was asked ([`Parameters`](wait::Parameters)) and what came out of it beside its samples ([`Metrics`](wait::Metrics)).
//!
//! A module of types and a line in [`Experiment`] per experiment. Parameters are identity: two series measure the same thing
//! exactly when parameters, subject, quantity and conditions are equal. Metrics are results: comparisons never match by
//! them, and merging combines them by the rule of each field. Labels, columns and file names list the parameters by
//! [`Experiment::parameters`].
//!
//! Units: nanoseconds where the name ends in `_ns`, bytes for `size`, kHz for `_khz`. Shares are from 0 to 1 for `_share`, and
//! events a second for `_per_second`.

#[macro_use]
mod metrics;

mod messages;
mod speed;
mod waits;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

pub use messages::{ipc, pace, sweep};
pub use metrics::Typed;
pub(crate) use metrics::words;
pub use speed::{boost, ramp, switch};
pub use waits::{calibrate, calls, cyclic, polls, wait, yielding};

experiments! {
    /// Ways of waiting, one by one.
    Wait(WAIT = "wait", wait) = wait,
    /// The library's sleeper interleaved with the call that it replaces.
    OnTime(ON_TIME = "on_time", wait) = on_time,
    /// What a call to yield costs, and who runs meanwhile.
    Yield(YIELD = "yield", yielding) = yields,
    /// A receiver that polls, yields or blocks for a message.
    Polls(POLLS = "polls", polls) = polls,
    /// Messages between two processes.
    Ipc(IPC = "ipc", ipc) = ipc,
    /// Datagrams sent at a rate.
    Pace(PACE = "pace", pace) = pace,
    /// The highest rate that a method of pacing holds.
    Sweep(SWEEP = "sweep", sweep) = sweep,
    /// What a sleep adds, and what reading the clock costs.
    Calibrate(CALIBRATE = "calibrate", calibrate) = calibrate,
    /// Loops from rest to full speed.
    Ramp(RAMP = "ramp", ramp) = ramp,
    /// How fast a change of governor takes effect.
    Switch(SWITCH = "switch", switch) = switch,
    /// A periodic task as found, boosted and at full speed.
    Boost(BOOST = "boost", boost) = boost,
    /// Threads that wake up at regular intervals, one for each CPU.
    Cyclic(CYCLIC = "cyclic", cyclic) = cyclic,
    /// The waits of a program by call site, counted without privilege. The subject is the function.
    Calls(CALLS = "calls", calls) = calls,
}

/// An experiment that this version does not know.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Other {
    /// Its name.
    #[serde(rename = "experiment")]
    pub name: String,
    /// What was asked.
    #[serde(default)]
    pub parameters: BTreeMap<String, Param>,
    /// What came out beside the samples.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Param>,
}

impl<'de> Deserialize<'de> for Experiment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts {
            experiment: String,
            parameters: Value,
            metrics: Option<Value>,
        }
        let Parts { experiment, parameters, metrics } = Parts::deserialize(deserializer)?;
        Self::from_parts(experiment, parameters, metrics).map_err(D::Error::custom)
    }
}

impl Experiment {
    /// The wait behind a series of [`Experiment::Wait`] or [`Experiment::OnTime`].
    #[must_use]
    pub fn any_wait(&self) -> Option<&Typed<wait::Parameters, wait::Metrics>> {
        self.wait().or_else(|| self.on_time())
    }
}

/// A value of known type and unknown meaning: of a parameter, a metric or a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Param {
    /// Yes or no.
    Flag(bool),
    /// A count, or nanoseconds where the name ends in `_ns`.
    Int(i64),
    /// A ratio.
    Real(f64),
    /// A word.
    Text(String),
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Int(n) => n.fmt(f),
            Self::Real(x) => x.fmt(f),
            Self::Text(text) => f.pad(text),
        }
    }
}

/// The fields of a struct as names and values, absent ones left out.
fn fields<T: Serialize>(value: &T) -> BTreeMap<String, Param> {
    let Ok(Value::Object(object)) = serde_json::to_value(value) else { return BTreeMap::new() };
    object.into_iter().filter_map(|(name, value)| Some((name, param(value)?))).collect()
}

fn param(value: Value) -> Option<Param> {
    Some(match value {
        Value::Bool(flag) => Param::Flag(flag),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Param::Int(int),
            None => Param::Real(number.as_f64()?),
        },
        Value::String(text) => Param::Text(text),
        // A map or a list is no label.
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    })
}

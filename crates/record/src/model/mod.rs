//! The record: one [`Run`] and everything in it, as it stands in the JSON file.
//!
//! Integers are nanoseconds unless their name says otherwise. A figure that the samples do not support is absent, never
//! zero; a fact that the machine does not tell is absent, never "fine".

mod conditions;
mod flat;
mod host;
mod notice;
mod run;
mod series;

pub use conditions::{Applied, Asked, ConditionSet, Refusal};
pub use flat::MOST_SERIES;
pub use host::{Cpufreq, Cpuidle, Host, RtLimits};
pub use notice::{Notice, PauseCause};
pub use run::{Clock, Disturbance, NotMeasured, Run, SCHEMA, Source, Tool};
pub use series::{Ci95, Interval, Param, Part, Quantity, RoundFigures, Series, Summary};

//! The record: a [`Run`] and its parts, as stored in the JSON file.
//!
//! Integers are nanoseconds unless their name says otherwise. A figure that the samples do not support is absent, never
//! zero. A fact that the machine does not report is absent, never "fine".

mod causes;
mod code;
mod conditions;
mod flat;
mod host;
mod notice;
mod run;
mod series;
mod summary;
mod trial;

pub use causes::{
    Activity, CallCauses, Cause, CauseSource, CauseTime, Causes, ChainLink, LatePart, LateWake, Program, Stretch,
    Unseen, Unsplit, WakePart, Waker, WatchEffect,
};
pub use code::{Code, Price};
pub use conditions::{CPU, ConditionSet, DMA_LATENCY, NICE, POLICY, Refusal, Setting, TIMER_SLACK};
pub use flat::MOST_SERIES;
pub use host::{Cpufreq, Cpuidle, Host, RtLimits};
pub use notice::{Notice, PauseCause};
pub use run::{
    BusyProcess, CallPath, Clock, Disturbance, NotMeasured, PathSource, PathStep, Run, SCHEMA, Source, Tool,
};
pub use series::{About, Part, Quantity, RoundFigures, Series, Steadiness};
pub use summary::{Ci95, Interval, Key, Limit, Spread, Summary};
pub use trial::{Trial, TrialBlock, TrialPair, TrialRefused};

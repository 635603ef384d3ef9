//! The record: a [`Run`] and its parts, as stored in the JSON file.
//!
//! Integers are nanoseconds unless their name says otherwise. A figure that the samples do not support is absent, never
//! zero. A fact that the machine does not report is absent, never "fine".

mod budget;
mod caller;
mod causes;
mod hint;
mod host;
mod notice;
mod redact;
mod run;
mod series;
mod summary;

pub use budget::{
    Budget, BudgetCheck, BudgetSource, Counter, Loss, LossKind, LossPlace, MemoryLimit, Pressure, Quota, Resource,
    Spent, Steal, Stop, StopSignal, Thing, ThreadBudget, ThreadPolicy, TimePart, Turns, WatchCost, Who,
};
pub use caller::{Caller, Frame, SourceLine, interprets};
pub use causes::{
    Activity, CallCauses, Cause, CauseSource, CauseTime, Causes, ChainLink, CulpritPolicy, LatePart, LateWake, Program,
    Stretch, Trial, TrialBlock, TrialPair, TrialRefused, Unseen, Unsplit, WakePart, Waker, WatchEffect,
};
pub use hint::{Ask, Hint};
pub use host::{
    CPU, ConditionSet, Cpufreq, Cpuidle, DMA_LATENCY, FairServer, Host, NICE, POLICY, Refusal, RtLimits, Setting,
    TIMER_SLACK,
};
pub use notice::{Notice, PauseCause};
pub use run::{
    BusyProcess, CallPath, Clock, Disturbance, NotMeasured, PathSource, PathStep, Run, SCHEMA, Source, Tool,
};
pub use series::{About, Code, Part, Price, Quantity, RoundFigures, Series, Steadiness};
pub use summary::{Ci95, Interval, Key, Limit, MOST_SERIES, Spread, Summary};

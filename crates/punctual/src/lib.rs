//! Be on time: clocks, conditions and waiting for Linux programs.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod breather;
pub mod conditions;
pub mod counter;
pub mod cpufreq;
pub mod duration;
pub mod ipc;
mod rt_time_limit;
pub mod watchdog;

pub use backoff::Backoff;
pub use breather::Breather;
pub use conditions::{Applied, Condition, Conditions, CpuSet, Guard, NotRestored, Policy, Refused};
pub use duration::{ShortDuration, format_duration, parse_duration};
pub use watchdog::{Limits, Tripped, Watchdog};

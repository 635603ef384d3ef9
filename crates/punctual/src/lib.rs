//! Be on time: clocks, conditions and waiting for Linux programs.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod breather;
pub mod conditions;
pub mod counter;
pub mod cpufreq;
pub mod duration;
pub mod ipc;
pub mod margin;
pub mod pacer;
pub mod rate;
mod rt_time_limit;
pub mod sleeper;
pub mod ticker;
pub mod time;
pub mod watchdog;

pub use backoff::Backoff;
pub use breather::Breather;
pub use conditions::{Applied, Condition, Conditions, CpuSet, Guard, Lost, NotRestored, Policy, Refused};
pub use duration::{ShortDuration, format_duration, parse_duration};
pub use margin::{Aim, BadAim};
pub use pacer::{CatchUp, Pacer, PacerOptions, Turn};
pub use rate::{BadRate, Rate};
pub use sleeper::{Sleeper, SleeperOptions, Strategy, Wake};
pub use ticker::{Missed, Tick, Ticker, TickerOptions};
pub use time::{Clock, ManualClock, Moment, SystemClock};
pub use watchdog::{Limits, Tripped, Watchdog};

//! Kernel events into causes: why a thread woke up late.
//!
//! [`Tap`] records tracepoints of all CPUs, filtered in the kernel to what concerns the watched threads.
//! [`Watch`] follows the threads and gives the causes. [`ChromeTrace`] writes the events as a file for Perfetto.
#![forbid(unsafe_code)]

mod budget;
mod catalog;
mod chrome;
mod clocks;
mod culprit;
mod error;
pub mod event;
mod filter;
mod follow;
mod format;
mod history;
mod label;
mod limits;
mod names;
mod path;
mod repeat;
mod source;
mod split;
mod stretches;
mod tally;
mod tap;
mod target;
mod thread;
mod times;
mod tracefs;
mod watch;
mod width;
mod worst;

pub use budget::{Counted, Ledger, functions_at};
pub use catalog::Level;
pub use chrome::ChromeTrace;
pub use error::{Error, Result};
pub use event::{Event, Kind};
pub use filter::Threads;
pub use path::PathRecorder;
pub use tap::{Batch, Room, Tap};
pub use target::Target;
pub use tracefs::Tracefs;
pub use watch::{WakeUp, Watch};

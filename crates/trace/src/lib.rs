//! Kernel events into causes: why a thread woke up late.
//!
//! [`Tap`] records tracepoints of all CPUs, filtered in the kernel to what concerns the watched threads.
//! [`Watch`] follows the threads and gives the causes.
#![forbid(unsafe_code)]

mod catalog;
mod error;
pub mod event;
mod filter;
mod format;
mod tap;
mod tracefs;
mod watch;

pub use catalog::Level;
pub use error::{Error, Result};
pub use event::{Event, Kind};
pub use filter::Threads;
pub use tap::{Batch, Tap};
pub use tracefs::Tracefs;
pub use watch::{Target, Watch};

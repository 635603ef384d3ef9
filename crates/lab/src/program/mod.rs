//! Another program: why its threads wake up late.
//!
//! The input is a process, running or about to be executed. The output is [`Causes`](punctual_record::Causes). Where the kernel
//! refuses its events, the scheduler's account remains: the CPU time of the threads, and their time of waiting for a CPU.
//!
//! The watched program is not stopped, traced or changed.

mod losses;
mod process;
mod watcher;

pub(crate) use process::{Family, Times, belongs_to_caller};
pub use process::{Process, Refused, State};
pub use watcher::{Account, Depth, Watcher};

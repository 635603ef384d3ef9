//! Another program: why its threads wake up late.
//!
//! What goes in is a process, running or about to be executed. What comes out are [`Causes`](punctual_record::Causes). Where the kernel
//! refuses its events, the scheduler's own account remains: the CPU time of the threads, and how long they waited for a CPU.
//!
//! The watched program is not stopped, traced or changed.

mod account;
mod process;
pub(crate) mod threads;
mod watcher;

pub use account::Account;
pub use process::{Process, Refused};
pub use watcher::Watcher;

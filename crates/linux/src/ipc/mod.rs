//! Interprocess communication: safe wrappers of shared memory and of the kernel's queues, semaphores and signals.
//!
//! Measured calls go through the C library where possible. Every call that can wait ends with EINTR after a signal handler; the
//! caller decides whether to continue.

pub mod condition;
mod copy;
pub mod fd;
pub mod hold;
pub mod lock;
pub mod mailbox;
pub mod memory;
pub mod queue;
pub mod region;
pub mod semaphore;
pub mod signals;
pub mod splice;
pub mod sysv;

pub use region::Region;

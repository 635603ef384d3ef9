//! Interprocess communication: safe wrappers of shared memory and of the kernel's queues, semaphores and signals.
//!
//! Measured calls go through the C library where possible. Every call that can wait ends with EINTR after a signal handler; the
//! caller decides whether to continue.

pub mod fd;
pub mod lock;
pub mod memory;
pub mod queue;
pub mod semaphore;
pub mod signals;
pub mod sysv;

pub use memory::Region;

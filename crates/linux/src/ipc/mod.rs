//! Communication between processes: shared memory and the kernel's queues, semaphores and signals, made safe.
//!
//! What std and rustix already offer (pipes, sockets, eventfd, shared futexes) is not repeated here.

mod copy;
pub mod lock;
pub mod memory;
pub mod region;

pub use region::Region;

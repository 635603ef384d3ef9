//! `io_uring(7)`: timeouts, and messages between two processes.

mod messages;
mod timeout;

pub use messages::MessageRing;
pub use timeout::RingTimeout;

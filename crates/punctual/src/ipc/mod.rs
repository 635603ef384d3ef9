//! Messages between two processes.
//!
//! [`Ring`] is a channel from one process to one other through shared memory. For everything else (pipes, sockets, POSIX queues)
//! std and rustix have what is needed; `punctual ipc` measures them all side by side.

pub mod ring;

pub use ring::{ReceiveError, Receiver, Ring, RingError, SendError, Sender, Waiting};

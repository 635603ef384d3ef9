//! Messages between two processes.
//!
//! [`Ring`] is a channel from one process to another through shared memory. std and rustix have pipes, sockets and POSIX queues;
//! `punctual ipc` compares them all.

pub mod ring;

pub use ring::{ReceiveError, Receiver, Ring, RingError, SendError, Sender, WaitStrategy};

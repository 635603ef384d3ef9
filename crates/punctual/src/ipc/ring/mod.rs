//! [`Ring`]: messages of any size from one process to another through shared memory. It takes no lock, and makes a system call only to
//! sleep or to wake the other side.
//!
//! One side takes the [`Sender`], the other the [`Receiver`]. [`Sender::try_send`] is wait-free: it copies the message, or returns
//! [`SendError::Full`]. A receiver spins, backs off or sleeps ([`WaitStrategy`]); so does a sender that waits for room.
//!
//! An anonymous ring lies in a memfd, which the peer inherits or receives over a Unix socket ([`Ring::anonymous`], [`Ring::from_fd`]). A
//! named one lies in /dev/shm ([`Ring::create`], [`Ring::open`]).
//!
//! # Trust
//! Nothing that the peer writes is used unchecked. A wrong length, a misplaced frame or a position out of bounds is
//! [`ReceiveError::Corrupt`] or [`SendError::Corrupt`], never a crash. One thing cannot be checked: a file that shrinks while it is mapped
//! ends the process with SIGBUS. So a memfd must be sealed against that. A file in /dev/shm cannot be sealed. Its mode is 0600, but root
//! and processes of the same user can truncate it. If you do not trust them, use an anonymous ring.
//!
//! A file is examined before it is mapped: owner (if named), seals (if a memfd), header, length and holes.
//!
//! # Layout, version 1
//! Integers have the machine's byte order. A position is the number of bytes ever written; its place in the data is the position
//! modulo the capacity.
//!
//! | offset | type | content |
//! |---:|---|---|
//! | 0 | u64 | magic: the bytes `PNCTRING`, written last: a ring with it is complete |
//! | 8 | u32 | version: 1 |
//! | 12 | u32 | offset of the data: 4096 |
//! | 16 | u64 | capacity in bytes, a power of two, 4 KiB to 4 GiB |
//! | 128 | u64 | tail: position of the sender's next frame; for a sender that takes over |
//! | 136 | u32 | futex: 1 while the receiver sleeps on it (set by the receiver, cleared by the sender) |
//! | 140 | u32 | the sender: 0 never attached, 1 attached, 2 closed |
//! | 256 | u64 | head: everything before it has been received |
//! | 264 | u32 | futex: 1 while the sender sleeps on it |
//! | 268 | u32 | the receiver: 0, 1, 2 as above |
//! | 4096 | | data: consecutive frames |
//!
//! A frame is a word and the message, padded to 8 bytes. The word is 0 without a message. Otherwise its lower half is the message's length,
//! and its upper half a mark computed from the position ([`layout::mark`]). Before publishing a frame, the sender clears the word *after*
//! it, so old bytes never pass for a frame. The receiver thus finds length and message in one cache line, and reads no index.
//!
//! The sender locks byte 0 of the file, the receiver byte 1 (F_OFD_SETLK, `fcntl(2)`). The kernel releases the locks when a process ends,
//! so each side can check whether the other lives. A forked child does not inherit the lock ([`punctual_linux::ipc::lock`]). So an end is
//! free as soon as its owner drops it, ends or calls execve(2). Its children do not matter.
//!
//! ```
//! use punctual::ipc::{Ring, WaitStrategy};
//!
//! let ring = Ring::anonymous(64 << 10)?;
//! let mut sender = ring.sender()?;
//! let mut receiver = ring.receiver()?; // in the other process
//! sender.try_send(b"hello")?;
//! let mut message = [0; 100];
//! let n = receiver.receive(&mut message, WaitStrategy::Sleep)?;
//! assert_eq!(&message[..n], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ends;
mod error;
mod file;
pub mod layout;
mod memory;
mod wait_strategy;
mod writer;

#[cfg(all(test, loom))]
mod model;
#[cfg(test)]
mod tests;

pub use ends::{Receiver, Sender};
pub use error::{ReceiveError, RingError, SendError};
pub use file::Ring;
pub use wait_strategy::WaitStrategy;

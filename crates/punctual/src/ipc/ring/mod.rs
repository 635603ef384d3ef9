//! [`Ring`]: messages of any size from one process to one other, through shared memory, without a lock and, unless somebody has
//! to sleep, without a system call.
//!
//! One side takes the [`Sender`], the other the [`Receiver`]. [`Sender::try_send`] is wait-free: it copies the message and returns,
//! or says that the ring is full. The receiver spins, backs off or sleeps ([`Waiting`]); so does a sender that waits for room.
//!
//! The ring lies in a memfd that the peer inherits or is handed over a Unix socket ([`Ring::anonymous`], [`Ring::from_fd`]), or
//! has a name in /dev/shm ([`Ring::create`], [`Ring::open`]).
//!
//! # Trust
//! Nothing that the peer writes is used unchecked. A length that does not fit, a frame that is not where it must be or a position out
//! of bounds is [`ReceiveError::Corrupt`] or [`SendError::Corrupt`], never a crash. The one thing that cannot be checked is a file that
//! shrinks while it is mapped: touching it then ends the process with SIGBUS. A memfd is refused unless it is sealed against that.
//! A file in /dev/shm cannot be sealed. Its mode is 0600, so only root and processes of the same user can truncate it; where
//! that is too much trust, hand over an anonymous ring.
//!
//! A file is examined before it is mapped: owner (of a named one), seals (of a memfd), header, length, and whether it has holes.
//!
//! # Layout, version 1
//! Integers in the machine's own byte order. A position is the number of bytes ever written; its place in the data is the position
//! modulo the capacity.
//!
//! | offset | type | what |
//! |---:|---|---|
//! | 0 | u64 | magic: the bytes `PNCTRING`; written last, so a ring is whole once it is there |
//! | 8 | u32 | version: 1 |
//! | 12 | u32 | offset of the data: 4096 |
//! | 16 | u64 | capacity in bytes, a power of two, 4 KiB to 4 GiB |
//! | 128 | u64 | tail: where the sender writes next; for a sender that takes over |
//! | 136 | u32 | 1 while the receiver sleeps on this word (written by it, cleared by the sender): a futex |
//! | 140 | u32 | the sender: 0 never there, 1 there, 2 left in order |
//! | 256 | u64 | head: everything before it has been received |
//! | 264 | u32 | 1 while the sender sleeps on this word: a futex |
//! | 268 | u32 | the receiver: 0, 1, 2 as above |
//! | 4096 | | data: frames, one after the other |
//!
//! A frame is a word and the message, padded to 8 bytes. The word is 0 while there is no message; otherwise its lower half is the
//! message's length and its upper half a mark that follows from the position ([`layout::mark`]). The sender clears the word *after* the
//! frame before it publishes the frame, so old bytes are never taken for a frame. The receiver thus finds length and
//! message in one cache line, and looks at no index.
//!
//! Byte 0 of the file is locked by the sender, byte 1 by the receiver (`fcntl(2)`, F_OFD_SETLK): the kernel gives the locks back when a process
//! ends, so each side knows whether the other is there. A forked child does not inherit the lock ([`punctual_linux::ipc::hold`]): an end is
//! free as soon as its owner drops it, ends or executes another program, although a child of the owner lives on.
//!
//! ```
//! use punctual::ipc::{Ring, Waiting};
//!
//! let ring = Ring::anonymous(64 << 10)?;
//! let mut sender = ring.sender()?;
//! let mut receiver = ring.receiver()?; // in the other process
//! sender.try_send(b"hello")?;
//! let mut message = [0; 100];
//! let n = receiver.receive(&mut message, Waiting::Sleep)?;
//! assert_eq!(&message[..n], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ends;
mod error;
mod file;
pub mod layout;
mod memory;
mod reader;
mod waiting;
mod writer;

#[cfg(all(test, loom))]
mod model;
#[cfg(test)]
mod tests;

pub use ends::{Receiver, Sender};
pub use error::{ReceiveError, RingError, SendError};
pub use file::Ring;
pub use waiting::Waiting;

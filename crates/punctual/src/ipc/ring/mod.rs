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

use layout::{GREATEST, LEAST, VERSION};
use rustix::io::Errno;

use crate::need::Need;

mod ends;
mod file;
pub mod layout;
mod writer;

#[cfg(all(test, loom))]
mod model;

pub use ends::{Receiver, Sender, WaitStrategy};
pub use file::Ring;

/// A ring could not be created, opened or attached to. [`RingError::needs`] says what it lacks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] punctual_linux::Error),
    /// An invalid capacity in bytes.
    #[error(
        "invalid ring capacity {0}: {LEAST} to {GREATEST} bytes, at most what this machine can map (example: 65536)"
    )]
    Capacity(u64),
    /// A name that shm_open(3) refuses.
    #[error("invalid ring name '{0}': a slash, then 1 to 254 bytes without slash or zero byte (example: /my-ring)")]
    Name(String),
    /// The file is not a ring.
    #[error("not a ring: the file begins with {found:02x?} instead of \"PNCTRING\"")]
    NotARing {
        /// Its first eight bytes.
        found: [u8; 8],
    },
    /// The file's length differs from that of its header.
    #[error("not a ring, or truncated: the file has {found} bytes instead of {expected}")]
    Length {
        /// Length of the file.
        found: u64,
        /// Length by the header.
        expected: u64,
    },
    /// The ring is not complete: its creator still initialises it, or died. `Ring::remove` frees its name.
    #[error("ring not initialised, or its creator died")]
    NotReady,
    /// Another version of the layout.
    #[error("ring layout version {found} is not supported, only {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The header contradicts itself.
    #[error("ring header damaged: {0}")]
    Damaged(&'static str),
    /// The named ring belongs to another user.
    #[error("the ring belongs to user {owner}")]
    NotYours {
        /// The user ID of its owner.
        owner: u32,
    },
    /// A sparse file; the creator of a ring allocates all of it.
    #[error("not a ring, or a sparse file: only {allocated} of {len} bytes are allocated")]
    Holes {
        /// Bytes allocated.
        allocated: u64,
        /// Length of the file.
        len: u64,
    },
    /// The memfd could shrink while it is mapped.
    #[error("the memfd is not sealed: truncating it would end this process (SIGBUS)")]
    NotSealed,
    /// This end is taken.
    #[error("the ring already has a {0}: one process sends, one receives")]
    Taken(&'static str),
}

impl RingError {
    /// What would let it succeed.
    #[must_use]
    pub fn needs(&self) -> Need {
        match self {
            Self::Kernel(error) => match Errno::from_raw_os_error(error.errno()) {
                Errno::EXIST => Need::FreeName,
                Errno::NOENT => Need::CreatedFirst,
                Errno::ACCESS => Need::PassedDescriptor,
                Errno::NOSPC | Errno::NOMEM => Need::SharedMemory,
                Errno::MFILE | Errno::NFILE => Need::FileLimit,
                _ => Need::Unknown,
            },
            Self::Capacity(_) | Self::Name(_) => Need::WithinBounds,
            Self::NotARing { .. } | Self::Length { .. } | Self::Holes { .. } | Self::Damaged(_) => Need::ARing,
            Self::NotReady => Need::CreatedFirst,
            Self::Version { .. } => Need::SameVersion,
            Self::NotYours { .. } => Need::PassedDescriptor,
            Self::NotSealed => Need::SealedMemory,
            Self::Taken(_) => Need::FreeEnd,
        }
    }
}

/// A message could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room now.
    #[error("the ring is full")]
    Full,
    /// The message is larger than the ring carries.
    #[error("message of {len} bytes too large: the ring carries at most {largest}")]
    TooLarge {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the largest message that fits.
        largest: u64,
    },
    /// The receiver closed its end: no room will come.
    #[error("the receiver closed its end")]
    Closed,
    /// The receiver's process died.
    #[error("the receiver's process died")]
    PeerDied,
    /// The receiver wrote an invalid position.
    #[error("ring damaged: head {head}, tail {tail}")]
    Corrupt {
        /// The receiver's position.
        head: u64,
        /// The sender's position.
        tail: u64,
    },
    /// This process is a forked child of the one that took the end. Nothing was sent. It can take the end once it was dropped there.
    #[error("the sending end belongs to the process that forked this one")]
    Inherited,
    /// The kernel refused to wait: the error number of `futex(2)`.
    #[error("waiting for room failed: futex(2), error {0}")]
    Wait(i32),
}

/// A message could not be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The buffer is too short. The message stays in the ring.
    #[error("buffer of {room} bytes too short: the message has {len}")]
    TooShort {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// The sender closed its end, and all its messages were received.
    #[error("the sender closed its end; all messages were received")]
    Closed,
    /// The sender's process died, and all its messages were received.
    #[error("the sender's process died; all its messages were received")]
    PeerDied,
    /// The word at a position is not that of a frame.
    #[error("ring damaged: {found:#018x} at position {position} is not a frame")]
    Corrupt {
        /// The word found.
        found: u64,
        /// Its position.
        position: u64,
    },
    /// This process is a forked child of the one that took the end. No message was taken. It can take the end once it was dropped there.
    #[error("the receiving end belongs to the process that forked this one")]
    Inherited,
    /// The kernel refused to wait: the error number of `futex(2)`.
    #[error("waiting for a message failed: futex(2), error {0}")]
    Wait(i32),
}

#[cfg(test)]
mod tests;

//! What goes wrong with a ring.

use rustix::io::Errno;

use super::layout::{GREATEST, LEAST, VERSION};

/// A ring that could not be made, opened or taken part in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// The kernel refused.
    #[error("{0}; {remedy}", remedy = remedy(.0))]
    Kernel(#[from] punctual_linux::Error),
    /// A capacity that no ring has.
    #[error("a ring of {0} bytes: the capacity is {LEAST} to {GREATEST} bytes (and no more than this machine can map)")]
    Capacity(u64),
    /// A name that shm_open(3) does not take.
    #[error("'{0}' is no name for a ring: one slash at the beginning and none after it, 2 to 255 bytes, no zero byte")]
    Name(String),
    /// The file is not a ring.
    #[error("this file is no ring: it begins with {found:02x?} instead of \"PNCTRING\"; was another file handed over?")]
    NotARing {
        /// Its first eight bytes.
        found: [u8; 8],
    },
    /// The file is too short to be a ring, or not as long as it says.
    #[error("this file has {found} bytes and a ring like this would have {expected}: it is no ring, or it was cut off")]
    Length {
        /// What it has.
        found: u64,
        /// What it should have.
        expected: u64,
    },
    /// The ring is still being made, or its maker ended before it was whole.
    #[error("the ring is not whole yet: its maker is still at it, or ended early; try again, or take the name away")]
    NotReady,
    /// Another version of the layout.
    #[error(
        "the ring has layout version {found}, this program knows {VERSION}: use the same version of punctual on both sides"
    )]
    Version {
        /// What the file says.
        found: u32,
    },
    /// The header contradicts itself.
    #[error("the ring's header is damaged: {0}")]
    Damaged(&'static str),
    /// A name that another user made.
    #[error(
        "the ring belongs to user {owner}: a ring of another user is opened only when it is handed over (Ring::from_fd)"
    )]
    NotYours {
        /// The user ID of its owner.
        owner: u32,
    },
    /// A file with holes, which every ring's maker fills.
    #[error("only {allocated} of the ring's {len} bytes are allocated: it is no ring, or its file has holes")]
    Holes {
        /// Bytes that it takes.
        allocated: u64,
        /// Bytes that it says it has.
        len: u64,
    },
    /// The file may shrink while it is mapped.
    #[error(
        "this memfd may be cut off by whoever has it (SIGBUS): seal it with F_SEAL_SHRINK, as Ring::anonymous does"
    )]
    NotSealed,
    /// Somebody has this side already.
    #[error("the ring has a {0} already: one process sends, one receives")]
    Taken(&'static str),
}

fn remedy(error: &punctual_linux::Error) -> &'static str {
    match Errno::from_raw_os_error(error.errno()) {
        Errno::EXIST => "choose another name, or take this one away with Ring::remove",
        Errno::NOENT => "the other side must create it first; is /dev/shm (or /proc) mounted?",
        Errno::ACCESS => "it belongs to another user",
        Errno::NOSPC => "/dev/shm is full: a smaller ring, or a larger tmpfs (mount -o remount,size=)",
        Errno::NOMEM => "a smaller ring, or more memory",
        Errno::MFILE | Errno::NFILE => "too many open files (ulimit -n)",
        _ => "see the man page of the call",
    }
}

/// A message that could not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room now.
    #[error("the ring is full")]
    Full,
    /// No message of this size will ever fit.
    #[error("a message of {len} bytes does not fit a ring that carries up to {largest}: make the ring larger")]
    TooLarge {
        /// Its size.
        len: usize,
        /// The largest that fits.
        largest: u64,
    },
    /// The receiver left, in order: nobody will make room.
    #[error("the receiver has left")]
    Closed,
    /// The receiver's process ended without leaving.
    #[error("the receiver's process ended unexpectedly")]
    PeerDied,
    /// The receiver wrote what no receiver writes.
    #[error("the ring is damaged: its head is {head} and its tail {tail}")]
    Corrupt {
        /// What it says has been received.
        head: u64,
        /// What was sent.
        tail: u64,
    },
    /// The kernel refused to wait (error number of `futex(2)`).
    #[error("waiting for room failed: futex(2), error {0}")]
    Wait(i32),
}

/// A message that could not be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The buffer is too short. The message is still there.
    #[error("the message has {len} bytes, the buffer {room}")]
    TooShort {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// The sender left in order, and everything it sent has been received.
    #[error("the sender has left and everything is received")]
    Closed,
    /// The sender's process ended without leaving, and everything it sent has been received.
    #[error("the sender's process ended unexpectedly; what it sent is received")]
    PeerDied,
    /// There is no frame where one must be.
    #[error("the ring is damaged: {found:#018x} is no frame's word at position {position}")]
    Corrupt {
        /// What is there.
        found: u64,
        /// Where.
        position: u64,
    },
    /// The kernel refused to wait (error number of `futex(2)`).
    #[error("waiting for a message failed: futex(2), error {0}")]
    Wait(i32),
}

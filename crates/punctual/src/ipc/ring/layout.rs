//! The offsets in a ring's file. The [parent module](super) has the table.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_linux::futex::{self, Scope};
use punctual_linux::ipc::Region;
use punctual_linux::memory::full_fence;

/// `PNCTRING` in the machine's byte order.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"PNCTRING");
/// The layout version of this code.
pub const VERSION: u32 = 1;
/// Offset of the data, a page.
pub const DATA: usize = 4096;
/// Least capacity, in bytes.
pub const LEAST: u64 = 4096;
/// Greatest capacity, in bytes: what a 32-bit length can fill.
pub const GREATEST: u64 = 1 << 32;

pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = 8;
pub(super) const AT_DATA: usize = 12;
pub(super) const AT_CAPACITY: usize = 16;
pub(super) const AT_TAIL: usize = 128;
pub(super) const AT_RECEIVER_SLEEPS: usize = 136;
pub(super) const AT_SENDER: usize = 140;
pub(super) const AT_HEAD: usize = 256;
pub(super) const AT_SENDER_SLEEPS: usize = 264;
pub(super) const AT_RECEIVER: usize = 268;

/// Byte of the file that the sender locks.
pub(super) const SENDER_LOCK: u64 = 0;
/// Byte of the file that the receiver locks.
pub(super) const RECEIVER_LOCK: u64 = 1;

/// A side was never attached.
pub(super) const NEVER: u32 = 0;
/// A side is attached, or died.
pub(super) const THERE: u32 = 1;
/// A side closed its end.
pub(super) const LEFT: u32 = 2;

/// Bytes of a frame's word.
pub(super) const WORD: u64 = 8;

/// The upper half of the frame word at a position: never zero, different for neighbouring positions.
#[inline]
#[must_use]
pub const fn mark(position: u64) -> u32 {
    // Fibonacci hashing: 2^32 divided by the golden ratio spreads neighbours far apart.
    ((position >> 3) as u32).wrapping_mul(0x9E37_79B9) | 0x8000_0000
}

/// The frame word of a message of `len` bytes at a position.
#[inline]
pub(super) const fn word(position: u64, len: u32) -> u64 {
    (mark(position) as u64) << 32 | len as u64
}

/// Bytes of the frame of a message of `len` bytes: word and message, padded.
#[inline]
pub(super) const fn frame(len: u64) -> u64 {
    WORD + len.next_multiple_of(8)
}

/// Bytes of the largest message in a ring of this capacity. Its frame and the cleared word after it must fit.
#[inline]
#[must_use]
pub const fn largest_message(capacity: u64) -> u64 {
    capacity - 2 * WORD
}

/// The offset of a position in the file.
#[inline]
pub(super) const fn slot(position: u64, capacity: u64) -> usize {
    DATA + (position & (capacity - 1)) as usize
}

/// Whether head and tail are possible in a ring of this capacity.
#[inline]
pub(super) const fn plausible(head: u64, tail: u64, capacity: u64) -> bool {
    head.is_multiple_of(8) && tail.is_multiple_of(8) && tail.wrapping_sub(head) <= capacity - WORD
}

/// The shared memory of a ring, as the algorithm sees it. It is a [`Region`]; tests replace it by one whose accesses a model checker orders.
///
/// Offsets are within it and multiples of the access size.
pub(super) trait Memory {
    /// Reads a word that the peer publishes; the peer's earlier writes are then visible.
    fn load(&self, at: usize) -> u64;
    /// Writes a word and makes earlier writes visible with it. Ordered before every later [`Memory::flag`].
    fn publish(&self, at: usize, value: u64);
    /// Writes a word; a later [`Memory::publish`] makes it visible.
    fn store(&self, at: usize, value: u64);
    /// Reads a flag, after every earlier [`Memory::publish`].
    fn flag(&self, at: usize) -> u32;
    /// Writes a flag, before every later [`Memory::load`].
    fn set_flag(&self, at: usize, value: u32);
    /// Copies into the memory, at a multiple of 8.
    fn copy_in(&self, at: usize, from: &[u8]);
    /// Copies out of the memory, at a multiple of 8.
    fn copy_out(&self, at: usize, into: &mut [u8]);
    /// Sleeps while the flag is 1, at most until `until_ns` on CLOCK_MONOTONIC.
    fn sleep(&self, at: usize, until_ns: i64) -> Result<(), i32>;
    /// Wakes the sleeper on the flag.
    fn wake(&self, at: usize);
}

impl Memory for Arc<Region> {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.u64(at).load(Ordering::Acquire)
    }

    #[inline]
    fn publish(&self, at: usize, value: u64) {
        // With `flag` (and `set_flag` with `load` on the other side) this is the store buffering pattern. It takes a fence
        // between both. A store and a fence are faster here than a sequentially consistent store. No polling receiver takes the
        // cache line between message and word.
        self.u64(at).store(value, Ordering::Release);
        full_fence();
    }

    #[inline]
    fn store(&self, at: usize, value: u64) {
        self.u64(at).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn flag(&self, at: usize) -> u32 {
        self.u32(at).load(Ordering::Acquire)
    }

    #[inline]
    fn set_flag(&self, at: usize, value: u32) {
        // Release, for the writes of a side before it closes its end.
        self.u32(at).store(value, Ordering::Release);
        full_fence();
    }

    #[inline]
    fn copy_in(&self, at: usize, from: &[u8]) {
        Region::copy_in(self, at, from);
    }

    #[inline]
    fn copy_out(&self, at: usize, into: &mut [u8]) {
        Region::copy_out(self, at, into);
    }

    fn sleep(&self, at: usize, until_ns: i64) -> Result<(), i32> {
        futex::wait(self.u32(at), 1, Scope::Shared, Some(until_ns)).map(drop).map_err(|error| error.errno())
    }

    fn wake(&self, at: usize) {
        // An error has no consequence: the word is valid, and the sleeper checks again in time.
        let _ = futex::wake(self.u32(at), 1, Scope::Shared);
    }
}

//! The shared memory of a ring, as the algorithm sees it: [`Memory`].
//!
//! It is a [`Region`]; tests replace it by one whose accesses a model checker orders.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_linux::futex::{self, Ended, Scope};
use punctual_linux::ipc::Region;
use punctual_linux::memory::full_fence;

/// Memory shared by two processes. Offsets are within it and multiples of the access size.
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
        match futex::wait(self.u32(at), 1, Scope::Shared, Some(until_ns)) {
            Ok(Ended::Woken | Ended::Changed | Ended::TimedOut | Ended::Interrupted) => Ok(()),
            Err(error) => Err(error.errno()),
        }
    }

    fn wake(&self, at: usize) {
        // An error has no consequence: the word is valid, and the sleeper checks again in time.
        let _ = futex::wake(self.u32(at), 1, Scope::Shared);
    }
}

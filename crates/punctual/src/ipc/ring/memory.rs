//! The memory that a ring lies in, as the algorithm sees it: [`Memory`].
//!
//! In earnest it is a [`Region`]; the tests put in its place one whose every access a model checker orders.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_linux::futex::{self, Ended, Scope};
use punctual_linux::ipc::Region;
use punctual_linux::shared::full_fence;

/// Memory that two processes see. Offsets are within it and a multiple of the access's size.
pub(super) trait Memory {
    /// Reads a word that the peer publishes; what it wrote before is visible afterwards.
    fn load(&self, at: usize) -> u64;
    /// Writes a word; what was written before becomes visible with it, and it is ordered before every later [`Memory::flag`].
    fn publish(&self, at: usize, value: u64);
    /// Writes a word that a later [`Memory::publish`] makes visible.
    fn store(&self, at: usize, value: u64);
    /// Reads a flag, after every earlier [`Memory::publish`].
    fn flag(&self, at: usize) -> u32;
    /// Writes a flag, before every later [`Memory::load`].
    fn set_flag(&self, at: usize, value: u32);
    /// Copies into the memory, at a multiple of 8.
    fn copy_in(&self, at: usize, from: &[u8]);
    /// Copies out of the memory, at a multiple of 8.
    fn copy_out(&self, at: usize, into: &mut [u8]);
    /// Sleeps while the flag is 1, at most until CLOCK_MONOTONIC shows `until_ns`.
    fn sleep(&self, at: usize, until_ns: i64) -> Result<(), i32>;
    /// Wakes who sleeps on the flag.
    fn wake(&self, at: usize);
}

impl Memory for Arc<Region> {
    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.u64(at).load(Ordering::Acquire)
    }

    #[inline]
    fn publish(&self, at: usize, value: u64) {
        // With `flag` (and `set_flag` with `load` on the other side) this is the store buffering pattern: only with a fence between
        // both does one side surely see the other. A store and a fence are quicker than one sequentially consistent store
        // here: a receiver that polls the word does not get hold of its cache line between the message and the word.
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
        // Release, for what a side that takes its leave did before.
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
        // Waking nobody, or failing at a word that is surely valid, are the same to us: the sleeper looks again in time.
        let _ = futex::wake(self.u32(at), 1, Scope::Shared);
    }
}

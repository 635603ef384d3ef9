//! The shared memory words of a crowd and its members.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use punctual_linux::shared::CacheLine;

/// Longest uninterrupted work of a restrained member: a tick of 1000 Hz.
pub const BURST: Duration = Duration::from_millis(1);

/// The restraint of a member after each [`BURST`] of work: it must not monopolise the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restraint {
    /// No restraint: the scheduler shares the CPU.
    None,
    /// It sleeps for the length of a burst.
    Sleeps,
    /// It yields to threads of its own priority. Its caller must let it rest from time to time.
    Yields,
}

/// A member's words: its progress, and whether it works.
pub(crate) type Line = CacheLine<(AtomicU64, AtomicU32)>;

/// The number of members that work, and whether all end.
pub(crate) type Control = CacheLine<(AtomicU32, AtomicU32)>;

/// A member's report of a refusal by the kernel: a length, and text.
pub(crate) type Complaint = (AtomicU32, [AtomicU8; 1000]);

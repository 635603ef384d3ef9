//! Tries remedies on a running program, one at a time, on and off by turns, and puts everything back.
//!
//! The input is a process. The output is trials ([`punctual_record::Trial`]): pairs of adjacent blocks of time without and with the
//! remedy, in random order. Each block has the lateness of its wake-ups and its CPU time. The report judges them.
//!
//! Refused, with a reason: what the kernel does not permit, and what the program has already. So is a real-time policy for busy
//! threads. A later thread of the same number has another start time and is not touched. A guardian process puts the settings back
//! when this process is killed or stands still. A real-time policy is tried only where the kernel itself keeps a part of each CPU for
//! others.

mod blocks;
mod bound;
mod guardian;
mod remedy;
mod saved;
mod thread;
mod trials;

pub use trials::{Advisor, Reach, Tried, remedies};

//! [`PacingMethod`] describes a method of pacing; it opens a [`PacingSession`].

use punctual::{Moment, Rate};
use punctual_linux as linux;
use punctual_linux::clock::Clock;

use crate::frame::Unavailable;

/// A method of pacing events at a rate.
#[derive(Debug, Clone, Copy)]
pub struct PacingMethod {
    /// Its name on the command line and in the record.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// The call as a programmer writes it.
    pub call: &'static str,
    /// Its requirements, in a few words, or empty.
    pub needs: &'static str,
    /// The way in which its events are sent.
    pub mode: Mode,
    /// Opens it on the thread that will pace.
    pub open: fn(&Terms) -> Result<Box<dyn PacingSession>, Unavailable>,
}

/// The mode of sending datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One per call.
    Single,
    /// All due ones in one `sendmmsg(2)`.
    Batch,
    /// One per call. The kernel holds it back: the sender hands over as many as the socket takes.
    KernelRate,
    /// One per call in advance, with its departure time.
    KernelTime,
}

/// Longest lead of a datagram handed to the kernel over its departure.
pub(super) const MOST_AHEAD_NS: i64 = 5_000_000;

/// The parameters for opening a method.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The queueing disciplines of the interface, the root's first. None: nothing is sent.
    pub disciplines: Option<Vec<String>>,
    /// The jitter allowed for batches.
    pub jitter: std::time::Duration,
}

impl Terms {
    /// The clock of departure times: etf supports CLOCK_TAI only, fq the monotonic one (tc-etf(8),
    /// net/sched/sch_fq.c).
    pub(super) fn clock(&self) -> Clock {
        let has = |kind: &str| self.disciplines.iter().flatten().any(|its| its == kind);
        if has("etf") && !has("fq") { Clock::Tai } else { Clock::Monotonic }
    }
}

/// An opened method: waits until events are due.
pub trait PacingSession {
    /// Starts over: event n is due n periods after `start`.
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()>;

    /// Waits until the next events are due, and returns their number, at least one. Fails with EINTR if the process
    /// wants to stop.
    fn next(&mut self) -> linux::Result<u64>;

    /// Restores after a batch what the session changed of the thread.
    fn end(&mut self) {}
}

//! What a way of pacing is: a [`Way`], one small value, and the [`Gate`] it opens.

use punctual::{Moment, Rate};
use punctual_linux as linux;
use punctual_linux::clock::Clock;

use crate::wait::method::Unavailable;

/// One way to let events happen at a rate.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Its name on the command line and in the record.
    pub name: &'static str,
    /// One line for `--list`.
    pub about: &'static str,
    /// What a programmer writes.
    pub call: &'static str,
    /// What it needs, in a few words, or empty.
    pub needs: &'static str,
    /// How its events are sent.
    pub mode: Mode,
    /// Opens it on the thread that will pace.
    pub open: fn(&Terms) -> Result<Box<dyn Gate>, Unavailable>,
}

/// How datagrams are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One per call.
    Single,
    /// All that are due in one `sendmmsg(2)`.
    Batch,
    /// One per call; the kernel holds it back: as much is handed over as the socket takes.
    KernelRate,
    /// One per call, ahead of its time, with that time.
    KernelTime,
}

/// How far ahead of its time a datagram is handed to the kernel at most.
pub(super) const MOST_AHEAD_NS: i64 = 5_000_000;

/// On what terms a way is opened.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The queueing disciplines of the interface, the root's first; none: nothing is sent.
    pub disciplines: Option<Vec<String>>,
    /// The jitter that batches may bring.
    pub jitter: std::time::Duration,
}

impl Terms {
    /// The clock of times to leave at: etf knows CLOCK_TAI only, fq the monotonic one (tc-etf(8), net/sched/sch_fq.c).
    pub(super) fn clock(&self) -> Clock {
        let has = |kind: &str| self.disciplines.iter().flatten().any(|its| its == kind);
        if has("etf") && !has("fq") { Clock::Tai } else { Clock::Monotonic }
    }
}

/// An opened way: says when events are due.
pub trait Gate {
    /// Starts over: event n is due at `start` and n periods.
    fn begin(&mut self, start: Moment, rate: Rate) -> linux::Result<()>;

    /// Waits until the next events are due, and says how many are, at least one. Ends with EINTR when the process wants to stop.
    fn next(&mut self) -> linux::Result<u64>;

    /// Told after a batch: what it changed about the thread is to be put back.
    fn end(&mut self) {}
}

/// EINTR when the process wants to stop.
#[inline]
pub(super) fn go_on() -> linux::Result<()> {
    if linux::stop::requested() { Err(linux::Error::from_errno("pace", linux::EINTR)) } else { Ok(()) }
}

//! The track of a CPU: what runs there, innermost last.

use std::io::Write;

use super::lines::{Lines, Track};

/// Linux nests an NMI in an interrupt in a softirq in a thread, and timers in the latter two. More means that an end was not seen.
const DEEPEST: usize = 8;

/// Something that occupies the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Running {
    Thread,
    IdleState,
    Interrupt,
    Softirq,
    /// A timer's function; the timer's address.
    Timer(u64),
}

/// A CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) track: Track,
    /// How far the clock of the timer that fired last is ahead of CLOCK_MONOTONIC.
    pub(super) timer_clock_ahead_ns: i64,
    stack: Vec<Running>,
    /// When something last began or ended there.
    changed_ns: u64,
}

impl Cpu {
    pub(super) fn new(track: Track) -> Self {
        Self { track, timer_clock_ahead_ns: 0, stack: Vec::new(), changed_ns: 0 }
    }

    /// Whether it is known what runs there.
    pub(super) fn is_known(&self) -> bool {
        !self.stack.is_empty()
    }

    /// The timer whose function runs.
    pub(super) fn timer(&self) -> Option<u64> {
        match self.stack.last() {
            Some(Running::Timer(timer)) => Some(*timer),
            _ => None,
        }
    }

    pub(super) fn begin<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, what: Running, name: &str) {
        if self.stack.len() >= DEEPEST {
            self.end_to(lines, at_ns, 1);
        }
        self.changed_ns = at_ns;
        self.stack.push(what);
        lines.begin(self.track, at_ns, name);
    }

    /// Ends it and all within it. Nothing happens where its begin was not seen.
    pub(super) fn end<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, what: Running) {
        if let Some(depth) = self.stack.iter().rposition(|running| *running == what) {
            self.end_to(lines, at_ns, depth);
        }
    }

    /// Ends all. At a switch too: with PREEMPT_RT a thread serves softirqs and is preempted in them.
    pub(super) fn end_all<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64) {
        self.end_to(lines, at_ns, 0);
    }

    /// An NMI ended that took this long.
    pub(super) fn nmi<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, took_ns: u64) {
        let from = at_ns.saturating_sub(took_ns).max(self.changed_ns);
        lines.whole(self.track, from, at_ns, "NMI");
        self.changed_ns = at_ns;
    }

    fn end_to<W: Write>(&mut self, lines: &mut Lines<W>, at_ns: u64, depth: usize) {
        for _ in depth..self.stack.len() {
            lines.end(self.track, at_ns);
        }
        self.stack.truncate(depth);
        self.changed_ns = at_ns;
    }
}

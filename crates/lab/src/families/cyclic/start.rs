//! When cycling threads start: each when it is ready, or all at one time, for which they wait for each other.

use std::sync::{Condvar, Mutex, PoisonError};

use punctual_linux::clock::{Clock, now_ns};

/// When the first interval begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// For each thread when it is ready.
    Ready,
    /// For all at the same time; each thread this much later than the one before.
    Together(i64),
    /// For all at a full second, this much later.
    FullSecond(i64),
}

/// What the threads agree on at the start.
pub(super) struct Starter {
    start: Start,
    clock: Clock,
    meeting: Mutex<Meeting>,
    met: Condvar,
}

/// Threads that wait for each other.
#[derive(Default)]
struct Meeting {
    expected: usize,
    came: usize,
    /// When the last one came.
    at_ns: Option<i64>,
}

impl Starter {
    pub(super) fn new(start: Start, clock: Clock, expected: usize) -> Self {
        Self { start, clock, meeting: Mutex::new(Meeting { expected, ..Meeting::default() }), met: Condvar::new() }
    }

    /// When the first interval of this thread begins.
    pub(super) fn began_ns(&self, thread: usize) -> i64 {
        let later_ns = match self.start {
            Start::Ready => return now_ns(self.clock),
            Start::Together(ns) => ns.saturating_mul(thread as i64),
            Start::FullSecond(ns) => ns,
        };
        let mut meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        meeting.came += 1;
        self.open_if_all(&mut meeting);
        loop {
            match meeting.at_ns {
                Some(at_ns) => return at_ns.saturating_add(later_ns),
                None => meeting = self.met.wait(meeting).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// No more threads than these come.
    pub(super) fn expect(&self, threads: usize) {
        let mut meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        meeting.expected = threads;
        self.open_if_all(&mut meeting);
    }

    fn open_if_all(&self, meeting: &mut Meeting) {
        if meeting.came >= meeting.expected && meeting.at_ns.is_none() {
            let now_ns = now_ns(self.clock);
            let is_full = matches!(self.start, Start::FullSecond(_));
            meeting.at_ns = Some(if is_full { full_second_after(now_ns) } else { now_ns });
            self.met.notify_all();
        }
    }
}

/// The next full second; the one after it if that is less than 0.1 s away.
fn full_second_after(now_ns: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    let part = now_ns % SECOND;
    now_ns - part + if part > 900_000_000 { 2 * SECOND } else { SECOND }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_second_is_never_past() {
        let seconds = |s: f64| (s * 1e9) as i64;
        assert_eq!(full_second_after(seconds(7.25)), seconds(8.0));
        assert_eq!(full_second_after(seconds(7.95)), seconds(9.0));
    }
}

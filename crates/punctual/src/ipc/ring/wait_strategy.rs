//! How a side waits: [`WaitStrategy`] and its loop.

use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};

use crate::backoff::{Backoff, Limits, Step};

/// How to wait for a message or for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitStrategy {
    /// Busy-waits: least latency, a whole CPU. Never use it under a real-time policy on the peer's CPU: the peer would never run.
    Spin,
    /// Spins, then yields, then sleeps, within these limits ([`Backoff::tuned`] measures them): for messages that may come soon or much
    /// later.
    Backoff(Limits),
    /// Sleeps (`futex(2)`) until the peer wakes it: no CPU time, the latency of a wake-up.
    #[default]
    Sleep,
}

/// Polls without a pause instruction: several times the transfer time of a cache line from another CPU.
const EAGER: u32 = 256;
/// Polls between two clock readings, each as expensive as several polls.
const POLLS_PER_LOOK: u32 = 64;
/// Longest time between two checks of the peer: short enough to report its death within a second.
const LOOK_AFTER_PEER_NS: i64 = 250_000_000;

/// The next step of the waiting loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Poll again at once.
    Poll,
    /// Sleep, at most until this time.
    Sleep(i64),
    /// Check whether the peer lives, then poll.
    LookAfterPeer,
    /// The time is up.
    TimeOver,
}

/// The state of one wait.
#[derive(Debug)]
pub(super) struct Wait {
    parks: bool,
    backoff: Option<Backoff>,
    polls: u32,
    at_most: Option<Duration>,
    /// Both on CLOCK_MONOTONIC; unset until the first clock reading.
    deadline_ns: Option<i64>,
    look_after_peer_ns: Option<i64>,
}

impl Wait {
    /// Begins a wait, for at most `at_most` or without limit. Reads no clock: most waits end before the first reading.
    #[inline]
    pub(super) fn begin(how: WaitStrategy, at_most: Option<Duration>) -> Self {
        let parks = how == WaitStrategy::Sleep;
        let backoff = match how {
            WaitStrategy::Backoff(limits) => Some(Backoff::new(limits)),
            WaitStrategy::Spin | WaitStrategy::Sleep => None,
        };
        Self { parks, backoff, polls: 0, at_most, deadline_ns: None, look_after_peer_ns: None }
    }

    /// The step after a poll that found nothing.
    #[inline]
    pub(super) fn next(&mut self) -> Next {
        self.polls = self.polls.wrapping_add(1);
        if self.parks {
            return self.look_at_clock();
        }
        match &mut self.backoff {
            Some(backoff) => self.parks = backoff.step() == Step::Park,
            None if self.polls >= EAGER => std::hint::spin_loop(),
            None => {}
        }
        if self.parks {
            return self.look_at_clock();
        }
        if self.polls.is_multiple_of(POLLS_PER_LOOK) { self.look_at_clock() } else { Next::Poll }
    }

    #[cold]
    fn look_at_clock(&mut self) -> Next {
        let now = now_ns(Clock::Monotonic);
        let ns = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        let at_most = self.at_most;
        let deadline = *self.deadline_ns.get_or_insert_with(|| now.saturating_add(at_most.map_or(i64::MAX, ns)));
        if now >= deadline {
            return Next::TimeOver;
        }
        let look = *self.look_after_peer_ns.get_or_insert(now.saturating_add(LOOK_AFTER_PEER_NS));
        if now >= look {
            self.look_after_peer_ns = None;
            return Next::LookAfterPeer;
        }
        if self.parks { Next::Sleep(look.min(deadline)) } else { Next::Poll }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_nothing_is_over_at_once_and_a_long_one_never() {
        assert_eq!(Wait::begin(WaitStrategy::Sleep, Some(Duration::ZERO)).next(), Next::TimeOver);
        let mut wait = Wait::begin(WaitStrategy::Sleep, Some(Duration::MAX));
        assert!(matches!(wait.next(), Next::Sleep(_)));
        let mut wait = Wait::begin(WaitStrategy::Spin, None);
        assert!((0..10_000).all(|_| matches!(wait.next(), Next::Poll | Next::LookAfterPeer)));
    }

    #[test]
    fn it_looks_after_the_peer_while_it_waits() {
        for how in [WaitStrategy::Spin, WaitStrategy::Sleep, WaitStrategy::Backoff(Limits::PARK)] {
            let mut wait = Wait::begin(how, None);
            let looked = std::iter::from_fn(|| {
                if how != WaitStrategy::Spin {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Some(wait.next())
            });
            assert!(looked.take(1 << 28).any(|next| next == Next::LookAfterPeer));
        }
    }
}

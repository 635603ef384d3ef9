//! How a side waits: [`Waiting`], and the loop that does it.

use std::time::Duration;

use punctual_linux::clock::{Clock, now_ns};

use crate::backoff::{Backoff, Limits, Step};

/// How to wait for a message, or for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Looks again and again: the least latency, and a CPU of its own. Under a real-time policy on the peer's CPU it keeps the peer
    /// from ever answering.
    Spin,
    /// Spins, then yields, then sleeps, as far as these limits say ([`Backoff::tuned`] has those that suit the machine): for a message that
    /// may come at once or not for long.
    Backoff(Limits),
    /// Sleeps in the kernel (`futex(2)`) until the peer wakes it: no CPU time, and a wake-up's latency.
    #[default]
    Sleep,
}

/// Polls in a row without a pause instruction: about as long as a cache line takes from another CPU, several times over.
const EAGER: u32 = 256;
/// Polls between two looks at the clock, which costs as much as several polls.
const POLLS_PER_LOOK: u32 = 64;
/// Longest time between two looks at whether the peer still lives: short enough to report its death within a second.
const LOOK_AFTER_PEER_NS: i64 = 250_000_000;

/// What the waiting loop does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Look again at once.
    Poll,
    /// Sleep, at most until this time.
    Sleep(i64),
    /// See whether the peer is still there, then look again.
    LookAfterPeer,
    /// The time is over.
    TimeOver,
}

/// One wait under way.
#[derive(Debug)]
pub(super) struct Wait {
    parks: bool,
    backoff: Option<Backoff>,
    polls: u32,
    at_most: Option<Duration>,
    /// Both on CLOCK_MONOTONIC, and unset until the clock is looked at for the first time.
    deadline_ns: Option<i64>,
    look_after_peer_ns: Option<i64>,
}

impl Wait {
    /// Begins to wait: for ever, or for so long. Reads no clock: most waits are over before that would be.
    #[inline]
    pub(super) fn begin(how: Waiting, at_most: Option<Duration>) -> Self {
        let parks = how == Waiting::Sleep;
        let backoff = match how {
            Waiting::Backoff(limits) => Some(Backoff::new(limits)),
            Waiting::Spin | Waiting::Sleep => None,
        };
        Self { parks, backoff, polls: 0, at_most, deadline_ns: None, look_after_peer_ns: None }
    }

    /// Decides what comes after a look that found nothing.
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
        assert_eq!(Wait::begin(Waiting::Sleep, Some(Duration::ZERO)).next(), Next::TimeOver);
        let mut wait = Wait::begin(Waiting::Sleep, Some(Duration::MAX));
        assert!(matches!(wait.next(), Next::Sleep(_)));
        let mut wait = Wait::begin(Waiting::Spin, None);
        assert!((0..10_000).all(|_| matches!(wait.next(), Next::Poll | Next::LookAfterPeer)));
    }

    #[test]
    fn it_looks_after_the_peer_while_it_waits() {
        for how in [Waiting::Spin, Waiting::Sleep, Waiting::Backoff(Limits::PARK)] {
            let mut wait = Wait::begin(how, None);
            let looked = std::iter::from_fn(|| {
                if how != Waiting::Spin {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Some(wait.next())
            });
            assert!(looked.take(1 << 28).any(|next| next == Next::LookAfterPeer));
        }
    }
}

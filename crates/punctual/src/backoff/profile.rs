//! The costs of a poll, a yield and a wake-up on one machine, and the limits of a polling loop, which follow from them.
//!
//! A profile is one line of text, for a file between runs:
//! `punctual.backoff/1 cpus=2 poll_ns=12 yield_ns=380 wake_ns=27100`.

#[cfg(all(test, loom))]
pub(super) use modelled::AtomicU32;
#[cfg(not(all(test, loom)))]
pub(super) use real::AtomicU32;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(all(test, loom))]
use modelled::{Ordering, Scope, fence, sleep_on, wake_all};
#[cfg(not(all(test, loom)))]
use real::{Ordering, Scope, fence, sleep_on, wake_all};

/// Name and version of the text form.
const FORM: &str = "punctual.backoff/1";

/// The limits of a [`Backoff`](super::Backoff), for programs that know theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Polls followed by a spin hint. 0: yield at once.
    pub spins: u32,
    /// Polls after those, each followed by a yield. 0: park at once.
    pub yields: u32,
    /// A yield longer than this ends the yielding: other threads want the CPU.
    pub longest_yield: Duration,
}

impl Limits {
    /// Parks at once: least CPU time, highest latency.
    pub const PARK: Self = Self { spins: 0, yields: 0, longest_yield: Duration::ZERO };

    /// Never parks and never yields: lowest latency, a whole CPU. Only for a CPU reserved for the loop.
    pub const SPIN: Self = Self { spins: u32::MAX, yields: 0, longest_yield: Duration::ZERO };
}

/// Measured costs in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// CPUs that the process could use, at least 1: online and in its cpuset, whatever the affinity of its threads. Set 1 if all threads
    /// that wait for each other share a CPU.
    pub cpus: u32,
    /// One poll of a word in cache with a spin hint.
    pub poll_ns: u32,
    /// One yield without another runnable thread.
    pub yield_ns: u32,
    /// From the notification to the return of a parked thread, median.
    pub wake_ns: u32,
}

/// Shortest and longest polling before parking, in ns. A wake-up below 1 µs would be faster than two context switches. One above 200 µs
/// comes from a disturbance or a deep idle state. Polling for that long does not pay off.
const POLLING_NS: (u32, u32) = (1_000, 200_000);

impl Profile {
    /// The limits that follow from these costs.
    ///
    /// Polling lasts as long as a wake-up costs. The loop then loses at most twice what it would lose with foreknowledge of the message.
    /// (This is the ski rental argument: Karlin et al., "Empirical studies of competitive spinning", SOSP 1991.) It spins for half of that
    /// time, which finds a message soonest. It yields for the other half, which lets other threads run. On a single CPU no message can come
    /// while this thread spins: it yields once, then parks.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let wake_ns = self.wake_ns.clamp(POLLING_NS.0, POLLING_NS.1);
        let longest_yield = Duration::from_nanos(wake_ns.into());
        if self.cpus <= 1 {
            return Limits { spins: 0, yields: 1, longest_yield };
        }
        let half = wake_ns / 2;
        Limits { spins: half / self.poll_ns.max(1), yields: (half / self.yield_ns.max(1)).max(1), longest_yield }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpus, poll_ns, yield_ns, wake_ns } = self;
        write!(f, "{FORM} cpus={cpus} poll_ns={poll_ns} yield_ns={yield_ns} wake_ns={wake_ns}")
    }
}

/// An invalid saved profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Not a profile, or one of another version.
    #[error("invalid profile '{0}': it must begin with {FORM}; measure again and save that")]
    Form(String),
    /// A part that is not a `name=number` of a profile.
    #[error("invalid part '{0}': cpus, poll_ns, yield_ns or wake_ns, with a whole number above 0 (example: cpus=2)")]
    Part(String),
    /// A missing part.
    #[error("invalid profile: {0} is missing; measure again and save that")]
    Missing(&'static str),
}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let mut words = text.split_whitespace();
        if words.next() != Some(FORM) {
            return Err(ProfileError::Form(text.chars().take(60).collect()));
        }
        let mut parts = [("cpus", None), ("poll_ns", None), ("yield_ns", None), ("wake_ns", None)];
        for word in words {
            let wrong = || ProfileError::Part(word.to_owned());
            let (name, number) = word.split_once('=').ok_or_else(wrong)?;
            let (_, part) = parts.iter_mut().find(|(known, _)| *known == name).ok_or_else(wrong)?;
            *part = Some(number.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(wrong)?);
        }
        let [cpus, poll_ns, yield_ns, wake_ns] = parts.map(|(name, part)| part.ok_or(ProfileError::Missing(name)));
        Ok(Self { cpus: cpus?, poll_ns: poll_ns?, yield_ns: yield_ns?, wake_ns: wake_ns? })
    }
}

// An event count: one word through which a thread wakes others after it changed a condition. It loses no wake-up, and a
// notification without waiters makes no system call.
//
// The lowest bit is set while a thread waits; the other bits count notifications. The notifier changes the condition, fences and
// reads the bit. The waiter sets the bit, fences and checks the condition. One of the two always sees the other: sequentially
// consistent fences rule out the store buffering outcome. A notification increments the count and clears the bit, so a waiter that is
// about to sleep does not. The design follows folly's and crossbeam's EventCount.

/// The bit set while a thread waits.
const WAITER: u32 = 1;
/// The unit of the count.
const NOTIFICATION: u32 = 2;

/// An event count on a word. The word starts at 0 and must have no other use. All users must agree on private or shared.
#[derive(Debug, Clone, Copy)]
pub struct EventCount<'a> {
    word: &'a AtomicU32,
    scope: Scope,
}

/// The count that a waiter saw in [`EventCount::prepare_wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "poll once more, then wait with this"]
pub struct Key(u32);

impl<'a> EventCount<'a> {
    /// An event count among the threads of this process.
    #[must_use]
    pub const fn private(word: &'a AtomicU32) -> Self {
        Self { word, scope: Scope::Private }
    }

    /// An event count between processes; the word lies in shared memory.
    #[must_use]
    pub const fn shared(word: &'a AtomicU32) -> Self {
        Self { word, scope: Scope::Shared }
    }

    /// Wakes all waiters. Call it after changing the condition.
    ///
    /// Without waiters, this is a fence and a load: no write, no system call.
    #[inline]
    pub fn notify(self) {
        fence(Ordering::SeqCst);
        let seen = self.word.load(Ordering::Relaxed);
        if seen & WAITER != 0 {
            self.wake(seen);
        }
    }

    #[cold]
    fn wake(self, mut seen: u32) {
        while seen & WAITER != 0 {
            let next = seen.wrapping_add(NOTIFICATION) & !WAITER;
            match self.word.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return wake_all(self.word, self.scope),
                Err(now) => seen = now,
            }
        }
        // Another thread notified in between and wakes these waiters too.
    }

    /// Announces a waiter. Check the condition once more, then call [`EventCount::wait`].
    pub fn prepare_wait(self) -> Key {
        let seen = self.word.fetch_or(WAITER, Ordering::AcqRel) | WAITER;
        fence(Ordering::SeqCst);
        Key(seen)
    }

    /// Sleeps until a notification after [`EventCount::prepare_wait`], or until `deadline_ns` on CLOCK_MONOTONIC. Returns at once if
    /// the notification came already. Spurious wake-ups are possible: poll again.
    pub fn wait(self, key: Key, deadline_ns: Option<i64>) {
        sleep_on(self.word, key.0, self.scope, deadline_ns);
    }

    /// Whether a thread has announced a wait since the last notification. For tests and tuning: the answer may be outdated at once.
    #[must_use]
    pub fn has_waiters(self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITER != 0
    }
}

/// The word, the fence and the sleep.
#[cfg(not(all(test, loom)))]
mod real {
    pub(in super::super) use std::sync::atomic::{AtomicU32, Ordering, fence};

    use punctual_linux::futex;
    pub(in super::super) use punctual_linux::futex::Scope;

    /// Sleeps while the word holds `expected`.
    pub(in crate::backoff) fn sleep_on(word: &AtomicU32, expected: u32, scope: Scope, deadline_ns: Option<i64>) {
        // The caller polls again in any case. If the kernel refuses (a seccomp filter without futex), yield instead of spinning.
        if futex::wait(word, expected, scope, deadline_ns).is_err() {
            std::thread::yield_now();
        }
    }

    /// Wakes all sleepers on the word.
    pub(in crate::backoff) fn wake_all(word: &AtomicU32, scope: Scope) {
        // Fails only for an unmapped address (EFAULT); `word` is mapped.
        drop(futex::wake(word, u32::MAX, scope));
    }
}

/// The same for the model checker.
#[cfg(all(test, loom))]
mod modelled {
    pub(in super::super) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};

    pub(in super::super) use punctual_linux::futex::Scope;

    loom::lazy_static! {
        // The kernel's hash bucket: under its lock, comparing the word and sleeping are one step, and so is waking.
        static ref BUCKET: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(in crate::backoff) fn sleep_on(word: &AtomicU32, expected: u32, _: Scope, _: Option<i64>) {
        let guard = BUCKET.0.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(BUCKET.1.wait(guard).unwrap());
        }
    }

    pub(in crate::backoff) fn wake_all(_: &AtomicU32, _: Scope) {
        let _guard = BUCKET.0.lock().unwrap();
        BUCKET.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn polls_for_as_long_as_a_wake_up_costs() {
        let profile = Profile { cpus: 2, poll_ns: 10, yield_ns: 400, wake_ns: 40_000 };
        let limits = profile.limits();
        assert_eq!((limits.spins, limits.yields), (2000, 50));
        assert_eq!(limits.longest_yield, Duration::from_micros(40));
        let alone = Profile { cpus: 1, ..profile }.limits();
        assert_eq!((alone.spins, alone.yields), (0, 1));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let said: Vec<String> = [
            "",
            "punctual.backoff/2 cpus=1",
            "punctual.backoff/1 cpus=1 poll_ns=1 yield_ns=1",
            "punctual.backoff/1 cpus=0",
            "punctual.backoff/1 cpus=-1",
            "punctual.backoff/1 speed=9",
            "punctual.backoff/1 cpus",
        ]
        .iter()
        .map(|text| text.parse::<Profile>().unwrap_err().to_string())
        .collect();
        assert_eq!(said[0], "invalid profile '': it must begin with punctual.backoff/1; measure again and save that");
        assert_eq!(said[2], "invalid profile: wake_ns is missing; measure again and save that");
        assert!(said[3].starts_with("invalid part 'cpus=0'") && said[4].contains("'cpus=-1'"), "{said:?}");
        assert!(said[1].contains("/2") && said[5].contains("speed") && said[6].contains("'cpus'"), "{said:?}");
    }

    proptest! {
        #[test]
        fn text_and_back(cpus in 1u32.., poll_ns in 1u32.., yield_ns in 1u32.., wake_ns in 1u32..) {
            let profile = Profile { cpus, poll_ns, yield_ns, wake_ns };
            prop_assert_eq!(profile.to_string().parse::<Profile>(), Ok(profile));
        }

        #[test]
        fn polling_is_bounded(cpus: u32, poll_ns: u32, yield_ns: u32, wake_ns: u32) {
            let limits = Profile { cpus, poll_ns, yield_ns, wake_ns }.limits();
            prop_assert!(u64::from(limits.spins) * u64::from(poll_ns.max(1)) <= 100_000);
            prop_assert!(limits.yields == 1 || u64::from(limits.yields) * u64::from(yield_ns.max(1)) <= 100_000);
        }
    }
}

//! The number of polls before a wait gives up the CPU.
//!
//! A wait polls `limit` times in vain, calls `sched_yield(2)` and polls again. `PUNCTUAL_MPI_POLLS` fixes the limit (0: never
//! yield). Otherwise each thread learns it from its yields. A yield that takes long has let another thread run. The CPU is
//! shared, and polls only keep that thread from it. A yield that returns at once has gained nothing, and the next one comes
//! later. `PUNCTUAL_MPI_SLEEP_NS` allows sleeps up to that length, in waits that have yielded often. Without it no wait sleeps.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::own;

/// The first limit: some microseconds of polling.
const FIRST: u32 = 100;
/// On a shared CPU. The other rank needs a moment to answer on another CPU, and a yield without another thread costs 0.5 us.
const FEWEST: u32 = 4;
/// On an unshared CPU. 1000 polls take some 50 us, and a yield costs 0.5 us then.
const MOST: u32 = 1_000;
/// Longest yield where no other thread runs, until a shorter one was seen.
const QUICK_NS: u64 = 1_000;
/// Yields in one wait before it sleeps, if sleeps are allowed: a wait that is over soon never sleeps.
const YIELDS_BEFORE_SLEEP: u32 = 1_000;
/// The first sleep; each further one is twice as long.
const SHORTEST_SLEEP_NS: u64 = 1_000;

/// Not yet read from the environment.
const UNKNOWN: u32 = u32::MAX;
/// `POLLS`: each thread learns.
const LEARN: u32 = u32::MAX - 1;
static POLLS: AtomicU32 = AtomicU32::new(UNKNOWN);
static SLEEP_NS: AtomicU64 = AtomicU64::new(0);
static YIELDS: AtomicU64 = AtomicU64::new(0);

/// The knowledge of a thread about its waits.
struct Wait {
    /// MPI calls that wait, one within another.
    depth: Cell<u32>,
    /// Polls of the library's progress function, in any call.
    seen: Cell<u32>,
    /// Polls in vain since the last yield.
    polls: Cell<u32>,
    /// Polls before a yield.
    limit: Cell<u32>,
    /// Yields of this wait.
    yields: Cell<u32>,
    /// The shortest yield.
    quick_ns: Cell<u64>,
}

thread_local! {
    static WAIT: Wait = const { Wait::new() };
}

/// A call that waits, until dropped.
pub(crate) struct WaitGuard(());

/// Begins a wait.
#[inline]
pub(crate) fn wait() -> WaitGuard {
    WAIT.with(|wait| {
        wait.depth.set(wait.depth.get() + 1);
        wait.polls.set(0);
        wait.yields.set(0);
    });
    WaitGuard(())
}

impl WaitGuard {
    /// One poll was in vain.
    #[inline]
    pub(crate) fn idle(&self) {
        WAIT.with(Wait::idle);
    }
}

impl Drop for WaitGuard {
    #[inline]
    fn drop(&mut self) {
        WAIT.with(|wait| wait.depth.set(wait.depth.get() - 1));
    }
}

/// The library's progress function was called. Only within a wait it gives up the CPU.
#[inline]
pub(crate) fn polled(in_vain: bool) {
    WAIT.with(|wait| {
        wait.seen.set(wait.seen.get().wrapping_add(1));
        if wait.depth.get() == 0 {
        } else if in_vain {
            wait.idle();
        } else {
            wait.polls.set(0);
        }
    });
}

/// Polls of the progress function that this thread has made; wraps.
pub(crate) fn seen() -> u32 {
    WAIT.with(|wait| wait.seen.get())
}

impl Wait {
    const fn new() -> Self {
        Self {
            depth: Cell::new(0),
            seen: Cell::new(0),
            polls: Cell::new(0),
            limit: Cell::new(0),
            yields: Cell::new(0),
            quick_ns: Cell::new(QUICK_NS),
        }
    }

    #[inline]
    fn idle(&self) {
        let polls = self.polls.get() + 1;
        self.polls.set(polls);
        if polls >= self.limit.get() {
            self.give_way();
        }
    }

    /// Yields, or sleeps, and learns from it.
    #[cold]
    fn give_way(&self) {
        self.polls.set(0);
        let fixed = polls();
        if fixed == 0 {
            return self.limit.set(u32::MAX);
        }
        if self.limit.get() == 0 {
            // The first time in this thread.
            return self.limit.set(if fixed == LEARN { FIRST } else { fixed });
        }
        let before_ns = now_ns();
        own::sched_yield();
        let took_ns = now_ns() - before_ns;
        YIELDS.fetch_add(1, Ordering::Relaxed);
        if fixed == LEARN {
            self.learn(took_ns);
        }
        self.yields.set(self.yields.get().saturating_add(1));
        if self.yields.get() > YIELDS_BEFORE_SLEEP {
            sleep(self.yields.get() - YIELDS_BEFORE_SLEEP);
        }
    }

    fn learn(&self, took_ns: u64) {
        let limit = self.limit.get();
        let another_ran = took_ns > 2 * self.quick_ns.get();
        self.quick_ns.set(self.quick_ns.get().min(took_ns));
        self.limit.set(if another_ran { (limit / 4).max(FEWEST) } else { (limit * 2).min(MOST) });
    }
}

/// The length of the `n`th sleep of a wait.
fn sleep_ns(n: u32, longest_ns: u64) -> u64 {
    (SHORTEST_SLEEP_NS << n.min(32)).min(longest_ns)
}

/// The `n`th sleep of a wait, if sleeps are allowed.
fn sleep(n: u32) {
    let ns = sleep_ns(n, SLEEP_NS.load(Ordering::Relaxed));
    if ns == 0 {
        return;
    }
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    own::sleep(&time);
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The fixed number of polls, or `LEARN`. Read once.
fn polls() -> u32 {
    let known = POLLS.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let polls = number(c"PUNCTUAL_MPI_POLLS").map_or(LEARN, |n| u32::try_from(n).unwrap_or(u32::MAX).min(LEARN - 1));
    SLEEP_NS.store(number(c"PUNCTUAL_MPI_SLEEP_NS").unwrap_or(0), Ordering::Relaxed);
    POLLS.store(polls, Ordering::Relaxed);
    polls
}

/// An environment variable that holds a number.
fn number(name: &CStr) -> Option<u64> {
    // SAFETY: the name ends with a NUL. The environment's strings do too, and a program does not change it within an MPI call.
    let text = unsafe { libc::getenv(name.as_ptr()).as_ref().map(|text| CStr::from_ptr(text)) }?;
    let number = text.to_str().ok().and_then(|text| text.parse().ok());
    if number.is_none() {
        let name = name.to_string_lossy();
        eprintln!("punctual: invalid {name}: expected an integer, 0 or more (example: {name}=100); it is ignored");
    }
    number
}

/// The number of yields of this process. It shows a program that the library is loaded and works.
#[unsafe(no_mangle)]
extern "C" fn punctual_mpi_yields() -> u64 {
    YIELDS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_cpu_is_given_up_soon_and_an_own_one_seldom() {
        let wait = Wait::new();
        wait.limit.set(FIRST);
        let learned = |took_ns: u64, times: u32| {
            (0..times).for_each(|_| wait.learn(took_ns));
            wait.limit.get()
        };
        assert_eq!(learned(500, 1), 2 * FIRST);
        assert_eq!(learned(500, 10), MOST);
        assert_eq!(learned(4_000_000, 1), MOST / 4);
        assert_eq!(learned(3_000, 10), FEWEST);
        assert_eq!(learned(900, 1), 2 * FEWEST, "not twice the shortest");
    }

    #[test]
    fn a_slow_yield_is_quick_where_all_are_slow() {
        let wait = Wait::new();
        wait.limit.set(FIRST);
        wait.learn(1_900);
        assert_eq!(wait.limit.get(), 2 * FIRST, "a processor that needs 1.9 us for a yield");
        wait.learn(2_100);
        assert_eq!(wait.limit.get(), 2 * FIRST / 4);
    }

    #[test]
    fn sleeps_grow_to_the_longest_allowed() {
        let allowed = |longest_ns| [0, 1, 5, 60].map(|n| sleep_ns(n, longest_ns));
        assert_eq!(allowed(0), [0; 4]);
        assert_eq!(allowed(20_000), [1_000, 2_000, 20_000, 20_000]);
    }
}

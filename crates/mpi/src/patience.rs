//! The number of polls before a wait gives up the CPU.
//!
//! A wait polls `limit` times in vain, calls `sched_yield(2)` and polls again. `PUNCTUAL_MPI_POLLS` fixes the limit (0: never
//! yield). Otherwise it is learned from the yields:
//!
//! - A yield that returns at once has found no other thread. The next one comes later, at last after 1000 polls of one wait.
//! - A yield of some microseconds has let a thread run that soon waited too. Such threads take turns, so the next one comes sooner.
//! - A long one has let a thread run that computes. If that is another rank (`rank`), the rank computes what this one waits for.
//!   Any other program only took this rank's turn: there are no yields for a hundred times as long, so they cost at most 1 %.
//!
//! The state of the first thread that waits is a static, since thread-local values cost nanoseconds in each poll. Once a second
//! thread waits, each has its own state. `PUNCTUAL_MPI_SLEEP_NS` allows sleeps up to that length, in waits
//! that have yielded often. Without it no wait sleeps. `PUNCTUAL_DISABLE=1` leaves all calls alone.

use std::ffi::CStr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use crate::{rank, symbol};

/// The first limit: some microseconds of polling.
const FIRST: usize = 100;
/// On a shared CPU. The other rank needs a moment to answer on another CPU, and a yield without another thread costs 0.5 us.
const FEWEST: usize = 4;
/// On an unshared CPU. 1000 polls take some 50 us, and a yield costs 0.5 us then.
const MOST: usize = 1_000;
/// Longest yield where no other thread runs, until a shorter one was seen.
const QUICK_NS: u64 = 1_000;
/// A yield of this length went to a thread that computes. Ranks that wait for each other return it sooner, and slices are longer.
const LONG_NS: u64 = 200_000;
/// The time without yields after a long one, in lengths of that one.
const PAUSE: u64 = 100;
/// Yields in one wait before it sleeps, if sleeps are allowed: a wait that is over soon never sleeps.
const YIELDS_BEFORE_SLEEP: u32 = 1_000;
/// The first sleep; each further one is twice as long.
const SHORTEST_SLEEP_NS: u64 = 1_000;
/// Polls outside of waits are not counted.
const NO_WAIT: usize = usize::MAX;

/// Nothing is known of the MPI library yet: polls are noted.
const ASKING: u8 = 0;
/// One thread has waited so far: `OWNER`, whose state is `ONLY`.
const ONE: u8 = 1;
/// Each thread has its own state.
const SEVERAL: u8 = 2;
/// Waits are left alone.
const OFF: u8 = 3;
static MODE: AtomicU8 = AtomicU8::new(ASKING);
static POLLED: AtomicBool = AtomicBool::new(false);
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// `OWNER`, while its waits are marked and nothing more: the progress function yields, and no second thread has waited.
static MARKS_ONLY: AtomicUsize = AtomicUsize::new(0);
static PROGRESS_YIELDS: AtomicBool = AtomicBool::new(false);
static ONLY: Wait = Wait::new();

/// A fixed number of polls; 0: learned.
static FIXED: AtomicUsize = AtomicUsize::new(0);
static SLEEP_NS: AtomicU64 = AtomicU64::new(0);
static YIELDS: AtomicU64 = AtomicU64::new(0);

/// What is known about the waits of one thread.
struct Wait {
    /// Polls until the next yield.
    left: AtomicUsize,
    /// Polls before a yield.
    limit: AtomicUsize,
    /// Yields of this wait.
    yields: AtomicU32,
    /// The shortest yield.
    quick_ns: AtomicU64,
    /// No yields before this time.
    pause_ns: AtomicU64,
}

thread_local! {
    static OWN: Wait = const { Wait::new() };
}

/// Whose wait ends with a guard.
#[derive(Clone, Copy)]
enum Whose {
    Nobody,
    Only,
    Own,
}

/// A call that waits, until dropped.
pub(crate) struct WaitGuard {
    whose: Whose,
    /// Of the wait around it.
    left: usize,
}

/// Reads the environment. Whether it wants waits to be left alone.
pub(crate) fn are_unwanted() -> bool {
    SLEEP_NS.store(number(c"PUNCTUAL_MPI_SLEEP_NS").unwrap_or(0), Relaxed);
    let polls = number(c"PUNCTUAL_MPI_POLLS").map(|polls| usize::try_from(polls).unwrap_or(NO_WAIT));
    FIXED.store(polls.unwrap_or(0), Relaxed);
    polls == Some(0) || is_disabled()
}

/// Neither a number of polls nor sleeps were asked for.
pub(crate) fn is_learned() -> bool {
    FIXED.load(Relaxed) == 0 && SLEEP_NS.load(Relaxed) == 0
}

/// `PUNCTUAL_DISABLE=1`.
pub(crate) fn is_disabled() -> bool {
    variable_is(c"PUNCTUAL_DISABLE", c"1")
}

/// Leaves all waits alone from now on.
pub(crate) fn leave_alone() {
    MODE.store(OFF, Relaxed);
}

/// Counts polls from now on, in the progress function or in the calls themselves.
pub(crate) fn begin(progress_yields: bool) {
    PROGRESS_YIELDS.store(progress_yields, Relaxed);
    MODE.store(ONE, Relaxed);
}

/// Whether the library has polled before `begin`.
pub(crate) fn has_polled() -> bool {
    POLLED.load(Relaxed)
}

/// Begins a wait that is marked and nothing more: the usual one, at the least price.
#[inline]
pub(crate) fn mark() -> Option<WaitGuard> {
    (MARKS_ONLY.load(Relaxed) == this_thread()).then(|| ONLY.enter(Whose::Only))
}

/// Begins any wait.
pub(crate) fn wait() -> WaitGuard {
    match MODE.load(Relaxed) {
        ONE if OWNER.load(Relaxed) == this_thread() => ONLY.enter(Whose::Only),
        ONE | SEVERAL => wait_of_another(),
        _ => WaitGuard { whose: Whose::Nobody, left: NO_WAIT },
    }
}

/// The first wait of the process, or one of a second thread.
#[cold]
fn wait_of_another() -> WaitGuard {
    if MODE.load(Relaxed) == ONE {
        if OWNER.compare_exchange(0, this_thread(), Relaxed, Relaxed).is_ok() {
            mark_only_from_now_on();
            return ONLY.enter(Whose::Only);
        }
        MODE.store(SEVERAL, SeqCst);
        MARKS_ONLY.store(0, SeqCst);
    }
    OWN.with(|own| own.enter(Whose::Own))
}

/// A second thread that begins to wait at this moment sets the mode first, so one of the two takes the mark back.
fn mark_only_from_now_on() {
    if PROGRESS_YIELDS.load(Relaxed) {
        MARKS_ONLY.store(this_thread(), SeqCst);
        if MODE.load(SeqCst) != ONE {
            MARKS_ONLY.store(0, SeqCst);
        }
    }
}

/// The address of the thread's control block, which no two living threads share. A call of pthread_self(3) would cost as much as all
/// the rest of a wait's mark, since the arguments of the MPI call have to be kept over it.
#[inline]
fn this_thread() -> usize {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
    {
        let address: usize;
        // SAFETY: the first word of the block that `fs` points to is its own address (ELF Handling For Thread-Local Storage, 3.4.6).
        unsafe { std::arch::asm!("mov {}, fs:0", out(reg) address, options(pure, readonly, nostack, preserves_flags)) };
        address
    }
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
    // SAFETY: pthread_self(3) has no preconditions.
    unsafe {
        libc::pthread_self() as usize
    }
}

impl WaitGuard {
    /// One poll was in vain.
    #[inline]
    pub(crate) fn idle(&self) {
        match self.whose {
            Whose::Only => ONLY.poll(),
            Whose::Own => OWN.with(Wait::poll),
            Whose::Nobody => {}
        }
    }
}

impl Drop for WaitGuard {
    #[inline]
    fn drop(&mut self) {
        match self.whose {
            Whose::Only => ONLY.left.store(self.left, Relaxed),
            Whose::Own => OWN.with(|own| own.left.store(self.left, Relaxed)),
            Whose::Nobody => {}
        }
    }
}

/// The library polls. Only within a wait it gives up the CPU before.
#[inline]
pub(crate) fn poll() {
    match MODE.load(Relaxed) {
        OFF => {}
        ONE => ONLY.poll(),
        SEVERAL => OWN.with(Wait::poll),
        _ => POLLED.store(true, Relaxed),
    }
}

impl Wait {
    const fn new() -> Self {
        Self {
            left: AtomicUsize::new(NO_WAIT),
            limit: AtomicUsize::new(0),
            yields: AtomicU32::new(0),
            quick_ns: AtomicU64::new(QUICK_NS),
            pause_ns: AtomicU64::new(0),
        }
    }

    #[inline]
    fn enter(&self, whose: Whose) -> WaitGuard {
        let left = self.left.load(Relaxed);
        self.left.store(self.limit.load(Relaxed), Relaxed);
        self.yields.store(0, Relaxed);
        WaitGuard { whose, left }
    }

    #[inline]
    fn poll(&self) {
        match self.left.load(Relaxed) {
            0 => self.give_way(),
            left => self.left.store(left - 1, Relaxed),
        }
    }

    /// Yields, or sleeps, and learns from it.
    #[cold]
    fn give_way(&self) {
        let fixed = FIXED.load(Relaxed);
        if self.limit.load(Relaxed) == 0 {
            // The first time.
            self.limit.store(if fixed == 0 { FIRST } else { fixed }, Relaxed);
        } else if fixed != 0 {
            symbol::sched_yield();
            YIELDS.fetch_add(1, Relaxed);
            self.sleep();
        } else {
            self.try_to_yield();
            self.sleep();
        }
        self.left.store(self.limit.load(Relaxed), Relaxed);
    }

    fn try_to_yield(&self) {
        let before_ns = now_ns();
        if before_ns < self.pause_ns.load(Relaxed) {
            return;
        }
        symbol::sched_yield();
        YIELDS.fetch_add(1, Relaxed);
        let now_ns = now_ns();
        let took_ns = now_ns - before_ns;
        if self.learn(took_ns, rank::another_is_here) {
            self.pause_ns.store(now_ns + PAUSE * took_ns, Relaxed);
        }
    }

    /// Adapts the limit to the length of a yield. Whether yields pause.
    fn learn(&self, took_ns: u64, another_rank_is_here: impl FnOnce() -> bool) -> bool {
        let (limit, quick_ns) = (self.limit.load(Relaxed), self.quick_ns.load(Relaxed));
        self.quick_ns.store(quick_ns.min(took_ns), Relaxed);
        let pauses = took_ns >= LONG_NS && !another_rank_is_here();
        let limit = match took_ns > 2 * quick_ns {
            _ if pauses => MOST,
            true => (limit / 4).max(FEWEST),
            false => (limit * 2).min(MOST),
        };
        self.limit.store(limit, Relaxed);
        pauses
    }

    /// Sleeps in a wait that has yielded often, if sleeps are allowed.
    fn sleep(&self) {
        let yields = self.yields.load(Relaxed).saturating_add(1);
        self.yields.store(yields, Relaxed);
        if yields > YIELDS_BEFORE_SLEEP {
            sleep(yields - YIELDS_BEFORE_SLEEP);
        }
    }
}

/// The length of the `n`th sleep of a wait.
fn sleep_ns(n: u32, longest_ns: u64) -> u64 {
    (SHORTEST_SLEEP_NS << n.min(32)).min(longest_ns)
}

/// The `n`th sleep of a wait, if sleeps are allowed.
fn sleep(n: u32) {
    let ns = sleep_ns(n, SLEEP_NS.load(Relaxed));
    if ns == 0 {
        return;
    }
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    symbol::sleep(&time);
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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

/// Whether an environment variable has a value.
pub(crate) fn variable_is(name: &CStr, value: &CStr) -> bool {
    // SAFETY: the strings end with a NUL, and a program does not change its environment within an MPI call.
    unsafe {
        let found = libc::getenv(name.as_ptr());
        !found.is_null() && libc::strcmp(found, value.as_ptr()) == 0
    }
}

/// The number of yields of this process. It shows a program that the library is loaded and works.
#[unsafe(no_mangle)]
extern "C" fn punctual_mpi_yields() -> u64 {
    YIELDS.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(wait: &Wait, took_ns: u64, times: u32) -> usize {
        (0..times).for_each(|_| assert!(!wait.learn(took_ns, || true)));
        wait.limit.load(Relaxed)
    }

    #[test]
    fn a_shared_cpu_is_given_up_soon_and_an_own_one_seldom() {
        let wait = Wait::new();
        wait.limit.store(FIRST, Relaxed);
        assert_eq!(learned(&wait, 500, 1), 2 * FIRST);
        assert_eq!(learned(&wait, 500, 10), MOST);
        assert_eq!(learned(&wait, 4_000_000, 1), MOST / 4);
        assert_eq!(learned(&wait, 3_000, 10), FEWEST);
        assert_eq!(learned(&wait, 900, 1), 2 * FEWEST, "not twice the shortest");
    }

    #[test]
    fn a_slow_yield_is_quick_where_all_are_slow() {
        let wait = Wait::new();
        wait.limit.store(FIRST, Relaxed);
        assert_eq!(learned(&wait, 1_900, 1), 2 * FIRST, "a processor that needs 1.9 us for a yield");
        assert_eq!(learned(&wait, 2_100, 1), 2 * FIRST / 4);
    }

    #[test]
    fn yields_pause_after_a_long_one_to_another_program() {
        let wait = Wait::new();
        wait.limit.store(FEWEST, Relaxed);
        assert!(!wait.learn(LONG_NS - 1, || false), "short: nobody is looked for");
        assert!(wait.learn(LONG_NS, || false));
        assert_eq!(wait.limit.load(Relaxed), MOST);
        assert!(!wait.learn(LONG_NS, || true));
    }

    #[test]
    fn sleeps_grow_to_the_longest_allowed() {
        let allowed = |longest_ns| [0, 1, 5, 60].map(|n| sleep_ns(n, longest_ns));
        assert_eq!(allowed(0), [0; 4]);
        assert_eq!(allowed(20_000), [1_000, 2_000, 20_000, 20_000]);
    }
}

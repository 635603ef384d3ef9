//! Measures the costs of polling, yielding and waking on this machine, in a few milliseconds.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sched::{affinity, allow_every_cpu, set_affinity};

use super::{EventCount, Profile, profile};

/// Polls per batch, so that the two clock readings around it weigh little.
const POLLS: u32 = 200;
/// Batches of polls, and yields; the fastest counts, since any disturbance only slows one down.
const TRIES: u32 = 20;
/// As many even where they take long: the first may meet a thread without a CPU.
const LEAST_TRIES: u32 = 3;
/// Longest measurement with more: a yield to another thread may take milliseconds.
const LONGEST_NS: i64 = 2_000_000;
/// Wake-ups; the median counts.
const WAKES: usize = 25;
/// Sleep before the wake-up: long enough to leave the CPU, too short for deep idle states.
const ASLEEP_NS: i64 = 30_000;
/// The assumed cost of a wake-up if it cannot be measured. It is between one on the same CPU (4 µs) and one from a deep idle
/// state.
const USUAL_WAKE_NS: u32 = 30_000;

impl Profile {
    /// Measures now, for a few milliseconds. A thread bound to one CPU measures wake-ups of a thread on the other CPUs.
    #[must_use]
    pub fn measure() -> Self {
        let (own, all) = cpus();
        let cpus = u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
        // A thread bound to one CPU waits for threads on other CPUs.
        let elsewhere: Vec<usize> = match own.as_slice() {
            [only] => all.into_iter().filter(|cpu| cpu != only).collect(),
            _ => Vec::new(),
        };
        let wake_ns = wake_ns(cpus, elsewhere).unwrap_or(USUAL_WAKE_NS);
        Self { cpus, poll_ns: poll_ns(), yield_ns: yield_ns(), wake_ns }
    }

    /// The profile of this machine, measured on the first call in a process.
    #[must_use]
    pub fn of_this_machine() -> &'static Self {
        static MEASURED: OnceLock<Profile> = OnceLock::new();
        MEASURED.get_or_init(Self::measure)
    }
}

/// The CPUs of the calling thread, and all that the process could use, including the calling thread's.
///
/// The awaited thread may run on any CPU of the process, even if this thread is bound to one. Reading these CPUs takes /sys or a cpuset's
/// files. Requesting all CPUs does not: the kernel reduces the mask to CPUs online and in the cpuset (sched_setaffinity(2)). A separate
/// thread requests them, so that no thread moves.
fn cpus() -> (Vec<usize>, Vec<usize>) {
    let own = affinity(0).unwrap_or_default();
    let asking = std::thread::Builder::new().name("backoff-cpus".into()).spawn(|| {
        // If refused (seccomp), the thread's own CPUs remain.
        drop(allow_every_cpu(0));
        affinity(0).unwrap_or_default()
    });
    let mut all = asking.ok().and_then(|thread| thread.join().ok()).unwrap_or_default();
    all.extend(&own);
    all.sort_unstable();
    all.dedup();
    (own, all)
}

fn now() -> i64 {
    now_ns(Clock::Monotonic)
}

/// At least 1, at most `u32::MAX`.
fn in_ns(ns: i64) -> u32 {
    u32::try_from(ns.max(1)).unwrap_or(u32::MAX)
}

fn quickest(mut timed: impl FnMut() -> i64) -> i64 {
    let begin = now();
    let mut best = timed();
    for tried in 1..TRIES {
        if tried >= LEAST_TRIES && now() - begin > LONGEST_NS {
            break;
        }
        best = best.min(timed());
    }
    best
}

fn poll_ns() -> u32 {
    let word = AtomicU32::new(0);
    let batch = quickest(|| {
        let before = now();
        for _ in 0..POLLS {
            std::hint::black_box(std::hint::black_box(&word).load(Ordering::Acquire));
            std::hint::spin_loop();
        }
        now() - before
    });
    in_ns(batch / i64::from(POLLS))
}

fn yield_ns() -> u32 {
    in_ns(quickest(|| {
        let before = now();
        std::thread::yield_now();
        now() - before
    }))
}

#[derive(Default)]
struct Stage {
    event: profile::AtomicU32,
    /// When the waker notified; 0: not yet.
    notified_at: AtomicI64,
    /// When the sleeper woke; 0: not yet.
    woke_at: AtomicI64,
}

/// The median wake-up. `None` if no second thread can be started.
fn wake_ns(cpus: u32, elsewhere: Vec<usize>) -> Option<u32> {
    let stage = Arc::new(Stage::default());
    let sleeper = std::thread::Builder::new().name("backoff-tune".into()).spawn({
        let stage = Arc::clone(&stage);
        move || {
            if !elsewhere.is_empty() {
                // If refused, the wake-ups are those of the same CPU.
                drop(set_affinity(0, &elsewhere));
            }
            for _ in 0..WAKES {
                sleep_until_notified(&stage);
            }
        }
    });
    let sleeper = sleeper.ok()?;
    let mut wakes: Vec<i64> = (0..WAKES).map(|_| wake(&stage, cpus)).collect();
    drop(sleeper.join());
    wakes.sort_unstable();
    Some(in_ns(wakes[WAKES / 2]))
}

fn sleep_until_notified(stage: &Stage) {
    let event = EventCount::private(&stage.event);
    while stage.notified_at.load(Ordering::Acquire) == 0 {
        let key = event.prepare_wait();
        if stage.notified_at.load(Ordering::Acquire) == 0 {
            event.wait(key, None);
        }
    }
    stage.woke_at.store(now(), Ordering::Release);
    while stage.notified_at.load(Ordering::Acquire) != 0 {
        std::thread::yield_now();
    }
}

/// Wakes the sleeper once. Returns the time from just before the notification until it runs.
fn wake(stage: &Stage, cpus: u32) -> i64 {
    let event = EventCount::private(&stage.event);
    while !event.has_waiters() {
        std::thread::yield_now();
    }
    // The waiter is about to sleep. On a single CPU it must run first.
    let begin = now();
    while now() - begin < ASLEEP_NS {
        if cpus == 1 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
    let notified = now();
    stage.notified_at.store(notified, Ordering::Release);
    event.notify();
    let woke = loop {
        match stage.woke_at.swap(0, Ordering::AcqRel) {
            0 => std::thread::yield_now(),
            woke => break woke,
        }
    };
    stage.notified_at.store(0, Ordering::Release);
    woke - notified
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_without_a_cpu_is_not_the_only_one() {
        let mut tries = 0;
        let best = quickest(|| {
            tries += 1;
            std::thread::sleep(std::time::Duration::from_nanos(2 * LONGEST_NS as u64));
            if tries == LEAST_TRIES { 7 } else { 2 * LONGEST_NS }
        });
        assert_eq!((best, tries), (7, LEAST_TRIES));
        let mut quick = 0;
        quickest(|| {
            quick += 1;
            0
        });
        assert!((LEAST_TRIES..=TRIES).contains(&quick));
    }
}

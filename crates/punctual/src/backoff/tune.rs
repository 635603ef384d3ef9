//! Measuring what polling, yielding and waking cost here, in a few milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use punctual_linux::affinity::{affinity, set_affinity};
use punctual_linux::clock::{Clock, now_ns};

use super::atomics;
use super::{Bell, Profile};

/// Polls timed together, so that the two clock readings around them weigh little.
const POLLS: u32 = 200;
/// Batches of polls, and yields, of which the quickest counts: whatever else happens only makes them slower.
const TRIES: u32 = 20;
/// No measurement goes on for longer: a yield that lets somebody else run may take milliseconds.
const LONGEST_NS: i64 = 2_000_000;
/// Wake-ups, of which the median counts.
const WAKES: usize = 25;
/// How long the sleeper is left asleep before it is woken: long enough to leave the CPU, too short for deep idle states.
const ASLEEP_NS: i64 = 30_000;
/// CPUs asked for, to learn which there are: the largest `CONFIG_NR_CPUS` of the kernel (arch/x86/Kconfig).
const MOST_TRIED: usize = 8192;
/// What a wake-up is taken to cost where it cannot be measured: between one on the same CPU (4 µs) and one from a deep idle state.
const USUAL_WAKE_NS: u32 = 30_000;

pub(super) fn measure() -> Profile {
    let (own, all) = cpus();
    let cpus = u32::try_from(all.len().max(1)).unwrap_or(u32::MAX);
    // A thread on a CPU of its own waits for others, which run elsewhere.
    let elsewhere: Vec<usize> = match own.as_slice() {
        [only] => all.into_iter().filter(|cpu| cpu != only).collect(),
        _ => Vec::new(),
    };
    let wake_ns = wake_ns(cpus, elsewhere).unwrap_or(USUAL_WAKE_NS);
    Profile { cpus, poll_ns: poll_ns(), yield_ns: yield_ns(), wake_ns }
}

/// The CPUs of the calling thread, and all that the process could use, the calling thread's among them.
///
/// What a thread waits for may run on any CPU that the kernel lets the process have, also where this thread, or the whole program, has bound
/// itself to one. That cannot be read without /sys or a cpuset's files, but it can be tried: the kernel reduces the mask of a thread that asks
/// for every CPU to those that are online and in its cpuset (sched_setaffinity(2)). A thread of its own asks, so that nobody is moved.
fn cpus() -> (Vec<usize>, Vec<usize>) {
    let own = affinity(0).unwrap_or_default();
    let asking = std::thread::Builder::new().name("backoff-cpus".into()).spawn(|| {
        let every: Vec<usize> = (0..MOST_TRIED).collect();
        // Where it is refused (seccomp), the thread's own CPUs remain.
        drop(set_affinity(0, &every));
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

/// At least 1, at most what the profile holds.
fn in_ns(ns: i64) -> u32 {
    u32::try_from(ns.max(1)).unwrap_or(u32::MAX)
}

fn quickest(mut timed: impl FnMut() -> i64) -> i64 {
    let begin = now();
    let mut best = timed();
    for _ in 1..TRIES {
        if now() - begin > LONGEST_NS {
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
    bell: atomics::AtomicU32,
    /// Set by the waker just before it rings; 0: not yet.
    rang_at: AtomicI64,
    /// Answer of the sleeper, 0: not yet; then when it was awake; -1 to end.
    woke_at: AtomicI64,
}

/// The median of some wake-ups. None where no second thread can be had.
fn wake_ns(cpus: u32, elsewhere: Vec<usize>) -> Option<u32> {
    let stage = Arc::new(Stage::default());
    let sleeper = std::thread::Builder::new().name("backoff-tune".into()).spawn({
        let stage = Arc::clone(&stage);
        move || {
            if !elsewhere.is_empty() {
                // Where it is refused, the wake-ups are those of the same CPU.
                drop(set_affinity(0, &elsewhere));
            }
            for _ in 0..WAKES {
                sleep_until_rung(&stage);
            }
        }
    });
    let sleeper = sleeper.ok()?;
    let mut wakes: Vec<i64> = (0..WAKES).map(|_| wake(&stage, cpus)).collect();
    drop(sleeper.join());
    wakes.sort_unstable();
    Some(in_ns(wakes[WAKES / 2]))
}

fn sleep_until_rung(stage: &Stage) {
    let bell = Bell::private(&stage.bell);
    while stage.rang_at.load(Ordering::Acquire) == 0 {
        let ticket = bell.listen();
        if stage.rang_at.load(Ordering::Acquire) == 0 {
            bell.park(ticket, None);
        }
    }
    stage.woke_at.store(now(), Ordering::Release);
    while stage.rang_at.load(Ordering::Acquire) != 0 {
        std::thread::yield_now();
    }
}

/// Wakes the sleeper once: from just before the ring until it runs.
fn wake(stage: &Stage, cpus: u32) -> i64 {
    let bell = Bell::private(&stage.bell);
    while !bell.is_listened_to() {
        std::thread::yield_now();
    }
    // The listener is about to fall asleep. On a single CPU it has to be let run for that.
    let begin = now();
    while now() - begin < ASLEEP_NS {
        if cpus == 1 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
    let rang = now();
    stage.rang_at.store(rang, Ordering::Release);
    bell.ring();
    let woke = loop {
        match stage.woke_at.swap(0, Ordering::AcqRel) {
            0 => std::thread::yield_now(),
            woke => break woke,
        }
    };
    stage.rang_at.store(0, Ordering::Release);
    woke - rang
}

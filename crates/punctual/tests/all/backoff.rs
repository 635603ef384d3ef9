//! The polling loop for real: no wake-up is lost, in one process and between two, whatever the limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use punctual::backoff::{Backoff, EventCount, Limits, Profile, Step};
use punctual_linux::child::{Child, Ended};
use punctual_linux::memory::{CacheLine, Shared};
use punctual_testing::{GIVE_UP, eventually};

/// Two counters that follow each other, each with its event count: a game of ping-pong.
type Table = (CacheLine<(AtomicU64, AtomicU32)>, CacheLine<(AtomicU64, AtomicU32)>);

const fn limits(spins: u32, yields: u32) -> Limits {
    Limits { spins, yields, longest_yield: Duration::from_millis(1) }
}

fn private(word: &AtomicU32) -> EventCount<'_> {
    EventCount::private(word)
}

fn shared(word: &AtomicU32) -> EventCount<'_> {
    EventCount::shared(word)
}

/// Waits for each count of `theirs` and answers with the same count of `mine`.
fn answer(table: &Table, rounds: u64, limits: Limits, event: fn(&AtomicU32) -> EventCount<'_>) {
    let (theirs, mine) = (&*table.0, &*table.1);
    let mut backoff = Backoff::new(limits);
    for round in 1..=rounds {
        backoff.wait_for(event(&theirs.1), || (theirs.0.load(Ordering::Acquire) >= round).then_some(()));
        mine.0.store(round, Ordering::Release);
        event(&mine.1).notify();
    }
}

/// Serves, and waits for each answer. A lost wake-up ends in a panic rather than a hang.
fn serve(table: &Table, rounds: u64, limits: Limits, event: fn(&AtomicU32) -> EventCount<'_>) {
    let (mine, theirs) = (&*table.0, &*table.1);
    let mut backoff = Backoff::new(limits);
    for round in 1..=rounds {
        mine.0.store(round, Ordering::Release);
        event(&mine.1).notify();
        let came = backoff
            .wait_for_at_most(event(&theirs.1), GIVE_UP, || (theirs.0.load(Ordering::Acquire) >= round).then_some(()));
        assert!(came.is_some(), "round {round} of {rounds} was never answered");
    }
}

/// This number of rounds between two threads, with each of the limits.
fn between_threads(rounds: u64) {
    // Parking at once makes every round a race between falling asleep and being woken.
    for limits in [Limits::PARK, limits(3, 0), limits(20, 2), limits(0, 1)] {
        let table = Arc::new(Table::default());
        let other = std::thread::spawn({
            let table = Arc::clone(&table);
            move || answer(&table, rounds, limits, private)
        });
        serve(&table, rounds, limits, private);
        other.join().unwrap();
    }
}

#[test]
fn no_round_between_threads_is_lost() {
    between_threads(30_000);
}

#[test]
#[ignore = "slow: run by the gate"]
fn none_of_millions_of_rounds_between_threads_is_lost() {
    between_threads(700_000);
}

/// This number of rounds between two processes.
fn between_processes(rounds: u64) {
    for limits in [Limits::PARK, limits(50, 3)] {
        let table = Shared::<Table>::new().unwrap();
        let theirs = table.clone();
        let mut child = Child::spawn("answers", move || answer(&theirs, rounds, limits, shared)).unwrap();
        serve(&table, rounds, limits, shared);
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
    }
}

#[test]
fn no_round_between_two_processes_is_lost() {
    between_processes(20_000);
}

#[test]
#[ignore = "slow: run by the gate"]
fn none_of_many_rounds_between_two_processes_is_lost() {
    between_processes(300_000);
}

#[test]
fn many_listeners_are_all_woken() {
    const LISTENERS: u64 = 4;
    const ROUNDS: u64 = 20_000;
    let table = Arc::new(Table::default());
    let listeners: Vec<_> = (0..LISTENERS)
        .map(|_| {
            let table = Arc::clone(&table);
            std::thread::spawn(move || {
                let mut backoff = Backoff::new(Limits::PARK);
                for round in 1..=ROUNDS {
                    let event = EventCount::private(&table.0.0.1);
                    backoff.wait_for(event, || (table.0.0.0.load(Ordering::Acquire) >= round).then_some(()));
                    table.1.0.0.fetch_add(1, Ordering::AcqRel);
                    EventCount::private(&table.1.0.1).notify();
                }
            })
        })
        .collect();
    let mut backoff = Backoff::new(Limits::PARK);
    for round in 1..=ROUNDS {
        table.0.0.0.store(round, Ordering::Release);
        EventCount::private(&table.0.0.1).notify();
        let event = EventCount::private(&table.1.0.1);
        let all = backoff.wait_for_at_most(event, GIVE_UP, || {
            (table.1.0.0.load(Ordering::Acquire) >= round * LISTENERS).then_some(())
        });
        assert!(all.is_some(), "round {round}: a listener sleeps on");
    }
    for listener in listeners {
        listener.join().unwrap();
    }
}

#[test]
fn steps_are_taken_in_order_and_reset_begins_anew() {
    let mut backoff = Backoff::new(Limits { longest_yield: Duration::from_secs(3600), ..limits(3, 2) });
    for _ in 0..2 {
        let steps: Vec<Step> = (0..7).map(|_| backoff.step()).collect();
        assert_eq!(steps, [Step::Spin, Step::Spin, Step::Spin, Step::Yield, Step::Yield, Step::Park, Step::Park]);
        backoff.reset();
    }
}

#[test]
fn a_yield_that_lets_others_run_for_long_is_the_last() {
    // Every yield takes longer than nothing.
    let mut backoff = Backoff::new(Limits { longest_yield: Duration::ZERO, ..limits(0, 1000) });
    assert_eq!([backoff.step(), backoff.step()], [Step::Yield, Step::Park]);
    // Nor is it tried again at once: every eighth wait does, then, as it goes on, every sixteenth.
    let waits_until_it_yields = |backoff: &mut Backoff| {
        (1..100).find(|_| {
            backoff.reset();
            backoff.step() == Step::Yield
        })
    };
    assert_eq!(waits_until_it_yields(&mut backoff), Some(8));
    assert_eq!(waits_until_it_yields(&mut backoff), Some(16));
}

#[test]
fn a_timeout_is_never_early_and_polls_a_last_time() {
    let word = AtomicU32::new(0);
    for limits in [Limits::PARK, Limits::SPIN, limits(10, 10)] {
        let timeout = Duration::from_millis(3);
        let begin = Instant::now();
        assert_eq!(Backoff::new(limits).wait_for_at_most(EventCount::private(&word), timeout, || None::<()>), None);
        assert!(begin.elapsed() >= timeout);
        let mut polls = 0;
        let at_once = Backoff::new(limits).wait_for_at_most(EventCount::private(&word), Duration::ZERO, || {
            polls += 1;
            (polls == 2).then_some("late")
        });
        assert_eq!(at_once, Some("late"));
    }
}

#[test]
fn without_waiters_nothing_is_written() {
    let word = AtomicU32::new(0);
    EventCount::private(&word).notify();
    assert_eq!(word.load(Ordering::Relaxed), 0);
    let key = EventCount::private(&word).prepare_wait();
    assert!(EventCount::private(&word).has_waiters());
    EventCount::private(&word).notify();
    assert!(!EventCount::private(&word).has_waiters());
    // Notified already: this returns although no notification follows.
    EventCount::private(&word).wait(key, None);
}

#[test]
fn this_machine_can_be_measured_and_the_profile_kept() {
    // Where the thread is kept from its CPU all the while, a poll seems to take longer than a wake-up.
    let told = |profile: &Profile| (profile.limits().spins > 0) == (profile.cpus > 1);
    let profile = eventually("a measurement", || Some(Profile::measure()).filter(told));
    // A quota of CPU time or an affinity makes the parallelism smaller. A CPU outside of the cpuset is in /proc/cpuinfo.
    let parallelism = std::thread::available_parallelism().unwrap().get();
    let online =
        std::fs::read_to_string("/proc/cpuinfo").unwrap().lines().filter(|line| line.starts_with("processor")).count();
    let cpus = profile.cpus as usize;
    assert!((parallelism..=online).contains(&cpus), "{parallelism} <= {cpus} <= {online}");
    assert!(profile.poll_ns >= 1 && profile.yield_ns >= 1 && profile.wake_ns >= 1);
    let limits = profile.to_string().parse::<Profile>().unwrap().limits();
    assert_eq!(Backoff::with_profile(&profile).limits(), limits);
    assert!(limits.yields >= 1);
    assert_eq!(Backoff::tuned().limits(), Backoff::tuned().limits());
}

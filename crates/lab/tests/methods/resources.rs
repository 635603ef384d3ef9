//! Every opened resource is released, and two methods of a kind do not disturb each other.

use std::sync::Barrier;

use punctual_lab::ways::wait::Method;
use punctual_linux::clock::{Clock, now_ns};
use punctual_testing::alone;

use crate::support::{check_wait, fine, open};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// How often a method is opened here: calibrating the counter takes some milliseconds.
fn times(method: &Method) -> u32 {
    let calibrates = method.system_calls.is_empty() && method.name != "spin_clock" && method.name != "spin_pause";
    if calibrates { 20 } else { 1_000 }
}

#[test]
fn opened_a_thousand_times_nothing_is_left() {
    let _alone = alone();
    for method in fine() {
        if open(method).is_none() {
            continue;
        }
        let (descriptors, timers, signals) = (open_descriptors(), posix_timers(), signal_lines());
        for _ in 0..times(method) {
            let waiter = (method.open)().unwrap_or_else(|e| panic!("{}: {e}", method.name));
            drop(waiter);
        }
        assert_eq!(open_descriptors(), descriptors, "{} leaves descriptors", method.name);
        assert_eq!(posix_timers(), timers, "{} leaves timers", method.name);
        assert_eq!(signal_lines(), signals, "{} leaves signals blocked, pending or handled", method.name);
    }
    let own = format!("punctual-{}-", std::process::id());
    assert!(!left_queues().iter().any(|name| name.starts_with(&own)), "{:?}", left_queues());
}

/// POSIX timers of this process; empty where the kernel does not list them.
fn posix_timers() -> String {
    std::fs::read_to_string("/proc/self/timers").unwrap_or_default()
}

/// The signal masks of this thread and the handlers of this process (`proc_pid_status(5)`).
fn signal_lines() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let wanted =
        |line: &&str| ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"].iter().any(|name| line.starts_with(name));
    status.lines().filter(wanted).map(str::to_owned).collect()
}

/// Names in the message queue file system, where it is mounted.
fn left_queues() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir("/dev/mqueue") else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn after_waits_too() {
    let _alone = alone();
    for method in fine() {
        let signals = signal_lines();
        let Some(mut waiter) = open(method) else { continue };
        for _ in 0..20 {
            check_wait(method, &mut *waiter, 20_000);
        }
        drop(waiter);
        assert_eq!(signal_lines(), signals, "{}", method.name);
    }
}

#[test]
fn waiting_allocates_nothing() {
    let _alone = alone();
    let boxed = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(boxed.count_total, 1, "the counter counts");
    for method in fine() {
        let Some(mut waiter) = open(method) else { continue };
        let wait = || (0..10).for_each(|_| waiter.wait(now_ns(Clock::Monotonic), 20_000).unwrap());
        let counted = allocation_counter::measure(wait);
        assert_eq!(counted.count_total, 0, "{} allocates {} bytes", method.name, counted.bytes_total);
    }
}

#[test]
fn two_in_one_thread_take_turns() {
    let _alone = alone();
    for method in fine() {
        let Some(mut first) = open(method) else { continue };
        match (method.open)() {
            Ok(mut second) => {
                for _ in 0..20 {
                    check_wait(method, &mut *first, 30_000);
                    check_wait(method, &mut *second, 50_000);
                }
                drop(first);
                check_wait(method, &mut *second, 50_000);
            }
            Err(why) => {
                assert_eq!(method.name, "setitimer_sigsuspend", "{}: {why}", method.name);
                assert!(why.why.contains("only one"), "{why}");
            }
        }
    }
}

#[test]
fn two_threads_at_once() {
    let _alone = alone();
    for method in fine().filter(|method| method.name != "setitimer_sigsuspend") {
        if open(method).is_none() {
            continue;
        }
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            for asked_ns in [40_000, 90_000] {
                let together = &together;
                scope.spawn(move || {
                    let mut waiter = (method.open)().unwrap_or_else(|e| panic!("{}: {e}", method.name));
                    together.wait();
                    for _ in 0..40 {
                        check_wait(method, &mut *waiter, asked_ns);
                    }
                });
            }
        });
    }
}

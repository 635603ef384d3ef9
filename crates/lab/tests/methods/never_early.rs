//! No way of waiting ever returns early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_lab::wait::methods;
use punctual_lab::ways::wait::{Kind, Method, Unit};
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::signal::Interruptible;
use punctual_linux::stop;
use punctual_testing::alone;

use crate::support::{check_wait, fine, open};

/// Number and length of the waits: fewer if the unit makes each one last a millisecond or more.
fn amounts(method: &Method) -> &'static [(u32, i64)] {
    match method.unit {
        Unit::Nanosecond | Unit::Microsecond => &[(150, 1_000), (60, 73_501), (20, 400_000), (5, 2_000_000)],
        _ => &[(20, 1_000), (20, 999_999), (10, 2_000_000)],
    }
}

fn wait_all() -> u32 {
    let mut waits = 0;
    for method in fine() {
        let Some(mut waiter) = open(method) else { continue };
        for &(count, asked_ns) in amounts(method) {
            for _ in 0..count {
                check_wait(method, &mut *waiter, asked_ns);
            }
            waits += count;
        }
    }
    waits
}

#[test]
fn undisturbed() {
    let _alone = alone();
    assert!(wait_all() > 5_000);
}

#[test]
fn a_wait_of_nothing_or_less_ends() {
    let _alone = alone();
    for method in fine() {
        let Some(mut waiter) = open(method) else { continue };
        check_wait(method, &mut *waiter, 0);
        check_wait(method, &mut *waiter, -5);
    }
}

#[test]
fn whole_seconds() {
    let _alone = alone();
    let method = methods::find("sleep").unwrap();
    let from = now_ns(Clock::Monotonic);
    check_wait(method, &mut *open(method).unwrap(), 100_000);
    assert!(now_ns(Clock::Monotonic) - from >= method.unit.effective_ns(100_000, None));
}

/// Runs `f` while another thread interrupts this one every 50 microseconds or so.
fn peppered(f: impl FnOnce()) -> u64 {
    let me = Interruptible::this_thread().unwrap();
    let interrupter = me.interrupter();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !done.load(Ordering::Relaxed) {
                interrupter.interrupt().unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_micros(50));
            }
            sent
        });
        // Also if `f` panics, or the scope would never end.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        done.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent
    })
}

#[test]
fn peppered_with_signals() {
    let _alone = alone();
    let mut sent = 0;
    // Once is enough, unless the sender has no CPU.
    while sent <= 1_000 {
        sent += peppered(|| assert!(wait_all() > 5_000));
    }
}

#[test]
fn a_stop_request_cuts_every_long_wait() {
    let _alone = alone();
    for method in fine() {
        let Some(mut waiter) = open(method) else { continue };
        let mut cut = || {
            stop::request();
            let ended = waiter.wait(now_ns(Clock::Monotonic), 3_600_000_000_000);
            stop::clear();
            let errno = ended.expect_err(method.name).errno();
            assert_eq!(errno, punctual_linux::EINTR, "{}", method.name);
            // It waits as before.
            check_wait(method, &mut *waiter, 50_000);
        };
        // Busy waits check the request themselves.
        if matches!(method.kind, Kind::Spin | Kind::UserWait) {
            cut();
        } else {
            peppered(cut);
        }
    }
}

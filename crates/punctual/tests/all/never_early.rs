//! The sleeper on the real kernel: never early, whatever signals arrive; nothing allocated, nothing left changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{on_thread, privileged};
use punctual::{Applied, Clock, Moment, Policy, Rate, Sleeper, SleeperOptions, Strategy, SystemClock, Ticker};
use punctual_linux::sched::{set_timer_slack_ns, timer_slack_ns};
use punctual_linux::signal::Interruptible;
use punctual_testing::until;

const STRATEGIES: [Strategy; 3] = [Strategy::Native, Strategy::Compensated, Strategy::Hybrid];

fn clocks() -> [SystemClock; 4] {
    [SystemClock::monotonic(), SystemClock::wall(), SystemClock::boottime(), SystemClock::tai()]
}

/// Runs `body` while another thread interrupts this one every 20 µs or so, and counts the signals for it.
fn peppered(body: impl FnOnce(&AtomicU64)) {
    let me = Interruptible::this_thread().unwrap();
    let interrupter = me.interrupter();
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                interrupter.interrupt().unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        // Also when `body` panics, or the scope would not end.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&sent)));
        done.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn check<C: Clock>(sleeper: &mut Sleeper<C>, wait_ns: i64) {
    let deadline = sleeper.now().plus_nanos(wait_ns);
    let wake = sleeper.sleep_until(deadline);
    let now = sleeper.now();
    assert!(wake.woke_at >= deadline && now >= deadline, "{} ns early", deadline.nanos_since(now));
    assert!(wake.woke_at <= now);
}

/// A million waits on all clocks, peppered with signals. Most of them are of a few µs, some long enough to sleep.
#[test]
fn a_million_waits_with_signals() {
    peppered(|sent| {
        let mut waits = 0_u32;
        'enough: loop {
            for clock in clocks() {
                for strategy in STRATEGIES {
                    let mut sleeper = SleeperOptions::new().strategy(strategy).clock(clock).build();
                    // Native and compensated sleeps of any length cost a system call and a wake-up: fewer of them.
                    let rounds = if strategy == Strategy::Hybrid { 2_000 } else { 2 };
                    for n in 0..rounds {
                        for wait_ns in [0, 1, 99, 150, 700, 1_000, 1_001, 2_500] {
                            check(&mut sleeper, wait_ns);
                            waits += 1;
                        }
                        if n % 200 == 0 {
                            [20_000, 60_000, 300_000].into_iter().for_each(|wait_ns| check(&mut sleeper, wait_ns));
                            waits += 3;
                        }
                    }
                    // Beside busy threads the signals are rarer.
                    if waits >= 1_000_000 && sent.load(Ordering::Relaxed) > 1_000 {
                        break 'enough;
                    }
                }
            }
        }
    });
}

#[test]
fn giving_up_after_a_signal() {
    peppered(|_| {
        for strategy in STRATEGIES {
            let mut sleeper = SleeperOptions::new().strategy(strategy).build();
            let hour = sleeper.now() + Duration::from_secs(3_600);
            assert!(sleeper.sleep_until_unless(hour, || true).is_none());
            let soon = sleeper.now() + Duration::from_micros(500);
            assert!(sleeper.sleep_until_unless(soon, || false).is_some());
        }
    });
}

#[test]
fn the_slack_is_put_back() {
    on_thread(|| {
        set_timer_slack_ns(60_000).unwrap();
        let mut sleeper = Sleeper::new();
        assert_eq!(timer_slack_ns().unwrap(), 60_000, "nothing is changed before the first wait");
        sleeper.sleep(Duration::from_micros(300));
        assert_eq!(timer_slack_ns().unwrap(), 1);
        sleeper.restore_timer_slack();
        assert_eq!(timer_slack_ns().unwrap(), 60_000);
        let mut ticker = Ticker::new(Rate::per_second(1_000).unwrap());
        // A tick that is past already needs no sleep.
        until("a tick sleeps", || ticker.tick().slept > Duration::ZERO);
        sleeper.sleep(Duration::from_micros(300));
        drop(sleeper);
        assert_eq!(timer_slack_ns().unwrap(), 1, "the ticker still needs it");
        drop(ticker);
        assert_eq!(timer_slack_ns().unwrap(), 60_000);
    });
}

/// A thread goes under a real-time policy and back between waits. The kernel resets its slack, and it is set again.
#[test]
fn a_change_of_policy_is_survived() {
    if !privileged() {
        return;
    }
    on_thread(|| {
        let mut sleeper = Sleeper::new();
        sleeper.sleep(Duration::from_micros(200));
        let fifo = punctual::Conditions::new().policy(Policy::Fifo(10));
        let Applied { guard, refused } = fifo.apply();
        assert!(refused.is_empty(), "{refused:?}");
        (0..50).for_each(|_| check(&mut sleeper, 150_000));
        drop(guard);
        set_timer_slack_ns(50_000).unwrap();
        // Far longer than any margin. On a disturbed machine shorter waits are spun through, and a wait without a sleep needs no
        // slack.
        (0..150).for_each(|_| check(&mut sleeper, 5_000_000));
        assert_eq!(timer_slack_ns().unwrap(), 1);
    });
}

/// One CPU shared with a spinning neighbour: waits end, and the spin stays within its cap.
#[test]
fn a_spinning_neighbour_on_the_same_cpu() {
    on_thread(|| {
        let cpu = punctual_linux::sched::affinity(0).unwrap()[0];
        punctual_linux::sched::set_affinity(0, &[cpu]).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let mut sleeper = Sleeper::new();
            for _ in 0..50 {
                check(&mut sleeper, 1_000_000);
                assert!(sleeper.learner().margin_ns(1_000_000) <= 250_000);
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn waiting_allocates_nothing() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1, "the counter counts");
    for strategy in STRATEGIES {
        let mut sleeper = SleeperOptions::new().strategy(strategy).build();
        let mut wait = || (0..200).for_each(|n| check(&mut sleeper, n * 500));
        assert_eq!(allocation_counter::measure(&mut wait).count_total, 0, "{strategy:?}");
    }
}

/// 10 kHz for two seconds, as the machine lets it. Every tick is accounted for, and the last deadline is exact.
#[test]
fn a_ticker_does_not_drift() {
    let rate = Rate::per_second(10_000).unwrap();
    let start = SystemClock::monotonic().now() + Duration::from_millis(1);
    let mut ticker = Ticker::options().rate(rate).starting_at(start).build().unwrap();
    let (mut served, mut missed) = (0_u64, 0);
    let last = loop {
        let tick = ticker.tick();
        assert!(tick.woke_at >= tick.deadline);
        served += 1;
        missed += tick.missed;
        assert_eq!(served + missed, tick.index + 1);
        if tick.index >= 19_999 {
            break tick;
        }
    };
    assert_eq!(last.deadline, start.plus_nanos(rate.time_of(last.index)));
    println!("{served} served, {missed} missed");
}

#[test]
fn enormous_and_empty_waits() {
    let mut sleeper = Sleeper::new();
    assert!(sleeper.sleep(Duration::ZERO).lateness() < Duration::from_secs(3_600));
    let wake = sleeper.sleep_until(Moment::from_nanos(i64::MIN));
    assert!(wake.lateness() > Duration::from_secs(1), "{wake:?}");
    peppered(|_| assert!(sleeper.sleep_until_unless(Moment::NEVER, || true).is_none()));
}

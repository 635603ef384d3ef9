//! The watchdog on the real kernel: a thread that spins under a real-time policy is put under SCHED_OTHER.

use std::time::{Duration, Instant};

use crate::common::{on_thread, privileged, state};
use punctual::watchdog::WatchdogConfig;
use punctual::{Applied, Conditions, Policy, RtThrottle, Watchdog};
use punctual_testing::{alone_on_this_machine, in_a_process_of_its_own};
use rustix::process::{Resource, getrlimit};

fn under(policy: Policy) -> Conditions {
    Conditions::new().policy(policy)
}

#[test]
fn a_spinning_real_time_thread_is_demoted_and_then_put_back() {
    if !in_a_process_of_its_own("watchdog::a_spinning_real_time_thread_is_demoted_and_then_put_back") || !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    let limit = getrlimit(Resource::Rttime);
    for policy in [Policy::Fifo(40), Policy::RoundRobin(98)] {
        on_thread(move || {
            let before = state();
            let watchdog = Watchdog::over_this_thread(policy, WatchdogConfig::default()).unwrap();
            assert_eq!(watchdog.caveats(), [] as [String; 0]);
            assert_eq!(watchdog.runs_under(), Some(Policy::Fifo(policy.priority().unwrap() + 1)));
            assert_eq!(watchdog.backstop(), Some(Duration::from_secs(4)));
            let Applied { guard, refused } = under(policy).apply();
            assert_eq!(refused, []);
            while watchdog.tripped().is_none() {
                std::hint::spin_loop();
            }
            assert_eq!(Conditions::inspect().get_policy(), Some(Policy::Other));
            assert!(!watchdog.demotion_failed());
            let tripped = watchdog.tripped().unwrap();
            assert!(
                // CPU time and CLOCK_MONOTONIC differ by parts per million.
                tripped.busy >= WatchdogConfig::default().busy_without_break && tripped.busy < tripped.within * 2,
                "{tripped:?}"
            );
            assert_eq!(guard.restore(), []);
            assert_eq!(state(), before);
        });
        assert_eq!(getrlimit(Resource::Rttime), limit);
    }
}

/// Nothing is left for anybody else, and the watchdogs still come through: as on a machine with one CPU.
#[test]
fn threads_that_spin_on_every_cpu_are_demoted() {
    if !in_a_process_of_its_own("watchdog::threads_that_spin_on_every_cpu_are_demoted") || !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    let cpus = punctual_linux::sched::affinity(0).unwrap();
    let threads: Vec<_> = cpus
        .into_iter()
        .map(|cpu| {
            std::thread::spawn(move || {
                let watchdog = Watchdog::over_this_thread(Policy::Fifo(60), WatchdogConfig::default()).unwrap();
                let Applied { guard: _guard, refused } = under(Policy::Fifo(60)).cpu(cpu).apply();
                assert_eq!(refused, []);
                while watchdog.tripped().is_none() {}
                Conditions::inspect().get_policy()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Some(Policy::Other));
    }
}

#[test]
fn a_thread_that_breathes_is_left_alone() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    on_thread(|| {
        let watchdog = Watchdog::over_this_thread(Policy::Fifo(40), WatchdogConfig::default()).unwrap();
        let guard = under(Policy::Fifo(40)).apply().guard;
        let mut throttle = RtThrottle::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(4) {
            let piece = Instant::now();
            while piece.elapsed() < Duration::from_millis(5) {}
            throttle.after(piece.elapsed());
        }
        assert_eq!(watchdog.tripped(), None);
        assert_eq!(Conditions::inspect().get_policy(), Some(Policy::Fifo(40)));
        drop(guard);
    });
}

#[test]
fn it_says_what_it_cannot_guard() {
    if !privileged() {
        return;
    }
    let _alone = alone_on_this_machine();
    let watchdog = Watchdog::over_this_thread(Policy::Fifo(99), WatchdogConfig::default()).unwrap();
    assert!(watchdog.caveats()[0].contains("the highest priority, 99"), "{:?}", watchdog.caveats());
    assert!(Watchdog::over(i32::MAX >> 4, Policy::Fifo(1), WatchdogConfig::default()).is_err());
}

#[test]
fn the_backstop_goes_with_the_last_watchdog() {
    let _alone = alone_on_this_machine();
    let before = getrlimit(Resource::Rttime);
    let first = Watchdog::over_this_thread(Policy::Other, WatchdogConfig::default()).unwrap();
    let long = WatchdogConfig { window: Duration::from_secs(4), ..WatchdogConfig::default() };
    let second = Watchdog::over_this_thread(Policy::Other, long).unwrap();
    assert_eq!(
        second.backstop(),
        Some(before.current.map_or(Duration::from_secs(10), Duration::from_micros).min(Duration::from_secs(10)))
    );
    drop(first);
    assert_ne!(getrlimit(Resource::Rttime).current, None);
    drop(second);
    assert_eq!(getrlimit(Resource::Rttime), before);
}

#[test]
fn it_outlives_the_thread_it_guards_without_harm() {
    let _alone = alone_on_this_machine();
    let (tell, told) = std::sync::mpsc::channel();
    let (end, may_end) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(punctual_linux::sched::current_thread_id()).unwrap();
        may_end.recv().unwrap();
    });
    let watchdog = Watchdog::over(told.recv().unwrap(), Policy::Other, WatchdogConfig::default()).unwrap();
    std::thread::sleep(Duration::from_millis(150));
    end.send(()).unwrap();
    thread.join().unwrap();
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(watchdog.tripped(), None);
}

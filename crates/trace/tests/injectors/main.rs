//! Causes are injected on the real kernel, and must be named.
//!
//! Each injector delays a thread in a known way. The right cause and culprit must be the largest part of at least 95 %
//! of the wake-ups that it hits. Where the injected time is known, the part must agree within 10 % or 2 us. If it is
//! less than half of the delay, another part may be larger. So other programs on the CPU are no excuse. Without the
//! injector, the same cause and culprit may take 2 us of at most 1 % of the wake-ups. The short form of the table runs
//! with all tests. The long form has at least 200 late wake-ups of each injector; some are played once more while a
//! thread on each CPU cycles and is watched too.

mod amounts;
mod expired_sleeps;
mod faults;
mod groups;
mod idle;
mod inversion;
mod judge;
mod lab;
mod limits;
mod partners;
mod place;
mod play;
mod softirqs;
mod spins;
mod stops;
mod threads;
mod timers;

/// A test of each injector with 200 late wake-ups; of some, one with 30 that runs with all tests.
macro_rules! table {
    (
        in_short: { $($short:ident: $holds_short:expr;)* } at_length: { $($name:ident: $holds:expr;)* }
        beside_a_crew: { $($crew:ident: $injector:expr;)* }
    ) => {
        mod by_hand_beside_a_crew {
            use super::*;

            $(#[test]
            #[ignore = "200 late wake-ups"]
            fn $crew() {
                judge::names_the_cause_beside_a_crew(&$injector, lab::many());
            })*
        }

        mod in_short {
            use super::*;

            $(#[test]
            fn $short() {
                ($holds_short)(30);
            })*
        }

        mod at_length {
            use super::*;

            $(#[test]
            #[ignore = "200 late wake-ups"]
            fn $short() {
                ($holds_short)(lab::many());
            })*

            $(#[test]
            #[ignore = "200 late wake-ups"]
            fn $name() {
                ($holds)(lab::many());
            })*
        }
    };
}

table! {
    in_short: {
        timer_slack: |wanted| judge::names_the_cause(&timers::SLACK, wanted);
        busy_fifo_thread: |wanted| judge::names_the_cause(&threads::BUSY_FIFO, wanted);
        a_broken_engine_is_found: |wanted| judge::finds_a_broken_engine(&threads::BUSY_FIFO, wanted);
        busy_at_the_own_timer: |wanted| judge::names_the_cause(&spins::OWN_TIMER, wanted);
        stop_and_continue: |wanted| judge::names_the_cause(&stops::STOPPED, wanted);
        slow_partners_by_pipe: partners::pipes;
        sleeps_that_are_over: expired_sleeps::holds;
        real_time_limit: |wanted| judge::names_the_cause(&limits::REAL_TIME, wanted);
        supplied_pages: |wanted| judge::names_the_cause(&faults::SUPPLIED, wanted);
    }
    at_length: {
        timers_at_once: |wanted| judge::names_the_cause(&timers::AT_ONCE, wanted);
        fair_threads: |wanted| judge::names_the_cause(&threads::FAIR, wanted);
        fork_storm: |wanted| judge::names_the_cause(&threads::FORKS, wanted);
        used_up_quota: |wanted| judge::names_the_cause(&limits::QUOTA, wanted);
        used_up_quota_beside_others: |wanted| judge::names_the_cause(&limits::QUOTA_BESIDE, wanted);
        // One delay a second.
        kept_for_fair_threads: |wanted| judge::names_the_cause(&limits::KEPT_FOR_FAIR, wanted / 10);
        idle_states: |wanted| judge::names_the_cause(&idle::IDLE_STATES, wanted);
        network_flood: |wanted| judge::names_the_cause(&softirqs::NET_RX, wanted);
        slow_partners_by_futex: partners::futexes;
        priority_inversion: inversion::holds;
        busy_at_another_timer: |wanted| judge::names_the_cause(&spins::OTHER_TIMER, wanted);
        busy_at_a_softirq: |wanted| judge::names_the_cause(&spins::SOFTIRQ, wanted);
        busy_at_the_wake_up: |wanted| judge::names_the_cause(&spins::WAKING, wanted);
        busy_at_a_switch: |wanted| judge::names_the_cause(&spins::SWITCH, wanted);
        busy_at_the_switch_to_idle: |wanted| judge::names_the_cause(&spins::SWITCH_TO_IDLE, wanted);
        busy_at_the_switch_to_the_thread: |wanted| judge::names_the_cause(&spins::SWITCH_TO_IT, wanted);
        dropped_pages: |wanted| judge::names_the_cause(&faults::DROPPED, wanted);
        busy_in_another_cpus_call: |wanted| judge::names_the_cause(&spins::CALL, wanted);
    }
    beside_a_crew: {
        busy_fifo_thread: threads::BUSY_FIFO;
        busy_in_another_cpus_call: spins::CALL;
        // The switch may be one to a thread of the crew.
        interrupts_off: judge::Injector { culprit: None, ..spins::SWITCH };
        interrupts_off_at_idle: spins::SWITCH_TO_IDLE;
        used_up_quota: limits::QUOTA;
        used_up_quota_beside_others: limits::QUOTA_BESIDE;
        real_time_limit: limits::REAL_TIME;
        supplied_pages: faults::SUPPLIED;
    }
}

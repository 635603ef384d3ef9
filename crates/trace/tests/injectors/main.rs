//! Causes are injected on the real kernel, and must be named.
//!
//! Each injector delays a thread in a known way. The right cause and culprit must be the largest part of at least 95 % of
//! the wake-ups that it hits. Where the injected time is known, the part must agree within 10 % or 2 us. Without the
//! injector, the same cause and culprit may take 2 us of at most 1 % of the wake-ups. The short form of the table runs
//! with all tests; the long form has at least 200 late wake-ups of each injector.

mod amounts;
mod faults;
mod groups;
mod inversion;
mod judge;
mod limits;
mod partners;
mod place;
mod play;
mod softirqs;
mod stops;
mod threads;
mod timers;

/// A test of each injector with 200 late wake-ups; of some, one with 30 that runs with all tests.
macro_rules! table {
    (in_short: { $($short:ident: $holds_short:expr;)* } at_length: { $($name:ident: $holds:expr;)* }) => {
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
                ($holds_short)(200);
            })*

            $(#[test]
            #[ignore = "200 late wake-ups"]
            fn $name() {
                ($holds)(200);
            })*
        }
    };
}

table! {
    in_short: {
        timer_slack: |wanted| judge::names_the_cause(&timers::SLACK, wanted);
        busy_fifo_thread: |wanted| judge::names_the_cause(&threads::BUSY_FIFO, wanted);
        stop_and_continue: |wanted| judge::names_the_cause(&stops::STOPPED, wanted);
        slow_partners_by_pipe: partners::pipes;
        real_time_limit: |wanted| judge::names_the_cause(&limits::REAL_TIME, wanted);
        supplied_pages: |wanted| judge::names_the_cause(&faults::SUPPLIED, wanted);
    }
    at_length: {
        timers_at_once: |wanted| judge::names_the_cause(&timers::AT_ONCE, wanted);
        fair_threads: |wanted| judge::names_the_cause(&threads::FAIR, wanted);
        fork_storm: |wanted| judge::names_the_cause(&threads::FORKS, wanted);
        used_up_quota: |wanted| judge::names_the_cause(&limits::QUOTA, wanted);
        network_flood: |wanted| judge::names_the_cause(&softirqs::NET_RX, wanted);
        slow_partners_by_futex: partners::futexes;
        priority_inversion: inversion::holds;
        dropped_pages: |wanted| judge::names_the_cause(&faults::DROPPED, wanted);
    }
}

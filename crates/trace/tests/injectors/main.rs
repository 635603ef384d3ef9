//! Causes are injected on the real kernel, and must be named.
//!
//! Each injector delays a thread in a known way. The right cause and culprit must be the largest part of at least 95 % of
//! the wake-ups that it hits. Where the injected time is known, the part must agree within 10 % or 2 us. Without the
//! injector, the same cause and culprit may take 2 us of at most 1 % of the wake-ups. The short form of the table runs
//! with all tests; the long form has at least 200 late wake-ups of each injector.

mod groups;
mod judge;
mod place;
mod play;
mod stops;
mod threads;
mod timers;

/// A test of each injector in both forms.
macro_rules! table {
    ($($name:ident: $injector:expr;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn in_short() {
                judge::names_the_cause(&$injector, 30);
            }

            #[test]
            #[ignore = "200 late wake-ups"]
            fn at_length() {
                judge::names_the_cause(&$injector, 200);
            }
        })*
    };
}

table! {
    timer_slack: timers::SLACK;
    timers_at_once: timers::AT_ONCE;
    busy_fifo_thread: threads::BUSY_FIFO;
    fair_threads: threads::FAIR;
    fork_storm: threads::FORKS;
    stop_and_continue: stops::STOPPED;
}

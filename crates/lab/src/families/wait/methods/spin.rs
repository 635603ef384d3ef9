//! Busy waiting: the method keeps the CPU until the deadline.

use std::hint::spin_loop;

use punctual::counter::Counter;
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::sched_yield;

use super::waiters::Opened;
use crate::frame::Unavailable;
use crate::frame::progress::go_on;
use crate::ways::wait::{Kind, Method, Waiter};

/// Iterations between two checks of the stop request: well below a millisecond even if an iteration makes a system
/// call.
const TURNS: u32 = 256;

const SPIN: Method = Method { absolute: true, ..Method::unnamed(Kind::Spin) };

pub(super) static METHODS: &[Method] = &[
    Method {
        name: "spin_clock",
        about: "reads the clock until it is time",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < deadline);",
        code: "do clock_gettime(CLOCK_MONOTONIC, &now); while (before(&now, &deadline));",
        open: || on_clock(|| Ok(())),
        ..SPIN
    },
    Method {
        name: "spin_counter",
        about: "reads the CPU's counter until it is time, then verifies on the clock",
        call: "while (rdtsc() < deadline);",
        code: if cfg!(target_arch = "aarch64") {
            "while (__arm_rsr64(\"cntvct_el0\") < deadline_in_ticks) ;"
        } else {
            "while (__rdtsc() < deadline_in_ticks) ;"
        },
        needs: "a steady CPU counter",
        open: open_counter,
        ..SPIN
    },
    Method {
        name: "spin_pause",
        about: "reads the clock with the CPU's pause instruction in between: gentler to the other hyper-thread",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < deadline) pause();",
        code: if cfg!(target_arch = "aarch64") {
            "do { __yield(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));"
        } else {
            "do { _mm_pause(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));"
        },
        open: || {
            on_clock(|| {
                spin_loop();
                Ok(())
            })
        },
        ..SPIN
    },
    Method {
        name: "spin_yield",
        about: "gives other threads the CPU between two looks at the clock",
        call: "while (clock_gettime(CLOCK_MONOTONIC) < deadline) sched_yield();",
        code: "do { sched_yield(); clock_gettime(CLOCK_MONOTONIC, &now); } while (before(&now, &deadline));",
        system_calls: &["sched_yield"],
        open: || on_clock(sched_yield),
        ..SPIN
    },
];

/// Spins on the clock, with an action in each iteration.
struct OnClock<F> {
    turn: F,
}

fn on_clock(turn: impl FnMut() -> linux::Result<()> + 'static) -> Opened {
    Ok(Box::new(OnClock { turn }))
}

impl<F: FnMut() -> linux::Result<()>> Waiter for OnClock<F> {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            for _ in 0..TURNS {
                if now_ns(Clock::Monotonic) >= deadline {
                    return Ok(());
                }
                (self.turn)()?;
            }
            go_on("spin")?;
        }
    }
}

/// Spins on the CPU's counter.
struct OnCounter {
    counter: Counter,
}

fn open_counter() -> Opened {
    match Counter::calibrate() {
        Ok(counter) => Ok(Box::new(OnCounter { counter })),
        Err(why) => Err(Unavailable { why: why.to_string(), remedy: None }),
    }
}

impl Waiter for OnCounter {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            // The clock decides: calibration is never exact, and the counter may run slow after a migration.
            let start = self.counter.ticks();
            let remaining = deadline - now_ns(Clock::Monotonic);
            if remaining <= 0 {
                return Ok(());
            }
            let span = self.counter.ticks_of(remaining);
            let mut turns = 0_u32;
            while self.counter.ticks().wrapping_sub(start) < span {
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(4096) {
                    go_on("spin")?;
                }
            }
        }
    }
}

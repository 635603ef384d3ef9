//! The ways to wait that run in the program itself: the library's own sleeper, busy waiting, and the instructions that let
//! the core rest in user mode without a system call.

use std::hint::spin_loop;

use punctual::counter::Counter;
use punctual::{Moment, Sleeper, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::sched_yield;
use punctual_linux::user_wait::{Instruction, UserWait, Watched};

use crate::frame::Unavailable;
use crate::frame::progress::go_on;
use crate::ways::wait::{Kind, Method, Opened, Waiter};

/// Waits that train a sleeper before the first recorded one: a block of the learner, and some more.
const LEARNING: u32 = 40;
/// A longer wait is not rehearsed: forty of them would take too long.
const LONGEST_LEARNED_NS: i64 = 5_000_000;

const LIBRARY: Method = Method {
    system_calls: &["clock_nanosleep", "clock_nanosleep_time64"],
    // The first wait sets the timer slack. The sleeper learns a sleep's cost from the thread's CPU clock, a system
    // call.
    also: &["prctl", "clock_gettime"],
    absolute: true,
    ..Method::unnamed(Kind::Library)
};

/// Iterations between two checks of the stop request: well below a millisecond even if an iteration makes a system
/// call.
const TURNS: u32 = 256;

const SPIN: Method = Method { absolute: true, ..Method::unnamed(Kind::Spin) };

const USER_WAIT: Method = Method { absolute: true, ..Method::unnamed(Kind::UserWait) };

pub(super) static LIBRARY_METHODS: &[Method] = &[
    Method {
        name: "native",
        about: "the library's plain sleep: an absolute deadline and a timer slack of 1 ns",
        call: "Sleeper::options().strategy(Strategy::Native)",
        code: "Sleeper::options().strategy(Strategy::Native).build().sleep_until(deadline);",
        open: || open_sleeper(Strategy::Native),
        ..LIBRARY
    },
    Method {
        name: "compensated",
        about: "the same, woken sooner by the typical wake-up latency, which is followed as it drifts",
        call: "Sleeper::options().strategy(Strategy::Compensated)",
        code: "Sleeper::options().strategy(Strategy::Compensated).build().sleep_until(deadline);",
        open: || open_sleeper(Strategy::Compensated),
        ..LIBRARY
    },
    Method {
        name: "hybrid",
        about: "sleeps until a learned margin before the deadline, then spins: on time at little CPU time",
        call: "Sleeper::new()",
        code: "let mut sleeper = punctual::Sleeper::new(); sleeper.sleep_until(deadline);",
        open: || open_sleeper(Strategy::Hybrid),
        ..LIBRARY
    },
];

pub(super) static SPINNING_METHODS: &[Method] = &[
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
    Method {
        name: "tpause",
        about: "rests the core until a time of its counter",
        call: "_tpause(0, deadline)",
        code: "_tpause(0, deadline_in_ticks);",
        needs: "CPU with WAITPKG",
        open: || open_instruction(Instruction::Tpause),
        ..USER_WAIT
    },
    Method {
        name: "umwait",
        about: "rests the core until a time of its counter or a write to watched memory",
        call: "_umonitor(line), _umwait(0, deadline)",
        code: "_umonitor(line); _umwait(0, deadline_in_ticks);",
        needs: "CPU with WAITPKG",
        open: || open_instruction(Instruction::Umwait),
        ..USER_WAIT
    },
    Method {
        name: "mwaitx",
        about: "rests the core for a time or until a write to watched memory",
        call: "_mm_monitorx(line, 0, 0), _mm_mwaitx(2, 0xf0, ticks)",
        code: "_mm_monitorx(line, 0, 0); _mm_mwaitx(2, 0xf0, ticks);",
        needs: "CPU with MONITORX",
        open: || open_instruction(Instruction::Mwaitx),
        ..USER_WAIT
    },
    Method {
        name: "wfet",
        about: "rests the core until a time of its counter or an event",
        call: "wfet(deadline)",
        code: "__asm__ volatile(\"wfet %0\" :: \"r\"(deadline_in_ticks));",
        needs: "64-bit Arm CPU with FEAT_WFxT",
        open: || open_instruction(Instruction::Wfet),
        ..USER_WAIT
    },
];

/// A sleeper for each condition set: training under one does not apply to another.
struct Library {
    strategy: Strategy,
    sleepers: Vec<Option<Sleeper>>,
    now: usize,
}

fn open_sleeper(strategy: Strategy) -> Opened {
    let mut library = Library { strategy, sleepers: Vec::new(), now: 0 };
    library.ensure(0);
    Ok(Box::new(library))
}

impl Library {
    /// Whether a sleeper had to be opened.
    fn ensure(&mut self, conditions: usize) -> bool {
        if self.sleepers.len() <= conditions {
            self.sleepers.resize_with(conditions + 1, || None);
        }
        let is_new = self.sleepers[conditions].is_none();
        if is_new {
            self.sleepers[conditions] = Some(SleeperOptions::new().strategy(self.strategy).build());
        }
        self.now = conditions;
        is_new
    }
}

impl Waiter for Library {
    fn begin(&mut self, conditions: usize, asked_ns: i64) -> linux::Result<()> {
        self.ensure(conditions);
        let sleeper = self.sleepers[conditions].as_ref();
        let knows = sleeper.is_some_and(|s| s.learner().typical_latency_ns(asked_ns).is_some());
        if self.strategy != Strategy::Native && !knows && asked_ns <= LONGEST_LEARNED_NS {
            for _ in 0..LEARNING {
                let from_ns = linux::clock::now_ns(Clock::Monotonic);
                self.wait(from_ns, asked_ns)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = Moment::from_nanos(from_ns.saturating_add(asked_ns));
        let Some(sleeper) = self.sleepers[self.now].as_mut() else { return Ok(()) };
        match sleeper.sleep_until_unless(deadline, linux::stop::requested) {
            Some(_) => Ok(()),
            None => Err(linux::Error::from_errno("clock_nanosleep", linux::EINTR)),
        }
    }

    fn end(&mut self) {
        for sleeper in self.sleepers.iter_mut().flatten() {
            sleeper.restore_timer_slack();
        }
    }
}

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

struct InUserMode {
    instruction: UserWait,
    counter: Counter,
    watched: Watched,
}

fn open_instruction(instruction: Instruction) -> Opened {
    let instruction = UserWait::open(instruction).map_err(|why| Unavailable { why: why.to_string(), remedy: None })?;
    let counter = Counter::calibrate().map_err(|why| Unavailable { why: why.to_string(), remedy: None })?;
    Ok(Box::new(InUserMode { instruction, counter, watched: Watched::default() }))
}

impl Waiter for InUserMode {
    #[inline]
    fn wait(&mut self, from_ns: i64, asked_ns: i64) -> linux::Result<()> {
        let deadline = from_ns.saturating_add(asked_ns);
        loop {
            let ticks = self.counter.ticks();
            let remaining = deadline - now_ns(Clock::Monotonic);
            if remaining <= 0 {
                return Ok(());
            }
            // May end earlier: at an interrupt, or at the kernel's limit for one instruction.
            self.instruction.until(ticks.saturating_add(self.counter.ticks_of(remaining)), &self.watched);
            go_on("user wait")?;
        }
    }
}

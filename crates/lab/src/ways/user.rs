//! Waits of a program itself: on the library's own sleeper, by spinning on a clock or on the CPU's counter, and by the
//! instructions that let the core rest in user mode without a system call.

use crate::frame::Unavailable;
use crate::frame::progress::go_on;
use crate::ways::wait::{Opened, Waiter};
use punctual::counter::Counter;
use punctual::{Moment, Sleeper, SleeperOptions, Strategy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::counter::{Instruction, UserWait, Watched};

/// Waits that train a sleeper before the first recorded one: a block of the learner, and some more.
const LEARNING: u32 = 40;
/// A longer wait is not rehearsed: forty of them would take too long.
const LONGEST_LEARNED_NS: i64 = 5_000_000;

/// Iterations between two checks of the stop request: well below a millisecond even if an iteration makes a system
/// call.
const TURNS: u32 = 256;

/// A sleeper for each condition set: training under one does not apply to another.
struct Library {
    strategy: Strategy,
    sleepers: Vec<Option<Sleeper>>,
    now: usize,
}

pub(crate) fn open_sleeper(strategy: Strategy) -> Opened {
    let mut library = Library { strategy, sleepers: Vec::new(), now: 0 };
    library.ensure(0);
    Ok(Box::new(library))
}

impl Library {
    /// Opens the sleeper of this condition set, if it is not open, and goes on with it.
    fn ensure(&mut self, conditions: usize) {
        if self.sleepers.len() <= conditions {
            self.sleepers.resize_with(conditions + 1, || None);
        }
        self.sleepers[conditions].get_or_insert_with(|| SleeperOptions::new().strategy(self.strategy).build());
        self.now = conditions;
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

pub(crate) fn on_clock(turn: impl FnMut() -> linux::Result<()> + 'static) -> Opened {
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

pub(crate) fn open_counter() -> Opened {
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

pub(crate) fn open_instruction(instruction: Instruction) -> Opened {
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

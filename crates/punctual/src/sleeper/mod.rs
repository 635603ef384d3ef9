//! Sleeping until a deadline, as punctually as is asked and no more expensively.
//!
//! A [`Sleeper`] belongs to the thread that opened it. In goes a deadline or a duration, out comes a [`Wake`]: when it woke, how
//! late that was, how long it slept and spun. It is never early, on any clock, whatever signals arrive. Three strategies:
//!
//! | strategy | lateness | CPU time |
//! |---|---|---|
//! | [`Strategy::Native`] | the kernel's wake-up latency, tens of µs | a system call per wait |
//! | [`Strategy::Compensated`] | the *variation* of that latency, some µs | hardly more |
//! | [`Strategy::Hybrid`] | below 0.1 µs nearly always | the upper tail of that latency, per wait |
//!
//! *Hybrid* asks the kernel to wake the thread a *margin* before the deadline and spins the rest; the margin is learned as it runs
//! ([`crate::margin`]). Say what matters: a lateness to keep in a share of the waits, at the least CPU time, or a
//! budget of CPU time, at the least lateness.
//!
//! Where an idle CPU takes long to wake up (deep C-states; a guest whose hypervisor has to schedule it again), the latencies scatter and the
//! margin is long. `Conditions { dma_latency: Some(Duration::ZERO), .. }` ([`crate::conditions`]) keeps the CPUs awake meanwhile; the figures of one machine
//! with and without it are in docs/results/sleep.md.
//!
//! From its first wait on, the timer slack of its thread is 1 ns instead of the usual 50 µs; the last sleeper of the thread to be dropped (or to
//! [`rest`](Sleeper::rest)) puts it back.
//!
//! ```
//! use std::time::Duration;
//! use punctual::Sleeper;
//!
//! let mut sleeper = Sleeper::new();
//! let wake = sleeper.sleep(Duration::from_micros(300));
//! assert!(wake.woke_at >= wake.deadline);
//! println!("{:?} late, slept {:?}, spun {:?}", wake.lateness(), wake.slept, wake.spun);
//! ```

mod options;
mod slack;
mod wake;

use std::time::Duration;

pub use options::{SleeperOptions, Strategy};
use slack::FineSlack;
pub use wake::Wake;

use crate::margin::{Aim, Decision, MarginLearner};
use crate::time::{Clock, Moment, SystemClock};

/// Sleeps between two measurements of what the sleeping call costs, and two settings of the timer slack.
const HOUSEKEEPING: u8 = 64;

/// Waits until deadlines. See the [module](self).
#[derive(Debug)]
pub struct Sleeper<C: Clock = SystemClock> {
    clock: C,
    strategy: Strategy,
    learner: MarginLearner,
    until_housekeeping: u8,
    /// Keeps the thread's slack fine, and the sleeper on its thread.
    slack: FineSlack,
}

impl Sleeper {
    /// A hybrid sleeper on `CLOCK_MONOTONIC` that spends up to 2 ms of CPU time to avoid a wait that is late by more than 1 µs
    /// ([`Aim::Balanced`]).
    #[must_use]
    pub fn new() -> Self {
        SleeperOptions::new().open()
    }

    /// Choices: strategy, aim, clock, longest margin.
    #[must_use]
    pub fn options() -> SleeperOptions {
        SleeperOptions::new()
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> Sleeper<C> {
    fn from_options(clock: C, strategy: Strategy, aim: Aim, cap_ns: u32) -> Self {
        let aim = if strategy == Strategy::Compensated { Aim::Typical } else { aim };
        let slack = FineSlack::new(clock.uses_kernel_timers());
        Self { clock, strategy, learner: MarginLearner::new(aim, cap_ns), until_housekeeping: 1, slack }
    }

    /// The time now on the sleeper's clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Its strategy.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// What it has learned.
    #[must_use]
    pub fn learner(&self) -> &MarginLearner {
        &self.learner
    }

    /// Why the timer slack could not be made fine, if a wait tried that in vain: sleeps then end up to 50 µs later (which is learned).
    #[must_use]
    pub fn slack_problem(&self) -> Option<&punctual_linux::Error> {
        self.slack.problem()
    }

    /// Puts the thread's timer slack back until the next wait, for a thread that does other things in between.
    pub fn rest(&mut self) {
        self.slack.release();
    }

    /// The shortest wait that the strategy can keep, from what was learned: below it, a compensated sleep is late by the difference
    /// ([`Wake::too_short`]), and only [`Strategy::Hybrid`] (which then spins) is on time. Zero for the other strategies.
    #[must_use]
    pub fn shortest_wait(&self) -> Duration {
        match self.strategy {
            Strategy::Native | Strategy::Hybrid => Duration::ZERO,
            Strategy::Compensated => Duration::from_nanos(self.learner.margin_ns(0).into()),
        }
    }

    /// Waits for `duration` from now. One that is too long for the clock (292 years) waits for ever, as far as anybody can tell.
    pub fn sleep(&mut self, duration: Duration) -> Wake {
        let now = self.now();
        self.wait(now, now + duration, || false).0
    }

    /// Waits until `deadline`. One in the past returns at once, and the wake's lateness says how late that was.
    pub fn sleep_until(&mut self, deadline: Moment) -> Wake {
        self.wait(self.now(), deadline, || false).0
    }

    /// Waits until `deadline`, unless `give_up` says so after a signal interrupted the sleep: then `None`. For programs that
    /// end on a signal: its handler sets a flag, `give_up` looks at it. (Spins are not interrupted; they are short.)
    pub fn sleep_until_unless(&mut self, deadline: Moment, give_up: impl Fn() -> bool) -> Option<Wake> {
        let (wake, complete) = self.wait(self.now(), deadline, give_up);
        complete.then_some(wake)
    }

    /// How the wait ended, and whether it did.
    #[inline]
    fn wait(&mut self, from: Moment, deadline: Moment, give_up: impl Fn() -> bool) -> (Wake, bool) {
        let (mut woke_at, mut slept_ns, mut spun_ns) = (from, 0_i64, 0_i64);
        let (mut too_short, mut complete) = (false, true);
        // A round is a sleep and a spin; more than one only after signals, and when the clock was set back.
        while woke_at < deadline {
            let now = woke_at;
            let wait_ns = deadline.nanos_after(now);
            let decision = match self.strategy {
                Strategy::Native => Decision::Sleep { margin_ns: 0, too_short: false },
                Strategy::Compensated | Strategy::Hybrid => self.learner.decide(wait_ns),
            };
            if let Decision::Sleep { margin_ns, too_short: this_one } = decision {
                too_short |= this_one;
                let target = deadline.plus_nanos(-i64::from(margin_ns));
                woke_at = self.sleep_once(wait_ns, target);
                slept_ns = woke_at.nanos_since(now).max(0).saturating_add(slept_ns);
                if woke_at < target {
                    if give_up() {
                        complete = false;
                        break;
                    }
                    continue;
                }
            }
            let woke = woke_at;
            if woke < deadline && self.strategy != Strategy::Native {
                woke_at = self.clock.spin_until(deadline);
                spun_ns = woke_at.nanos_since(woke).max(0).saturating_add(spun_ns);
            }
        }
        let duration = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
        let wake = Wake { deadline, woke_at, slept: duration(slept_ns), spun: duration(spun_ns), too_short };
        (wake, complete)
    }

    /// Sleeps until `target` and learns from how late that ended, unless something ended it sooner. Returns the time after.
    fn sleep_once(&mut self, wait_ns: i64, target: Moment) -> Moment {
        self.slack.hold();
        self.until_housekeeping -= 1;
        let examined = self.until_housekeeping == 0;
        let cpu_before = if examined { self.keep_house() } else { None };
        self.clock.sleep_until(target);
        let woke = self.clock.now();
        if let (Some(before), Some(after)) = (cpu_before, cpu_before.and_then(|_| self.clock.cpu_time_ns())) {
            self.learner.call_costs(after - before);
        }
        if woke >= target && self.strategy != Strategy::Native {
            self.learner.saw(wait_ns, woke.nanos_after(target));
        }
        woke
    }

    /// Once in [`HOUSEKEEPING`] sleeps: the slack is set again, since a change of policy resets it; and what the call costs is measured, while
    /// there is a margin to do it in.
    #[cold]
    fn keep_house(&mut self) -> Option<i64> {
        self.until_housekeeping = HOUSEKEEPING;
        self.slack.renew();
        (self.strategy == Strategy::Hybrid).then(|| self.clock.cpu_time_ns()).flatten()
    }
}

//! Sleeps until a deadline, with a chosen balance of lateness and CPU time.
//!
//! A [`Sleeper`] belongs to the thread that built it. It waits until a deadline and returns a [`Wake`]: wake-up time, lateness, time slept
//! and time spun. A wait never ends early, on any clock, even under signals. Three strategies:
//!
//! | strategy | lateness | CPU time |
//! |---|---|---|
//! | [`Strategy::Native`] | the kernel's wake-up latency: a median of 40 to 110 µs | a system call per wait |
//! | [`Strategy::Compensated`] | the *variation* of that latency: a median of 0.2 to 6 µs | little more |
//! | [`Strategy::Hybrid`] | a median of 0.1 to 1 µs; 2 to 43 % of the waits are later than 1 µs | a margin to spin, per wait |
//!
//! The figures are from one virtual machine, for waits of 20 µs to 10 ms; longer waits were later (docs/results/sleep.md). `punctual wait`
//! measures yours.
//!
//! *Hybrid* asks the kernel to wake the thread a *margin* before the deadline and spins the rest. It learns the margin as it runs
//! ([`crate::margin`]). By default it balances CPU time against lateness: a rare long wake-up stays late ([`Aim::Balanced`]).
//! [`SleeperOptions::lateness`] keeps a lateness in a share of the waits instead, [`SleeperOptions::cpu_budget`] a budget of CPU time.
//!
//! On a busy CPU, a thread that takes more than its share is late by whole time slices of others. A balanced sleeper that notices this spins
//! less, until it keeps the CPU again. Waits that a sleeping call would fill are still spun: at 20 µs, a sleep leaves nothing to others.
//!
//! An idle CPU may wake slowly and unevenly: from deep C-states, or as a guest that its hypervisor must schedule. The margin is then
//! long. `Conditions::new().dma_latency(Duration::ZERO)` ([`crate::conditions`]) keeps the CPUs out of deep C-states;
//! docs/results/sleep.md compares one machine with and without it.
//!
//! The first wait sets the timer slack of the thread to 1 ns (default 50 µs; `prctl(2)`). The thread's last sleeper
//! restores it on drop, or on [`restore_timer_slack`](Sleeper::restore_timer_slack).
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

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use punctual_linux::Error;
use punctual_linux::sched::{set_timer_slack_ns, timer_slack_ns};

use crate::margin::{Aim, BadAim, Decision, MarginLearner};
use crate::time::{Clock, Moment, SystemClock};

/// Sleeps between two measurements of the sleeping call's cost, and between two settings of the timer slack.
const HOUSEKEEPING: u8 = 64;

/// A wait that ends later than this is asked for its reason: another thread ran, or the hypervisor stopped the CPU.
const FAR_TOO_LATE_NS: i64 = 100_000;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The deadline.
    pub deadline: Moment,
    /// When the wait ended, on the same clock; never before the deadline.
    pub woke_at: Moment,
    /// Time without the CPU, wake-up latency included.
    pub slept: Duration,
    /// Time spent spinning.
    pub spun: Duration,
    /// The wait was shorter than a wake-up takes, but the strategy slept. [`Strategy::Hybrid`] with a lateness to
    /// keep spins instead.
    pub too_short: bool,
}

impl Wake {
    /// How late the wait ended; zero at the earliest.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        self.woke_at.since(self.deadline)
    }
}

/// Waits until deadlines. See the [module](self).
///
/// A sleeper holds the timer slack of its thread, so it is not `Send`. If you move it to another thread, rustc reports
/// "`(dyn ...BuildItOnTheThreadThatWaits + 'static)` cannot be sent between threads safely":
///
/// ```compile_fail,E0277
/// use std::time::Duration;
///
/// let mut sleeper = punctual::Sleeper::new();
/// std::thread::spawn(move || sleeper.sleep(Duration::from_millis(1)));
/// ```
///
/// Send the builder instead, and build on the thread that waits. The same holds for [`Ticker`](crate::Ticker) and
/// [`Pacer`](crate::Pacer).
///
/// ```
/// use std::time::Duration;
///
/// let options = punctual::Sleeper::options();
/// let waiting = std::thread::spawn(move || options.build().sleep(Duration::from_millis(1)));
/// let wake = waiting.join().unwrap();
/// assert!(wake.woke_at >= wake.deadline);
/// ```
#[derive(Debug)]
pub struct Sleeper<C: Clock = SystemClock> {
    clock: C,
    strategy: Strategy,
    learner: MarginLearner,
    until_housekeeping: u8,
    /// The thread's run delay when last looked at.
    run_delay_ns: Option<u64>,
    /// The thread has not lost the CPU since the last housekeeping.
    kept: bool,
    /// Holds the thread's slack at 1 ns, and makes the sleeper `!Send`.
    slack: FineSlack,
}

impl Sleeper {
    /// A hybrid sleeper on `CLOCK_MONOTONIC`. It promises no lateness. It spends up to 2 ms of CPU time to avoid one wait that is over 1 µs
    /// late ([`Aim::Balanced`]).
    #[must_use]
    pub fn new() -> Self {
        SleeperOptions::new().build()
    }

    /// The builder: strategy, aim, clock, longest margin.
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
    /// The current time of the sleeper's clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The strategy.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The learned margins.
    #[must_use]
    pub fn learner(&self) -> &MarginLearner {
        &self.learner
    }

    /// The error if the kernel refused a timer slack of 1 ns. Sleeps then end up to 50 µs later; the margin learns this.
    #[must_use]
    pub fn slack_problem(&self) -> Option<&punctual_linux::Error> {
        self.slack.problem.as_deref()
    }

    /// Restores the thread's timer slack until the next wait, for a thread with other work in between.
    pub fn restore_timer_slack(&mut self) {
        self.slack.release();
    }

    /// The shortest wait that the strategy can keep, from the learned latencies. A shorter compensated sleep is late by the difference
    /// ([`Wake::too_short`]). Zero for the other strategies; [`Strategy::Hybrid`] spins instead.
    #[must_use]
    pub fn shortest_wait(&self) -> Duration {
        match self.strategy {
            Strategy::Native | Strategy::Hybrid => Duration::ZERO,
            Strategy::Compensated => Duration::from_nanos(self.learner.margin_ns(0).into()),
        }
    }

    /// Waits for `duration` from now. A duration beyond the clock's range (292 years) waits indefinitely.
    pub fn sleep(&mut self, duration: Duration) -> Wake {
        let now = self.now();
        self.wait(now, now + duration, || false).0
    }

    /// Waits until `deadline`, a [`Moment`] of the sleeper's clock or, on `CLOCK_MONOTONIC`, an [`Instant`](std::time::Instant). A
    /// deadline in the past returns at once, with its lateness.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// let deadline = Instant::now() + Duration::from_millis(2);
    /// punctual::Sleeper::new().sleep_until(deadline);
    /// assert!(Instant::now() >= deadline);
    /// ```
    pub fn sleep_until(&mut self, deadline: impl Into<Moment>) -> Wake {
        self.wait(self.now(), deadline.into(), || false).0
    }

    /// Waits until `deadline`. Returns `None` if a signal interrupts the sleep and `give_up` then returns true. For programs that end on a
    /// signal: the handler sets a flag, `give_up` reads it. Spins are short and not interrupted.
    pub fn sleep_until_unless(&mut self, deadline: impl Into<Moment>, give_up: impl Fn() -> bool) -> Option<Wake> {
        let (wake, complete) = self.wait(self.now(), deadline.into(), give_up);
        complete.then_some(wake)
    }

    /// Waits. Returns how the wait ended, and whether it reached its deadline.
    #[inline]
    fn wait(&mut self, from: Moment, deadline: Moment, give_up: impl Fn() -> bool) -> (Wake, bool) {
        let (mut woke_at, mut slept_ns, mut spun_ns) = (from, 0_i64, 0_i64);
        let (mut too_short, mut complete) = (false, true);
        // One round is a sleep and a spin. More follow only after a signal, or if the clock was set back.
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
        let late_ns = woke_at.nanos_after(deadline);
        if late_ns > FAR_TOO_LATE_NS && woke_at != from && self.strategy == Strategy::Hybrid {
            self.examine(late_ns);
        }
        let duration = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
        let wake = Wake { deadline, woke_at, slept: duration(slept_ns), spun: duration(spun_ns), too_short };
        (wake, complete)
    }

    /// Sleeps until `target`, learns the latency unless a signal ended the sleep, and returns the time afterwards.
    fn sleep_once(&mut self, wait_ns: i64, target: Moment) -> Moment {
        self.slack.hold();
        self.until_housekeeping -= 1;
        let examined = self.until_housekeeping == 0;
        let cpu_before = if examined { self.refresh_costs() } else { None };
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

    /// Once in [`HOUSEKEEPING`] sleeps: sets the slack again, since a change of policy resets it. Also starts to measure the cost of the
    /// call, for which a hybrid sleep has time in its margin.
    #[cold]
    fn refresh_costs(&mut self) -> Option<i64> {
        self.until_housekeeping = HOUSEKEEPING;
        self.slack.renew();
        if self.strategy != Strategy::Hybrid {
            return None;
        }
        self.run_delay_ns = self.clock.run_delay_ns();
        if std::mem::replace(&mut self.kept, true) {
            self.learner.kept_the_cpu();
        }
        self.clock.cpu_time_ns()
    }

    /// Looks for the reason of a wait that ended far too late. If other threads ran for most of that time, this one has to leave more of
    /// the CPU to them. If the hypervisor stopped the CPU, that would not help.
    #[cold]
    fn examine(&mut self, late_ns: i64) {
        let before = std::mem::replace(&mut self.run_delay_ns, self.clock.run_delay_ns());
        let waited_ns = self.run_delay_ns.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        if waited_ns > late_ns.unsigned_abs() / 2 {
            self.learner.lost_the_cpu();
            self.kept = false;
        }
    }
}

// The builder of a [`Sleeper`].

/// How a sleeper waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// One absolute `clock_nanosleep(2)`: late by the kernel's wake-up latency, least CPU time.
    Native,
    /// The same, asked to end earlier by the typical wake-up latency, which it tracks. If it wakes too soon, it spins the rest, a few µs
    /// at most, so that it is never early.
    Compensated,
    /// Sleeps until a learned margin before the deadline, then spins on the CPU's counter.
    #[default]
    Hybrid,
}

/// The builder of a [`Sleeper`]; it can be sent to the thread that waits.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until `build`"]
pub struct SleeperOptions<C: Clock = SystemClock> {
    clock: C,
    strategy: Strategy,
    aim: Aim,
    longest_margin: Duration,
}

/// The default longest margin. An ordinary machine wakes within it under load. A thread that lost its CPU to another for milliseconds
/// cannot make up for that by spinning.
const LONGEST_MARGIN: Duration = Duration::from_micros(250);

impl SleeperOptions {
    /// Hybrid on `CLOCK_MONOTONIC`. It spends up to 2 ms of CPU time to avoid one wait that is over 1 µs late ([`Aim::Balanced`]).
    pub fn new() -> Self {
        Self {
            clock: SystemClock::monotonic(),
            strategy: Strategy::default(),
            aim: Aim::default(),
            longest_margin: LONGEST_MARGIN,
        }
    }
}

impl Default for SleeperOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> SleeperOptions<C> {
    /// Sets the strategy (default: hybrid).
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the clock: another [`SystemClock`], or a [`ManualClock`](crate::ManualClock) for tests (default: `CLOCK_MONOTONIC`).
    pub fn clock<D: Clock>(self, clock: D) -> SleeperOptions<D> {
        SleeperOptions { clock, strategy: self.strategy, aim: self.aim, longest_margin: self.longest_margin }
    }

    /// Hybrid only: at most `within` late in a `share` of the waits (0.5 to 0.9999), at the least CPU time.
    pub fn lateness(mut self, within: Duration, share: f32) -> Result<Self, BadAim> {
        self.aim = Aim::lateness(within, share)?;
        Ok(self)
    }

    /// Hybrid only: the least lateness for at most a `share` of the time waited as CPU time. The share is above 0, and at most 1.
    ///
    /// The sleeping call itself costs some µs. A budget that pays for no more gives a native sleep.
    pub fn cpu_budget(mut self, share: f32) -> Result<Self, BadAim> {
        self.aim = Aim::cpu_budget(share)?;
        Ok(self)
    }

    /// Sets the longest margin, hence the longest spin after a sleep: 1 µs to 512 µs, clamped (default: 250 µs).
    pub fn longest_margin(mut self, longest: Duration) -> Self {
        self.longest_margin = longest;
        self
    }

    /// Builds a sleeper for the calling thread.
    #[must_use]
    pub fn build(self) -> Sleeper<C> {
        let Self { clock, strategy, aim, longest_margin } = self;
        let aim = if strategy == Strategy::Compensated { Aim::Typical } else { aim };
        let cap_ns = u32::try_from(longest_margin.as_nanos()).unwrap_or(MarginLearner::LARGEST_CAP_NS);
        let (slack, learner) = (FineSlack::new(clock.uses_kernel_timers()), MarginLearner::new(aim, cap_ns));
        Sleeper { clock, strategy, learner, until_housekeeping: 1, run_delay_ns: None, kept: true, slack }
    }
}

// A timer slack of 1 ns for a thread, as long as one of its sleepers holds it.

/// The smallest slack: 0 selects the default (prctl(2)).
const FINE_NS: u64 = 1;

thread_local! {
    /// The number of guards on this thread, and the slack before the first.
    static HELD: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Is not `Send`, and says so in the message of the compiler.
trait BuildItOnTheThreadThatWaits: Unpin + UnwindSafe + RefUnwindSafe {}

/// Holds the slack of the calling thread at 1 ns. The last guard of a thread restores the slack that the first one found.
#[derive(Debug)]
struct FineSlack {
    state: State,
    problem: Option<Box<Error>>,
    bound_to_thread: PhantomData<dyn BuildItOnTheThreadThatWaits>,
}

/// Whether the slack is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Slack has no effect on this clock, or the kernel refused.
    Never,
    /// Not held now.
    Released,
    /// Held now.
    Held,
}

impl FineSlack {
    /// A guard that holds nothing yet. `matters`: waits use kernel timers.
    const fn new(matters: bool) -> Self {
        let state = if matters { State::Released } else { State::Never };
        Self { state, problem: None, bound_to_thread: PhantomData }
    }

    /// Sets the slack, unless held already. A refusal is kept as a problem, not an error: waits still work.
    #[inline]
    fn hold(&mut self) {
        if self.state == State::Released {
            self.take_hold();
        }
    }

    #[cold]
    fn take_hold(&mut self) {
        let (guards, before) = HELD.get();
        let found = if guards > 0 { Ok(before) } else { timer_slack_ns() };
        match found.and_then(|found| set_timer_slack_ns(FINE_NS).map(|()| found)) {
            Ok(found) => {
                HELD.set((guards + 1, found));
                self.state = State::Held;
            }
            Err(error) => {
                self.state = State::Never;
                self.problem = Some(Box::new(error));
            }
        }
    }

    /// Sets the slack again: the kernel resets it when the thread leaves a real-time policy.
    fn renew(&self) {
        if self.state == State::Held {
            // Worked before. If refused now, sleeps end later, and the margin learns that.
            let _ = set_timer_slack_ns(FINE_NS);
        }
    }

    /// Releases the slack.
    fn release(&mut self) {
        if self.state != State::Held {
            return;
        }
        self.state = State::Released;
        let (guards, before) = HELD.get();
        HELD.set((guards - 1, before));
        // 0 is the slack under a real-time policy; the kernel sets and resets it with the policy.
        if guards == 1 && before != 0 {
            let _ = set_timer_slack_ns(before);
        }
    }
}

impl Drop for FineSlack {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> FineSlack {
        let mut slack = FineSlack::new(true);
        slack.hold();
        slack
    }

    fn on_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn the_last_to_go_puts_it_back_in_any_order() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let (first, second) = (held(), held());
            assert_eq!(timer_slack_ns().unwrap(), FINE_NS);
            drop(first);
            assert_eq!(timer_slack_ns().unwrap(), FINE_NS);
            drop(second);
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
        });
    }

    #[test]
    fn who_rests_gives_it_back_and_takes_it_again() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let mut slack = held();
            slack.release();
            slack.release();
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
            slack.hold();
            assert_eq!(timer_slack_ns().unwrap(), FINE_NS);
        });
    }

    #[test]
    fn a_panic_puts_it_back_too() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let caught = std::panic::catch_unwind(|| {
                let _fine = held();
                panic!("while it is held");
            });
            assert!(caught.is_err());
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
        });
    }

    #[test]
    fn where_it_does_not_matter_it_is_left_alone() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let mut none = FineSlack::new(false);
            none.hold();
            none.renew();
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
        });
    }
}

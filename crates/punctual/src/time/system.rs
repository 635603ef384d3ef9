//! The kernel's clocks: sleeps with `clock_nanosleep(2)`, spins on the CPU's counter.

use std::sync::OnceLock;
use std::time::Duration;

use punctual_linux::clock::{Clock as Kernel, now_ns};
use punctual_linux::sleep::clock_nanosleep_until;
use punctual_linux::usage::thread_run_delay_ns;
use punctual_linux::user_wait::{Instruction, UserWait, Watched};

use super::{Clock, Moment};
use crate::counter::Counter;

/// A clock of the kernel.
///
/// It sleeps with `clock_nanosleep(2)` until an absolute time: delays by preemption and signals do not accumulate. It spins on the CPU's
/// counter if that is reliable (calibrated once per process, in 4 ms). If the CPU has a timed user wait (TPAUSE, MWAITX, WFET), it uses
/// that. A last reading of the clock itself ensures that a wait never ends early.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    kernel: Kernel,
    spin: &'static Spin,
}

/// How this process spins.
#[derive(Debug)]
struct Spin {
    counter: Option<Counter>,
    user_wait: Option<UserWait>,
    watched: Watched,
}

/// Longest sleep per call: one hour, since `time_t` has 32 bits on some machines.
const LONGEST_SLEEP_NS: i64 = 3_600_000_000_000;

/// The last part of a spin reads the clock itself. The errors of the counter (some ppm of the spin, and the time between two readings)
/// are well below it.
const LAST_STRETCH_NS: i64 = 150;

/// Largest lateness of a user wait: the deeper state of TPAUSE, C0.2, takes about half a microsecond to exit (Intel).
const USER_WAIT_EXIT_NS: i64 = 1_000;

/// Turns of the counter loop between two clock readings, some 10 µs. A wall clock set forward ends the spin within that.
const TURNS: u32 = 1024;

fn spin() -> &'static Spin {
    static SPIN: OnceLock<Spin> = OnceLock::new();
    SPIN.get_or_init(|| {
        let counter = Counter::calibrate().ok();
        let instructions = [Instruction::Tpause, Instruction::Mwaitx, Instruction::Wfet];
        let user_wait = counter.and_then(|_| instructions.into_iter().find_map(|i| UserWait::open(i).ok()));
        Spin { counter, user_wait, watched: Watched::default() }
    })
}

impl SystemClock {
    fn new(kernel: Kernel) -> Self {
        Self { kernel, spin: spin() }
    }

    /// `CLOCK_MONOTONIC`: never steps, stops in suspend. The default.
    #[must_use]
    pub fn monotonic() -> Self {
        Self::new(Kernel::Monotonic)
    }

    /// `CLOCK_REALTIME`: the wall clock, nanoseconds since 1970. A wait follows the clock if it is set.
    #[must_use]
    pub fn wall() -> Self {
        Self::new(Kernel::Realtime)
    }

    /// `CLOCK_BOOTTIME`: like the monotonic clock, but continues in suspend.
    #[must_use]
    pub fn boottime() -> Self {
        Self::new(Kernel::Boottime)
    }

    /// `CLOCK_TAI`: the wall clock without leap seconds.
    #[must_use]
    pub fn tai() -> Self {
        Self::new(Kernel::Tai)
    }

    /// The kernel's name of the clock.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kernel.name()
    }

    /// What a spin reads: the counter, with timed user waits if used, or the clock if no counter is reliable.
    #[must_use]
    pub fn spins_on(&self) -> String {
        match (self.spin.counter, self.spin.user_wait) {
            (Some(counter), Some(_)) => format!("{} with timed user waits", counter.name()),
            (Some(counter), None) => counter.name().to_owned(),
            (None, _) => self.name().to_owned(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::monotonic()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Moment {
        Moment::from_nanos(now_ns(self.kernel))
    }

    fn sleep_until(&self, target: Moment) {
        let now = self.now();
        let reach = target.min(now.plus_nanos(LONGEST_SLEEP_NS));
        if clock_nanosleep_until(self.kernel, reach.as_nanos()).is_err() {
            // The call is forbidden (seccomp) or missing; std has a fallback.
            std::thread::sleep(reach.since(now).min(Duration::from_secs(3600)));
        }
    }

    fn spin_until(&self, deadline: Moment) -> Moment {
        loop {
            let ticks = self.spin.counter.map(|c| c.ticks());
            let now = self.now();
            let remaining = deadline.nanos_since(now);
            if remaining <= 0 {
                return now;
            }
            match (self.spin.counter, ticks) {
                (Some(counter), Some(from)) if remaining > LAST_STRETCH_NS => {
                    self.spin_on(&counter, from, remaining - LAST_STRETCH_NS);
                }
                _ => return self.last_stretch(deadline),
            }
        }
    }

    fn cpu_time_ns(&self) -> Option<i64> {
        Some(now_ns(Kernel::ThreadCpu))
    }

    fn run_delay_ns(&self) -> Option<u64> {
        thread_run_delay_ns()
    }

    fn uses_kernel_timers(&self) -> bool {
        true
    }
}

impl SystemClock {
    /// Spins for `ns` from the counter reading `from`, at most [`TURNS`] turns.
    #[inline]
    fn spin_on(&self, counter: &Counter, from: u64, ns: i64) {
        let span = counter.ticks_of(ns);
        if let Some(user_wait) = self.spin.user_wait.filter(|_| ns > 2 * USER_WAIT_EXIT_NS) {
            let until = from.wrapping_add(counter.ticks_of(ns - USER_WAIT_EXIT_NS));
            user_wait.until(until, &self.spin.watched);
            return;
        }
        for _ in 0..TURNS {
            if counter.ticks().wrapping_sub(from) >= span {
                break;
            }
        }
    }

    /// Reads the clock until the deadline. The number of turns is limited, so that the caller notices a wall clock set back.
    #[inline]
    fn last_stretch(&self, deadline: Moment) -> Moment {
        let mut now = self.now();
        for _ in 0..TURNS {
            if now >= deadline {
                break;
            }
            now = self.now();
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks() -> [SystemClock; 4] {
        [SystemClock::monotonic(), SystemClock::wall(), SystemClock::boottime(), SystemClock::tai()]
    }

    #[test]
    fn spinning_is_never_early_on_any_clock() {
        for clock in clocks() {
            for ns in [0, 1, 100, 149, 150, 151, 5_000, 300_000] {
                let deadline = clock.now().plus_nanos(ns);
                let mut woke = clock.spin_until(deadline);
                while woke < deadline {
                    woke = clock.spin_until(deadline);
                }
                assert!(clock.now() >= deadline, "{} {ns}", clock.name());
            }
        }
    }

    #[test]
    fn a_sleep_into_the_past_returns() {
        for clock in clocks() {
            clock.sleep_until(Moment::from_nanos(i64::MIN));
            clock.sleep_until(clock.now() - Duration::from_secs(1));
        }
    }
}

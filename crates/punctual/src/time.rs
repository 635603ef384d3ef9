//! Clocks: the kernel's ([`SystemClock`]) and one that tests move by hand ([`ManualClock`]).
//!
//! A [`Clock`] tells the time, sleeps and spins. [`Sleeper`](crate::Sleeper), [`Ticker`](crate::Ticker) and
//! [`Pacer`](crate::Pacer) do the rest: margins, learning, schedules. So they behave the same on a manual clock and a real one. A
//! [`Moment`] is a point in time in nanoseconds of one clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use punctual_linux::clock::{Clock as Kernel, now_ns, thread_run_delay_ns};
use punctual_linux::counter::{Instruction, UserWait, Watched};
use punctual_linux::sleep::clock_nanosleep_until;

use crate::counter::Counter;

/// A clock to wait on.
pub trait Clock {
    /// The current time.
    fn now(&self) -> Moment;

    /// Sleeps until `target`, or until a signal ends the sleep. May return late; does not report how late.
    fn sleep_until(&self, target: Moment);

    /// Spins until `deadline` and returns the reading that ended the spin. A reading before `deadline` means that the clock was set
    /// back; the caller then decides again.
    fn spin_until(&self, deadline: Moment) -> Moment {
        loop {
            let now = self.now();
            if now >= deadline {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    /// CPU time of the calling thread in ns; `None` if unknown. Only CPU budgets use it.
    fn cpu_time_ns(&self) -> Option<i64> {
        None
    }

    /// Time for which the calling thread was ready to run while others ran, ns; `None` if unknown. A sleeper asks only after a wait that
    /// ended far too late, and now and then.
    fn run_delay_ns(&self) -> Option<u64> {
        None
    }

    /// Whether waits on this clock use kernel timers, so that the thread's timer slack matters.
    fn uses_kernel_timers(&self) -> bool {
        false
    }
}

/// A point in time: signed nanoseconds since the epoch of its clock (for `CLOCK_MONOTONIC`, roughly boot). Moments of different clocks
/// must not be compared; the type does not prevent it.
///
/// Arithmetic saturates at ±292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(i64);

impl Moment {
    /// The last moment, 292 years after the epoch.
    pub const NEVER: Self = Self(i64::MAX);

    /// The moment `ns` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The moment `ns` nanoseconds later; earlier if negative.
    #[must_use]
    pub const fn plus_nanos(self, ns: i64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this moment; negative if `earlier` is the later one.
    #[must_use]
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same, a few instructions faster, for an `earlier` that is known not to be later.
    pub(crate) const fn nanos_after(self, earlier: Self) -> i64 {
        let ns = self.0.wrapping_sub(earlier.0).cast_unsigned();
        if ns > i64::MAX.unsigned_abs() { i64::MAX } else { ns.cast_signed() }
    }

    /// The duration from `earlier` to this moment; zero if `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let ns = self.nanos_since(earlier);
        Duration::from_nanos(if ns < 0 { 0 } else { ns.unsigned_abs() })
    }
}

/// Nanoseconds of a duration, at most `i64::MAX`.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Pairs of readings, of which [`anchor`] takes the closest: a preemption spoils one pair, not all.
const ANCHOR_READINGS: usize = 16;

/// One point in time as an `Instant` and as a moment of `CLOCK_MONOTONIC`, the clock of `Instant` on Linux. Read once per process.
fn anchor() -> (Instant, Moment) {
    static ANCHOR: OnceLock<(Instant, Moment)> = OnceLock::new();
    *ANCHOR.get_or_init(|| {
        let read = || {
            let instant = Instant::now();
            // After the instant, so that no converted deadline is too early.
            let moment = Moment::from_nanos(now_ns(Kernel::Monotonic));
            (instant.elapsed(), (instant, moment))
        };
        let first = read();
        (1..ANCHOR_READINGS).map(|_| read()).fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    })
}

/// The moment of `CLOCK_MONOTONIC`, for deadlines on that clock. It is never earlier than the instant. It is later by the time between two
/// clock readings, the same for all instants of a process.
impl From<Instant> for Moment {
    fn from(instant: Instant) -> Self {
        let (known, moment) = anchor();
        match instant.checked_duration_since(known) {
            Some(later) => moment + later,
            None => moment - known.duration_since(instant),
        }
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        self.plus_nanos(nanos(later))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, later: Duration) {
        *self = *self + later;
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(earlier)))
    }
}

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

/// Returns how late a sleep ends, given its length.
type Latency = Box<dyn FnMut(Duration) -> Duration + Send>;

/// A clock that tests move by hand. Clones share the time.
///
/// A sleep moves it to the target, plus the wake-up latency of [`ManualClock::late_by`], if set. A spin moves it exactly to the
/// deadline. Code that waits thus runs at once and deterministically:
///
/// ```
/// use std::time::Duration;
/// use punctual::{ManualClock, Ticker};
///
/// let clock = ManualClock::new();
/// let mut ticker = Ticker::options().every(Duration::from_millis(10)).clock(clock.clone()).build().unwrap();
/// assert_eq!(ticker.tick().missed, 0);
/// clock.advance(Duration::from_millis(35)); // a loop body that took too long
/// assert_eq!(ticker.tick().missed, 2);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    now: AtomicI64,
    slept: AtomicU64,
    latency: Mutex<Option<Latency>>,
}

impl ManualClock {
    /// A clock at zero. Every sleep ends on time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how late sleeps end from now on. The closure gets the length of each sleep.
    pub fn late_by(&self, latency: impl FnMut(Duration) -> Duration + Send + 'static) {
        *self.shared.latency.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(latency));
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let _ = self
            .shared
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(nanos(by))));
    }

    /// Sets the clock, forward or back, as an administrator sets the wall clock.
    pub fn set(&self, now: Moment) {
        self.shared.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The number of sleeps so far.
    #[must_use]
    pub fn sleeps(&self) -> u64 {
        self.shared.slept.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.shared.now.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, target: Moment) {
        self.shared.slept.fetch_add(1, Ordering::Relaxed);
        let asked = target.since(self.now());
        let mut latency = self.shared.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let late = latency.as_mut().map_or(Duration::ZERO, |latency| latency(asked));
        drop(latency);
        self.advance(asked.saturating_add(late));
    }

    fn spin_until(&self, deadline: Moment) -> Moment {
        self.advance(deadline.since(self.now()));
        self.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_a_moment_of_the_monotonic_clock_and_never_an_earlier_one() {
        for _ in 0..1_000 {
            let before = Instant::now();
            let between = Moment::from_nanos(now_ns(Kernel::Monotonic));
            let after = Moment::from(Instant::now());
            assert!(after >= between, "converted too early");
            let offset = Moment::from(before).nanos_since(between);
            assert!(offset < 1_000_000, "{offset} ns later than a reading that followed it");
        }
        let instant = Instant::now();
        for distance in [Duration::from_nanos(1), Duration::from_secs(1), Duration::from_secs(1 << 30)] {
            assert_eq!(Moment::from(instant + distance), Moment::from(instant) + distance);
        }
        let micro = Duration::from_micros(1);
        assert_eq!(Moment::from(instant - micro), Moment::from(instant) - micro);
    }

    #[test]
    fn arithmetic_saturates() {
        let now = Moment::from_nanos(1_000);
        assert_eq!(now + Duration::MAX, Moment::NEVER);
        assert_eq!(now - Duration::from_nanos(1_500), Moment::from_nanos(-500));
        assert_eq!(now.since(now + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(now.nanos_since(now + Duration::from_secs(1)), -1_000_000_000);
        assert_eq!(Moment::NEVER.nanos_since(Moment::from_nanos(-5)), i64::MAX);
        for (later, earlier) in [(5, 5), (5, -5), (i64::MAX, 0), (i64::MAX, -1), (i64::MAX, i64::MIN), (0, i64::MIN)] {
            let (later, earlier) = (Moment::from_nanos(later), Moment::from_nanos(earlier));
            assert_eq!(later.nanos_after(earlier), later.nanos_since(earlier));
        }
    }

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

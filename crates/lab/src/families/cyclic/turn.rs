//! The cycles of one thread: it waits, reads the clock, and records, until it is to end.
//!
//! The loop allocates nothing and locks nothing. Its only system calls are the wait that is measured and, if asked, a reading
//! of the SMI counter. [`Wait`] is the way to wait, so the same loop runs on a clock that a test moves.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::Ended;
use punctual_linux::timer::PeriodicTimer;
use punctual_linux::{self as linux, sleep};

use super::bell::{Bell, Spike};
use super::cycle::Cycle;
use super::gauge::Gauge;
use super::rest::Rest;

/// How a thread waits for its next wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// `clock_nanosleep(2)` until a deadline.
    Deadline,
    /// `clock_nanosleep(2)` for the interval.
    Interval,
    /// `nanosleep(2)` for the interval.
    Nanosleep,
    /// A timer of `timer_create(2)`: its first expiry is a deadline, or comes after an interval.
    Timer {
        /// Whether it is a deadline.
        absolute: bool,
    },
}

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Whole microseconds, rounded towards zero.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// Nanoseconds of one.
    pub(super) fn ns(self) -> i64 {
        match self {
            Self::Microseconds => 1000,
            Self::Nanoseconds => 1,
        }
    }

    #[inline]
    fn of_ns(self, ns: i64) -> i64 {
        match self {
            Self::Microseconds => ns / 1000,
            Self::Nanoseconds => ns,
        }
    }
}

/// When a thread ends by itself, and what it reports meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The unit of the values.
    pub unit: Unit,
    /// After this number of cycles.
    pub cycles: Option<u64>,
    /// After this time from its start, and all with it.
    pub lasts_ns: Option<i64>,
    /// After a value above this one, and all with it.
    pub break_above: Option<i64>,
    /// It rests before it has more than this share of its CPU.
    pub share: Option<f64>,
}

/// A way to wait.
pub(super) trait Wait {
    /// The clock that is measured.
    fn now_ns(&mut self) -> i64;

    /// Waits for the next wake-up.
    fn wait(&mut self, cycle: &mut Cycle) -> linux::Result<Slept>;

    /// CPU time of the thread.
    fn used_ns(&mut self) -> i64;

    /// Sleeps beside the wake-ups.
    fn rest(&mut self, ns: i64) -> linux::Result<()>;
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slept {
    /// The time is up.
    Woke,
    /// The timer expired, and this is how often it had expired before.
    Expired(u64),
    /// A signal ended the wait.
    Cut,
}

/// A way to wait in the kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    clock: Clock,
    waiting: Waiting,
    interval_ns: i64,
    timer: Option<PeriodicTimer>,
}

impl Kernel {
    /// For the calling thread.
    pub(super) fn new(clock: Clock, waiting: Waiting, interval_ns: i64) -> linux::Result<Self> {
        let timer = matches!(waiting, Waiting::Timer { .. }).then(|| PeriodicTimer::new(clock)).transpose()?;
        Ok(Self { clock, waiting, interval_ns, timer })
    }

    /// Starts its timer, if it has one.
    pub(super) fn start(&self, cycle: &Cycle) -> linux::Result<()> {
        match (self.waiting, &self.timer) {
            (Waiting::Timer { absolute: true }, Some(timer)) => timer.start_at(cycle.next_ns(), self.interval_ns),
            (_, Some(timer)) => timer.start(self.interval_ns),
            _ => Ok(()),
        }
    }
}

impl Wait for Kernel {
    #[inline]
    fn now_ns(&mut self) -> i64 {
        now_ns(self.clock)
    }

    #[inline]
    fn wait(&mut self, cycle: &mut Cycle) -> linux::Result<Slept> {
        let ended = match self.waiting {
            Waiting::Deadline => sleep::clock_nanosleep_until(self.clock, cycle.next_ns())?,
            Waiting::Interval => {
                cycle.begin_anew(now_ns(self.clock));
                sleep::clock_nanosleep(self.clock, self.interval_ns)?
            }
            Waiting::Nanosleep => {
                cycle.begin_anew(now_ns(self.clock));
                sleep::nanosleep(self.interval_ns)?
            }
            Waiting::Timer { .. } => self.timer.as_ref().map_or(Ok(Ended::Sooner), PeriodicTimer::wait)?,
        };
        Ok(match (ended, &self.timer) {
            (Ended::Sooner, _) => Slept::Cut,
            (Ended::TimeUp, Some(timer)) => Slept::Expired(timer.overrun()),
            (Ended::TimeUp, None) => Slept::Woke,
        })
    }

    fn used_ns(&mut self) -> i64 {
        now_ns(Clock::ThreadCpu)
    }

    fn rest(&mut self, ns: i64) -> linux::Result<()> {
        sleep::nanosleep(ns).map(drop)
    }
}

/// The SMIs that a CPU has had (`MSR_SMI_COUNT`), through msr(4).
#[derive(Debug)]
pub(super) struct SmiCounter {
    file: File,
    before: u64,
}

/// Its number among the model-specific registers of Intel's processors.
const MSR_SMI_COUNT: u64 = 0x34;

impl SmiCounter {
    /// The counter of this CPU. The error names the file.
    pub(super) fn open(cpu: usize) -> Result<Self, String> {
        let path = format!("/dev/cpu/{cpu}/msr");
        let of_path = |error: std::io::Error| format!("{path}: {error}");
        let mut counter = Self { file: File::open(&path).map_err(of_path)?, before: 0 };
        counter.more().map_err(of_path)?;
        Ok(counter)
    }

    /// SMIs since the last call.
    fn more(&mut self) -> std::io::Result<u64> {
        let mut register = [0; 8];
        self.file.read_exact_at(&mut register, MSR_SMI_COUNT)?;
        // The upper half of the register is reserved.
        let now = u64::from_ne_bytes(register) & u64::from(u32::MAX);
        Ok((now - std::mem::replace(&mut self.before, now)) & u64::from(u32::MAX))
    }
}

/// A thread and its place in the crew.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) thread: usize,
    pub(super) tid: i32,
    pub(super) limits: Limits,
    pub(super) gauge: &'a Gauge,
    pub(super) bell: &'a Bell,
    pub(super) smis: Option<SmiCounter>,
}

impl Turn<'_> {
    /// Cycles until it or all are to end. `began_ns`: the start of the first interval.
    pub(super) fn perform<W: Wait>(&mut self, wait: &mut W, cycle: &mut Cycle, began_ns: i64) -> linux::Result<()> {
        let Limits { unit, cycles, lasts_ns, break_above, share } = self.limits;
        let mut rest = share.map(|share| Rest::new(share, wait.now_ns(), wait.used_ns()));
        let until_ns = lasts_ns.map(|ns| began_ns.saturating_add(ns));
        while !self.bell.rung() {
            let slept = wait.wait(cycle)?;
            let now_ns = wait.now_ns();
            let woken = match slept {
                Slept::Woke => cycle.woke(now_ns),
                Slept::Expired(missed) => cycle.expired(now_ns, missed),
                Slept::Cut => continue,
            };
            if let Some(more) = self.smis.as_mut().map(|smis| smis.more().unwrap_or(0)) {
                self.gauge.smis_were(more);
            }
            let value = unit.of_ns(woken.late_ns);
            if let Some(spikes) = self.bell.spikes() {
                spikes.look(Spike { thread: self.thread, value, at_ns: now_ns });
            }
            self.gauge.record(value, woken.late_ns, woken.missed);
            if until_ns.is_some_and(|until| now_ns >= until) {
                self.bell.ring();
            }
            if let Some(limit) = break_above.filter(|limit| value > *limit) {
                self.bell.broken_by(self.tid, value, limit);
            }
            if cycles.is_some_and(|cycles| self.gauge.cycles() >= cycles) {
                break;
            }
            if let Some(owed) = rest.as_mut().and_then(|rest| rest.owed(now_ns, || wait.used_ns())) {
                wait.rest(owed)?;
                self.gauge.rested_over(cycle.slept_until(wait.now_ns()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::bell::Spikes;
    use super::super::gauge::Keep;
    use super::*;

    /// A clock that only waiting moves: each wait is late by what the generator says.
    pub(in super::super) struct Moved<F> {
        pub(in super::super) now_ns: i64,
        late: F,
        rested_ns: i64,
    }

    impl<F: FnMut() -> i64> Moved<F> {
        pub(in super::super) fn new(late: F) -> Self {
            Self { now_ns: 0, late, rested_ns: 0 }
        }
    }

    impl<F: FnMut() -> i64> Wait for Moved<F> {
        fn now_ns(&mut self) -> i64 {
            self.now_ns
        }

        fn wait(&mut self, cycle: &mut Cycle) -> linux::Result<Slept> {
            self.now_ns = self.now_ns.max(cycle.next_ns()) + (self.late)();
            Ok(Slept::Woke)
        }

        /// It has the CPU all the time but its rests.
        fn used_ns(&mut self) -> i64 {
            self.now_ns - self.rested_ns
        }

        fn rest(&mut self, ns: i64) -> linux::Result<()> {
            self.now_ns += ns;
            self.rested_ns += ns;
            Ok(())
        }
    }

    pub(in super::super) const LIMITS: Limits =
        Limits { unit: Unit::Nanoseconds, cycles: None, lasts_ns: None, break_above: None, share: None };

    fn performed(limits: Limits, bell: &Bell, interval_ns: i64, late: impl FnMut() -> i64) -> (Gauge, i64) {
        let gauge = Gauge::new(Keep { units: 100, values: false, spread: true }, false);
        let mut turn = Turn { thread: 3, tid: 42, limits, gauge: &gauge, bell, smis: None };
        let mut wait = Moved::new(late);
        turn.perform(&mut wait, &mut Cycle::new(0, interval_ns), 0).unwrap();
        let now_ns = wait.now_ns;
        (gauge, now_ns)
    }

    /// xorshift64*: late by 0 to 4 us, and once in some thousand cycles by up to 60 ms.
    pub(in super::super) fn stalls() -> impl FnMut() -> i64 {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        move || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let drawn = (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as i64;
            if drawn % 4096 == 0 { drawn % 60_000_000 } else { drawn % 4000 }
        }
    }

    fn all_are_counted(cycles: u64) {
        let bell = Bell::default();
        let (gauge, now_ns) = performed(Limits { cycles: Some(cycles), ..LIMITS }, &bell, 1_000_000, stalls());
        // The expected wake-ups up to now: each is a cycle, or missed.
        let expected = (now_ns - 1) / 1_000_000;
        assert_eq!(gauge.cycles(), cycles);
        assert_eq!(gauge.cycles() + gauge.missed(), expected.unsigned_abs());
        assert!(gauge.missed() > cycles / 5000, "some were overslept: {}", gauge.missed());
        assert_eq!(gauge.spread().iter().sum::<u64>(), cycles);
        assert_eq!((0..100).map(|unit| gauge.at(unit)).sum::<u64>() + gauge.beyond(), cycles);
    }

    #[test]
    fn each_expected_wake_up_is_a_cycle_or_missed() {
        all_are_counted(300_000);
    }

    #[test]
    #[ignore = "some seconds with optimisation, a minute without: 10^8 cycles"]
    fn of_a_hundred_million_cycles_none_is_lost_or_counted_twice() {
        all_are_counted(100_000_000);
    }

    #[test]
    fn a_value_above_the_limit_ends_all() {
        let bell = Bell::with(Some(Spikes::new(7, 5)), None);
        let mut late = [5, 8, 100, 9].into_iter();
        let limits = Limits { break_above: Some(50), ..LIMITS };
        let (gauge, _) = performed(limits, &bell, 1000, || late.next().unwrap());
        assert_eq!((gauge.cycles(), bell.broken(), bell.rung()), (3, Some((42, 100)), true));
        let spikes: Vec<_> = bell.spikes().unwrap().kept().map(|spike| (spike.thread, spike.value)).collect();
        assert_eq!(spikes, [(3, 8), (3, 100)]);
    }

    #[test]
    fn it_ends_after_its_time_and_the_last_cycle_counts() {
        let bell = Bell::default();
        let (gauge, now_ns) = performed(Limits { lasts_ns: Some(10_000), ..LIMITS }, &bell, 1000, || 1);
        assert_eq!((gauge.cycles(), now_ns, bell.rung()), (10, 10_001, true));
    }

    #[test]
    fn a_thread_that_has_its_cpu_all_the_time_rests_and_counts_what_it_misses() {
        let bell = Bell::default();
        let limits = Limits { cycles: Some(100_000), share: Some(0.8), ..LIMITS };
        let (gauge, now_ns) = performed(limits, &bell, 10_000, || 9_000);
        // Rests of a quarter of the time before.
        assert!((19..=21).contains(&gauge.rested()), "{}", gauge.rested());
        assert_eq!(gauge.cycles() + gauge.missed(), ((now_ns - 1) / 10_000).unsigned_abs());
        let (never, _) = performed(Limits { share: None, ..limits }, &Bell::default(), 10_000, || 9_000);
        assert_eq!((never.rested(), never.missed()), (0, 0));
    }

    #[test]
    fn microseconds_are_cut_off() {
        assert_eq!([999, 1999, -999].map(|ns| Unit::Microseconds.of_ns(ns)), [0, 1, 0]);
    }
}

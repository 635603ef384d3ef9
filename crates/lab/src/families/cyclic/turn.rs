//! The cycles of one thread: it waits, reads the clock, and records, until it is to end.
//!
//! The loop ([`Turn`]) allocates nothing and locks nothing. Its only system calls are the wait that is measured and, if asked, a reading
//! of the SMI counter. [`Wait`] is the way to wait, so the same loop runs on a clock that a test moves.
//!
//! [`Cycle`] has the expected wake-ups: one every interval, and those that nobody was there for. Each is counted exactly once: as a cycle,
//! or as missed. [`Rest`] keeps a real-time thread below what the kernel allows: it rests by itself, before RT throttling or the fair
//! server takes its CPU away for longer and looks like a late wake-up. No limit is changed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sleep::Ended;
use punctual_linux::timer::PeriodicTimer;
use punctual_linux::{self as linux, sleep};
use punctual_record::RtLimits;

use super::gauge::{Bell, Gauge, Spike};

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
    Microseconds = 1000,
    /// Nanoseconds.
    Nanoseconds = 1,
}

impl Unit {
    /// Nanoseconds of one.
    pub(super) fn ns(self) -> i64 {
        self as i64
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

/// The next expected wake-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    next_ns: i64,
    interval_ns: i64,
}

/// A wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Woken {
    /// From the expected time to the wake-up.
    pub(super) late_ns: i64,
    /// Expected wake-ups that passed meanwhile.
    pub(super) missed: u64,
}

impl Cycle {
    /// The first wake-up is an interval after `start_ns`. An interval of less than 1 ns counts as 1 ns.
    pub(super) fn new(start_ns: i64, interval_ns: i64) -> Self {
        let interval_ns = interval_ns.max(1);
        Self { next_ns: start_ns.saturating_add(interval_ns), interval_ns }
    }

    /// When the thread is to wake up next.
    #[inline]
    pub(super) fn next_ns(&self) -> i64 {
        self.next_ns
    }

    /// The thread waits for a whole interval from `now_ns` on, whatever was expected.
    #[inline]
    pub(super) fn begin_anew(&mut self, now_ns: i64) {
        self.next_ns = now_ns.saturating_add(self.interval_ns);
    }

    /// The thread woke up at `now_ns`. A wake-up that is expected exactly now is still to come.
    #[inline]
    pub(super) fn woke(&mut self, now_ns: i64) -> Woken {
        let late_ns = now_ns.saturating_sub(self.next_ns);
        self.skip(1);
        Woken { late_ns, missed: self.slept_until(now_ns) }
    }

    /// The thread slept beside its wake-ups. Returns how many were expected before `now_ns`.
    #[inline]
    pub(super) fn slept_until(&mut self, now_ns: i64) -> u64 {
        let behind_ns = now_ns.saturating_sub(self.next_ns).max(0);
        let missed = behind_ns.unsigned_abs().div_ceil(self.interval_ns.unsigned_abs());
        self.skip(missed);
        missed
    }

    /// A timer woke the thread, which read the clock at `now_ns`. The timer expired `missed` times more before its signal was taken.
    /// It counts itself what it misses from then on.
    #[inline]
    pub(super) fn expired(&mut self, now_ns: i64, missed: u64) -> Woken {
        let late_ns = now_ns.saturating_sub(self.next_ns);
        self.skip(missed.saturating_add(1));
        Woken { late_ns, missed }
    }

    /// So many expected wake-ups are over.
    #[inline]
    fn skip(&mut self, missed: u64) {
        let ns = i64::try_from(missed).unwrap_or(i64::MAX).saturating_mul(self.interval_ns);
        self.next_ns = self.next_ns.saturating_add(ns);
    }
}

/// From one look at the CPU time to the next: the kernel counts in periods of a second.
const WINDOW_NS: i64 = 50_000_000;
/// The part of what is allowed that a thread takes.
const PART: f64 = 0.9;
/// What the kernel keeps for other threads by default, by either limit; it is assumed where a limit cannot be read.
const KEPT: f64 = 0.05;

/// The account of a real-time thread.
#[derive(Debug)]
pub(super) struct Rest {
    share: f64,
    /// The clock and the CPU time at the last look.
    since_ns: i64,
    used_ns: i64,
}

impl Rest {
    /// The share of its CPU that a real-time thread takes at most.
    pub(super) fn share(limits: &RtLimits) -> f64 {
        let throttled = match limits.runtime_us.zip(limits.period_us) {
            Some((runtime, period)) if runtime >= 0 && period > 0 => runtime as f64 / period as f64,
            Some(_) => 1.0,
            None => 1.0 - KEPT,
        };
        let kept = limits.fair_server.map_or(KEPT, |server| server.runtime_ns as f64 / server.period_ns.max(1) as f64);
        PART * throttled.min(1.0 - kept).clamp(0.0, 1.0)
    }

    pub(super) fn new(share: f64, now_ns: i64, used_ns: i64) -> Self {
        Self { share, since_ns: now_ns, used_ns }
    }

    /// The rest that the thread owes; `None`: it had less than its share, or it is not yet time to look at its CPU time.
    #[inline]
    pub(super) fn owed(&mut self, now_ns: i64, used_ns: impl FnOnce() -> i64) -> Option<i64> {
        if now_ns - self.since_ns < WINDOW_NS {
            return None;
        }
        let used_ns = used_ns();
        let (lasted, used) = (now_ns - self.since_ns, used_ns - self.used_ns);
        // A share of nothing would be a rest without an end.
        let whole = used as f64 / self.share.max(0.1);
        let owed = whole as i64 - lasted;
        // The rest is for the time before it.
        (self.since_ns, self.used_ns) = (now_ns + owed.max(0), used_ns);
        (owed > 0).then_some(owed)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use punctual_record::FairServer;

    use super::super::gauge::{Keep, Spikes};
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

    /// The same, one expected wake-up after the other.
    fn one_by_one(next_ns: i64, interval_ns: i64, now_ns: i64) -> (Woken, i64) {
        let (mut next, mut missed) = (next_ns + interval_ns, 0);
        while now_ns > next {
            next += interval_ns;
            missed += 1;
        }
        (Woken { late_ns: now_ns - next_ns, missed }, next)
    }

    proptest! {
        #[test]
        fn each_expected_wake_up_is_counted_once(interval in 1i64..2000, sleeps in prop::collection::vec(0i64..20_000, 1..50)) {
            let mut cycle = Cycle::new(0, interval);
            let (mut now, mut counted) = (0, 0);
            for late in sleeps {
                now = cycle.next_ns().max(now) + late;
                let expected = one_by_one(cycle.next_ns(), interval, now);
                let woken = cycle.woke(now);
                prop_assert_eq!((woken, cycle.next_ns()), expected);
                counted += 1 + woken.missed as i64;
                prop_assert_eq!(cycle.next_ns(), interval * (counted + 1));
                prop_assert!(cycle.next_ns() >= now);
            }
        }
    }

    #[test]
    fn a_wake_up_that_is_due_now_is_still_to_come() {
        let mut cycle = Cycle::new(0, 10);
        assert_eq!(cycle.woke(20), Woken { late_ns: 10, missed: 0 });
        assert_eq!(cycle.next_ns(), 20);
        assert_eq!(cycle.woke(41), Woken { late_ns: 21, missed: 2 });
        assert_eq!(cycle.next_ns(), 50);
    }

    #[test]
    fn a_timer_counts_itself_what_it_misses() {
        let mut cycle = Cycle::new(0, 10);
        assert_eq!(cycle.expired(35, 1), Woken { late_ns: 25, missed: 1 });
        assert_eq!(cycle.next_ns(), 30);
        assert_eq!(cycle.expired(36, 0), Woken { late_ns: 6, missed: 0 });
        assert_eq!(cycle.next_ns(), 40);
    }

    #[test]
    fn the_end_of_time_is_no_overflow() {
        let mut cycle = Cycle::new(i64::MAX - 5, i64::MAX);
        assert_eq!(cycle.woke(i64::MAX), Woken { late_ns: 0, missed: 0 });
        assert_eq!(Cycle::new(0, -5).next_ns(), 1);
    }

    #[test]
    fn the_stricter_limit_counts_and_an_unknown_one_as_the_usual() {
        let share_under = |runtime_us: Option<i64>, kept_ms: Option<u64>| {
            let server = |ms: u64| FairServer { runtime_ns: ms * 1_000_000, period_ns: 1_000_000_000 };
            let fair_server = kept_ms.map(server);
            Rest::share(&RtLimits { period_us: Some(1_000_000), runtime_us, fair_server, ..RtLimits::default() })
        };
        let is = |share: f64, expected: f64| assert!((share - expected * PART).abs() < 1e-9, "{share} {expected}");
        is(share_under(Some(950_000), None), 0.95);
        is(share_under(Some(500_000), Some(50)), 0.5);
        is(share_under(Some(-1), Some(100)), 0.9);
        is(share_under(Some(1_000_000), Some(0)), 1.0);
        is(share_under(None, None), 0.95);
        is(share_under(Some(-1), None), 0.95);
    }

    #[test]
    fn a_thread_rests_only_above_its_share() {
        let mut rest = Rest::new(0.8, 0, 0);
        assert_eq!(rest.owed(WINDOW_NS - 1, || panic!("not yet")), None);
        assert_eq!(rest.owed(50_000_000, || 40_000_000), None);
        assert_eq!(rest.owed(100_000_000, || 90_000_000), Some(12_500_000));
        assert_eq!(Rest::new(0.0, 0, 0).owed(WINDOW_NS, || WINDOW_NS), Some(9 * WINDOW_NS));
    }
}

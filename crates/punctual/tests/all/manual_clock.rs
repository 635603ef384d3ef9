//! Ticker, Pacer and Sleeper on a manual clock. What they promise of counting and timing holds for any rate and any delay.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use punctual::{
    Batch, CatchUp, Clock, ManualClock, MissedTickBehavior, Moment, Pacer, Rate, Sleeper, SleeperOptions,
    Strategy as SleepStrategy, Ticker,
};

/// Any rate between one in 20 minutes and one in 5 ns.
fn rates() -> impl Strategy<Value = Rate> {
    (1_u64..1_000_000, 1_u64..1_200_000).prop_filter_map("out of range", |(events, us)| {
        Rate::new(events, Duration::from_micros(us)).ok().filter(|rate| rate.period_ns() >= 5)
    })
}

/// What the loop's body takes, in thousandths of a period.
fn bodies() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => 0_u64..900, 1 => 900_u64..7_000], 1..200)
}

fn body(clock: &ManualClock, rate: Rate, thousandths: u64) {
    clock.advance(Duration::from_nanos(rate.period_ns() * thousandths / 1_000));
}

/// A manual clock on which every third sleep ends 30 µs late.
fn sluggish() -> ManualClock {
    let clock = ManualClock::new();
    let mut sleeps = 0_u32;
    clock.late_by(move |_| {
        sleeps += 1;
        Duration::from_micros(if sleeps.is_multiple_of(3) { 30 } else { 5 })
    });
    clock
}

/// A clock on a CPU of which this thread has a quarter. If it takes more, it is late by a slice of 3 ms.
struct SharedCpu {
    now_ns: Cell<i64>,
    /// What the thread may still take; a slice at most.
    credit_ns: Cell<i64>,
    run_delay_ns: Cell<u64>,
    /// Another thread has the CPU meanwhile, not the hypervisor.
    by_thread: bool,
    sleeps: Cell<i64>,
}

impl SharedCpu {
    const SLICE_NS: i64 = 3_000_000;

    fn new(by_thread: bool) -> Self {
        let credit_ns = Cell::new(Self::SLICE_NS);
        Self { now_ns: Cell::new(0), credit_ns, run_delay_ns: Cell::new(0), by_thread, sleeps: Cell::new(0) }
    }

    fn pass(&self, ns: i64, own_ns: i64) {
        self.now_ns.set(self.now_ns.get() + ns);
        self.credit_ns.set((self.credit_ns.get() + ns / 4 - own_ns).min(Self::SLICE_NS));
        if self.credit_ns.get() < 0 {
            self.now_ns.set(self.now_ns.get() + Self::SLICE_NS);
            self.credit_ns.set(Self::SLICE_NS / 4);
            self.run_delay_ns.set(self.run_delay_ns.get() + if self.by_thread { Self::SLICE_NS as u64 } else { 0 });
        }
    }
}

impl Clock for &SharedCpu {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.now_ns.get())
    }

    /// Ends 20 to 60 us late, and takes 5 us of the CPU.
    fn sleep_until(&self, target: Moment) {
        self.sleeps.set(self.sleeps.get() + 1);
        let latency_ns = 20_000 + self.sleeps.get() * 7_919 % 40_000;
        self.pass((target.as_nanos() + latency_ns - self.now_ns.get()).max(0), 5_000);
    }

    fn spin_until(&self, deadline: Moment) -> Moment {
        let ns = deadline.as_nanos() - self.now_ns.get();
        self.pass(ns, ns);
        self.now()
    }

    fn run_delay_ns(&self) -> Option<u64> {
        Some(self.run_delay_ns.get())
    }
}

/// Late by a slice, and the share of the time spun, of waits of 100 us.
fn on_a_shared_cpu(by_thread: bool) -> (f64, f64) {
    let clock = SharedCpu::new(by_thread);
    let mut sleeper = SleeperOptions::new().clock(&clock).build();
    let waits = 20_000;
    let wakes: Vec<_> = (0..2 * waits).map(|_| sleeper.sleep(Duration::from_micros(100))).skip(waits).collect();
    let late = wakes.iter().filter(|wake| wake.lateness() > Duration::from_millis(1)).count();
    let spun: Duration = wakes.iter().map(|wake| wake.spun.min(Duration::from_micros(100))).sum();
    (late as f64 / waits as f64, spun.as_secs_f64() / (waits as f64 * 100e-6))
}

#[test]
fn a_sleeper_that_loses_its_cpu_to_threads_leaves_more_to_them() {
    let (late, spun) = on_a_shared_cpu(true);
    assert!(late < 0.005 && spun < 0.22, "{:.2} % late, {:.0} % spun", late * 100.0, spun * 100.0);
    // Nobody else gains where the hypervisor takes the CPU: the sleeper spins as long as ever.
    let (late, spun) = on_a_shared_cpu(false);
    assert!(late > 0.005 && spun > 0.22, "{:.2} % late, {:.0} % spun", late * 100.0, spun * 100.0);
}

proptest! {
    /// Every tick is accounted for, none is early, and whatever happened, the grid is where it was.
    #[test]
    fn skip_keeps_the_grid(rate in rates(), bodies in bodies()) {
        let clock = sluggish();
        let start = Moment::from_nanos(1_000_000);
        let mut ticker = Ticker::options().rate(rate).starting_at(start).clock(clock.clone()).build().unwrap();
        let (mut served, mut missed) = (0, 0);
        for thousandths in bodies {
            let tick = ticker.tick();
            served += 1;
            missed += tick.missed;
            prop_assert_eq!(served + missed, tick.index + 1);
            prop_assert_eq!(tick.deadline, start.plus_nanos(rate.time_of(tick.index)), "no drift");
            prop_assert!(tick.woke_at >= tick.deadline);
            // The newest deadline that had passed: one more would have been too early, unless the wake-up itself was late.
            prop_assert!(tick.lateness() <= Duration::from_nanos(rate.period_ns() + 1).max(Duration::from_micros(30)));
            body(&clock, rate, thousandths);
        }
        prop_assert_eq!(ticker.missed(), missed);
    }

    #[test]
    fn burst_serves_every_tick_in_order(rate in rates(), bodies in bodies()) {
        let clock = sluggish();
        let start = Moment::from_nanos(1_000_000);
        let options = Ticker::options().rate(rate).starting_at(start).missed_tick_behavior(MissedTickBehavior::Burst).clock(clock.clone());
        let mut ticker = options.build().unwrap();
        for (n, thousandths) in bodies.into_iter().enumerate() {
            let tick = ticker.tick();
            prop_assert_eq!((tick.index, tick.missed), (n as u64, 0));
            prop_assert_eq!(tick.deadline, start.plus_nanos(rate.time_of(tick.index)));
            prop_assert!(tick.woke_at >= tick.deadline);
            body(&clock, rate, thousandths);
        }
    }

    #[test]
    fn delay_always_leaves_a_period(rate in rates(), bodies in bodies()) {
        let clock = sluggish();
        let mut ticker = Ticker::options().rate(rate).missed_tick_behavior(MissedTickBehavior::Delay).clock(clock.clone()).build().unwrap();
        let (mut served, mut missed) = (0, 0);
        let mut before: Option<(Moment, Moment)> = None;
        for thousandths in bodies {
            let called = clock.now();
            let tick = ticker.tick();
            served += 1;
            missed += tick.missed;
            prop_assert_eq!(served + missed, tick.index + 1);
            prop_assert!(tick.woke_at >= tick.deadline);
            if let Some((deadline, woke)) = before {
                let late = woke > deadline;
                prop_assert!(tick.woke_at.nanos_since(deadline) >= rate.period_ns() as i64);
                // A tick that was called for too late starts the grid anew.
                if late && called > tick.deadline {
                    prop_assert!(tick.woke_at.nanos_since(woke) >= rate.period_ns() as i64 - 30_000);
                }
            }
            before = Some((tick.deadline, tick.woke_at));
            body(&clock, rate, thousandths);
        }
    }

    /// Times are whole nanoseconds, so a window is known to less than one at either end. In any window there are at most rate
    /// × window + depth events. None is forgotten: let go, forfeited, or not yet due.
    #[test]
    fn a_bucket_is_never_exceeded(rate in rates(), depth in 1_u64..20, bodies in bodies(), batch in 1_u64..5) {
        let clock = sluggish();
        let mut pacer = Pacer::options(rate).batch(batch).catch_up(CatchUp::Bucket { depth }).clock(clock.clone()).build();
        let mut turns: Vec<Batch> = Vec::new();
        for thousandths in bodies {
            turns.push(pacer.next());
            body(&clock, rate, thousandths);
        }
        for (first, from) in turns.iter().enumerate() {
            let mut events = 0;
            for to in &turns[first..] {
                events += to.count;
                let window = to.woke_at.nanos_since(from.woke_at);
                prop_assert!(events <= depth + rate.periods_in(window + 2), "{events} events in {window} ns");
            }
        }
    }

    /// However late single events are, the grid stays, so the long-run rate is exact.
    #[test]
    fn even_spacing_keeps_the_rate(rate in rates(), bodies in bodies(), batch in 1_u64..50) {
        let clock = sluggish();
        let start = clock.now();
        let mut pacer = Pacer::options(rate).batch(batch).clock(clock.clone()).build();
        let mut events = 0;
        for thousandths in bodies {
            let turn = pacer.next();
            prop_assert_eq!(turn.index, events);
            events += turn.count;
            prop_assert_eq!(turn.deadline, start.plus_nanos(rate.time_of(events - 1)));
            prop_assert!(turn.woke_at >= turn.deadline);
            body(&clock, rate, thousandths * batch);
        }
        prop_assert_eq!((pacer.events(), pacer.forfeited()), (events, 0));
    }

    /// After a stall the arrears are worked off, not burst out, and then the grid is reached again.
    #[test]
    fn gradual_catching_up_has_no_bursts_and_arrives(rate in rates(), percent in 1_u32..50, stall in 2_u64..20) {
        let clock = ManualClock::new();
        let mut pacer = Pacer::options(rate).catch_up(CatchUp::Gradually { percent }).clock(clock.clone()).build();
        for _ in 0..5 {
            pacer.next();
        }
        clock.advance(Duration::from_nanos(rate.period_ns() * stall));
        let mut before = pacer.next().woke_at;
        let shortest = rate.period_ns() * 100 / u64::from(100 + percent) - rate.period_ns() / 2;
        // A stall of n periods is worked off within n × (100 + percent) / percent events.
        for _ in 0..=(stall + 1) * u64::from(100 + percent) / u64::from(percent) + 2 {
            let turn = pacer.next();
            prop_assert!(turn.woke_at.nanos_since(before) + 1 >= shortest as i64);
            before = turn.woke_at;
        }
        prop_assert!(pacer.next().lateness() <= Duration::from_nanos(2));
    }

    /// Never early, for any wait, latency and strategy; and no longer late than the latency.
    #[test]
    fn sleepers_are_never_early(
        waits in prop::collection::vec(0_i64..5_000_000, 1..100), latencies in prop::collection::vec(0_u64..400_000, 1..20),
        strategy in prop::sample::select(vec![SleepStrategy::Native, SleepStrategy::Compensated, SleepStrategy::Hybrid]),
    ) {
        let clock = ManualClock::new();
        let most = latencies.iter().copied().max().unwrap_or(0);
        let mut turn = latencies.into_iter().cycle();
        clock.late_by(move |_| Duration::from_nanos(turn.next().unwrap_or(0)));
        let mut sleeper = SleeperOptions::new().strategy(strategy).clock(clock.clone()).build();
        for wait in waits {
            let deadline = clock.now().plus_nanos(wait);
            let wake = sleeper.sleep_until(deadline);
            prop_assert!(clock.now() >= deadline);
            prop_assert_eq!(wake.woke_at, clock.now());
            prop_assert!(wake.lateness() <= Duration::from_nanos(most));
        }
    }
}

/// The timelines of the documentation: the body of tick 1 takes two and a half periods.
#[test]
fn missed_ticks_are_as_documented() {
    let timeline = |missed| {
        let clock = ManualClock::new();
        let options =
            Ticker::options().every(Duration::from_secs(1)).starting_at(Moment::default()).missed_tick_behavior(missed);
        let mut ticker = options.clock(clock.clone()).build().unwrap();
        let mut seen = Vec::new();
        while clock.now() < Moment::from_nanos(5_100_000_000) {
            let tick = ticker.tick();
            let body = if tick.index == 1 { 2_500 } else { 100 };
            clock.advance(Duration::from_millis(body));
            seen.push((tick.index, tick.woke_at.as_nanos() / 1_000_000, tick.missed));
        }
        seen
    };
    let burst = [(0, 0, 0), (1, 1_000, 0), (2, 3_500, 0), (3, 3_600, 0), (4, 4_000, 0), (5, 5_000, 0)];
    let skip = [(0, 0, 0), (1, 1_000, 0), (3, 3_500, 1), (4, 4_000, 0), (5, 5_000, 0)];
    let delay = [(0, 0, 0), (1, 1_000, 0), (3, 3_500, 1), (4, 4_500, 0), (5, 5_500, 0)];
    assert_eq!(timeline(MissedTickBehavior::Burst), burst);
    assert_eq!(timeline(MissedTickBehavior::Skip), skip);
    assert_eq!(timeline(MissedTickBehavior::Delay), delay);
}

#[test]
fn a_ticker_can_start_on_whole_seconds() {
    let clock = ManualClock::new();
    clock.set(Moment::from_nanos(1_234_567_890));
    let options = Ticker::options().every(Duration::from_millis(10)).starting_at_whole(Duration::from_secs(1));
    let first = options.clock(clock).build().unwrap().tick();
    assert_eq!(first.deadline, Moment::from_nanos(2_000_000_000));
}

#[test]
fn a_start_in_the_past_is_missed_ticks() {
    let clock = ManualClock::new();
    clock.set(Moment::from_nanos(10_500_000_000));
    let options = Ticker::options().every(Duration::from_secs(1)).starting_at(Moment::default());
    let tick = options.clock(clock).build().unwrap().tick();
    assert_eq!((tick.index, tick.missed, tick.lateness()), (10, 10, Duration::from_millis(500)));
}

#[test]
fn the_rate_changes_on_the_fly() {
    let clock = ManualClock::new();
    let mut pacer = Pacer::options(Rate::per_second(10).unwrap()).clock(clock.clone()).build();
    let mut at = || pacer.next().woke_at.as_nanos() / 1_000_000;
    assert_eq!([at(), at(), at()], [0, 100, 200]);
    pacer.set_rate(Rate::per_second(100).unwrap());
    let mut at = || pacer.next().woke_at.as_nanos() / 1_000_000;
    assert_eq!([at(), at(), at()], [210, 220, 230]);
    pacer.set_rate(Rate::hertz(0.01).unwrap());
    let mut at = || pacer.next().woke_at.as_nanos() / 1_000_000;
    assert_eq!([at(), at()], [240, 100_240]);
}

#[test]
fn batches_are_as_large_as_the_jitter_allows() {
    let size = |rate, us| {
        let rate = Rate::per_second(rate).unwrap();
        Pacer::options(rate).jitter(Duration::from_micros(us)).clock(ManualClock::new()).build().batch_size()
    };
    assert_eq!(size(1_000, 50), 1);
    assert_eq!(size(1_000_000, 0), 1);
    assert_eq!(size(1_000_000, 11), 11);
    assert_eq!(size(100_000, 51), 6);
    assert_eq!(size(1_000_000_000, 100_000), 1024, "what sendmmsg takes");
}

/// The wall clock set back during a sleep, and during a spin: the wait goes on; set forward: it ends.
#[test]
fn a_clock_that_steps_never_makes_a_wait_early() {
    let clock = ManualClock::new();
    clock.set(Moment::from_nanos(1_000_000_000_000));
    let mut sleeper = Sleeper::options().clock(clock.clone()).build();
    let set = clock.clone();
    let mut steps = vec![-3_600, 3_600, -5, 10].into_iter();
    clock.late_by(move |_| {
        if let Some(seconds) = steps.next() {
            set.set(set.now().plus_nanos(seconds * 1_000_000_000));
        }
        Duration::from_micros(20)
    });
    let deadline = clock.now() + Duration::from_millis(5);
    let wake = sleeper.sleep_until(deadline);
    assert!(wake.woke_at >= deadline);
    assert!(clock.sleeps() >= 2);
}

#[test]
fn what_lies_in_the_past_returns_at_once_and_says_how_late_it_is() {
    let clock = ManualClock::new();
    clock.set(Moment::from_nanos(5_000));
    let mut sleeper = Sleeper::options().clock(clock.clone()).build();
    let wake = sleeper.sleep_until(Moment::from_nanos(2_000));
    assert_eq!((wake.lateness(), wake.slept, wake.spun), (Duration::from_nanos(3_000), Duration::ZERO, Duration::ZERO));
    assert_eq!(sleeper.sleep(Duration::ZERO).lateness(), Duration::ZERO);
    assert_eq!(sleeper.sleep_until(Moment::from_nanos(i64::MIN)).woke_at, clock.now());
    assert_eq!(clock.sleeps(), 0);
}

#[test]
fn never_is_a_moment_too() {
    let clock = ManualClock::new();
    let mut sleeper = Sleeper::options().clock(clock.clone()).build();
    assert_eq!(sleeper.sleep(Duration::MAX).woke_at, Moment::NEVER);
}

/// A compensated sleep says when a wait is too short for it, and what the shortest is.
#[test]
fn compensation_knows_its_limit() {
    let clock = ManualClock::new();
    clock.late_by(|_| Duration::from_micros(40));
    let mut sleeper = Sleeper::options().strategy(SleepStrategy::Compensated).clock(clock).build();
    for _ in 0..100 {
        sleeper.sleep(Duration::from_micros(100));
    }
    let good = sleeper.sleep(Duration::from_micros(100));
    assert!(!good.too_short && good.lateness() < Duration::from_micros(1), "{good:?}");
    let short = sleeper.sleep(Duration::from_micros(20));
    assert!(short.too_short && short.lateness() >= Duration::from_micros(20), "{short:?}");
    let limit = sleeper.shortest_wait();
    assert!((Duration::from_micros(39)..Duration::from_micros(41)).contains(&limit), "{limit:?}");
}

#[test]
fn small_and_without_heap() {
    assert!(size_of::<Sleeper>() <= 1_000, "{}", size_of::<Sleeper>());
    assert!(size_of::<Ticker>() <= 1_000, "{}", size_of::<Ticker>());
    assert!(size_of::<Pacer>() <= 1_000, "{}", size_of::<Pacer>());
}

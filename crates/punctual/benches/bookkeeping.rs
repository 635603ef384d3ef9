//! The bookkeeping of a wait, a tick and a batch: measured on a clock that never waits.
//!
//! `cargo bench -p punctual`. Each figure is the median of many batches, in ns per operation.

use std::hint::black_box;
use std::time::{Duration, Instant};

use punctual::margin::{Aim, Decision, MarginLearner};
use punctual::{Clock, MissedTickBehavior, Moment, Pacer, Rate, Sleeper, Ticker};

/// A clock on which nothing takes any time: what is left is bookkeeping.
#[derive(Clone, Default)]
struct Instantaneous(std::cell::Cell<i64>);

impl Clock for Instantaneous {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.get())
    }

    fn sleep_until(&self, target: Moment) {
        // Ten to twenty microseconds late, as a machine might be.
        let late = 10_000 + (target.as_nanos() & 0x1fff);
        self.0.set(target.as_nanos().max(self.0.get()) + late);
    }

    fn spin_until(&self, deadline: Moment) -> Moment {
        self.0.set(self.0.get().max(deadline.as_nanos()));
        self.now()
    }
}

const BATCHES: usize = 101;
const OPERATIONS: u32 = 20_000;

/// Median nanoseconds per operation.
fn measure(name: &str, mut operation: impl FnMut()) {
    let mut costs: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let begin = Instant::now();
            (0..OPERATIONS).for_each(|_| operation());
            begin.elapsed().as_nanos() as f64 / f64::from(OPERATIONS)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{name:<50} {:>7.1} ns   (5 % to 95 %: {:.1} to {:.1})", costs[BATCHES / 2], costs[5], costs[95]);
}

fn main() {
    // What it is to be compared with.
    let clock = punctual::SystemClock::monotonic();
    measure("a reading of the clock", || {
        black_box(clock.now());
    });
    let aims = [
        ("learner, balanced", Aim::default()),
        ("learner, lateness 1 us for 99 %", Aim::Lateness { within: Duration::from_micros(1), share: 0.99 }),
        ("learner, CPU budget 5 %", Aim::CpuBudget { share: 0.05 }),
        ("learner, compensated", Aim::Typical),
    ];
    for (name, aim) in aims {
        let mut learner = MarginLearner::new(aim, 250_000);
        let mut random = 1_u64;
        measure(name, || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if let Decision::Sleep { margin_ns, .. } = black_box(learner.decide(1_000_000)) {
                black_box(margin_ns);
                learner.saw(1_000_000, 15_000 + (random >> 51) as i64);
            }
        });
    }
    // What the figures below owe to the clock that they are taken on.
    let clock = Instantaneous::default();
    measure("that clock: reading, sleeping, reading, spinning", || {
        let deadline = clock.now() + Duration::from_millis(1);
        clock.sleep_until(deadline.plus_nanos(-20_000));
        black_box(clock.now());
        black_box(clock.spin_until(deadline));
    });
    let mut sleeper = Sleeper::options().clock(Instantaneous::default()).build();
    measure("Sleeper::sleep, 1 ms, without the waiting", || {
        black_box(sleeper.sleep(Duration::from_millis(1)));
    });
    let past = sleeper.now() - Duration::from_secs(1);
    measure("Sleeper::sleep_until, deadline in the past", || {
        black_box(sleeper.sleep_until(past));
    });
    let rates = [("period of 1 ms", Rate::per_second(1_000)), ("period of 1/44100 s", Rate::per_second(44_100))];
    for (name, rate) in rates {
        let Ok(rate) = rate else { continue };
        let ticker = Ticker::options()
            .rate(rate)
            .missed_tick_behavior(MissedTickBehavior::Burst)
            .clock(Instantaneous::default())
            .build();
        let Ok(mut ticker) = ticker else { continue };
        measure(&format!("Ticker::tick, {name}, without the waiting"), || {
            black_box(ticker.tick());
        });
        let mut pacer = Pacer::options(rate).clock(Instantaneous::default()).build();
        measure(&format!("Pacer::next, {name}, without the waiting"), || {
            black_box(pacer.next());
        });
    }
    println!(
        "sizes: Sleeper {} B, Ticker {} B, Pacer {} B",
        size_of::<Sleeper>(),
        size_of::<Ticker>(),
        size_of::<Pacer>()
    );
}

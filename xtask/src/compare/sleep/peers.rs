//! Who is compared, each behind the same call.

use std::time::Duration;

use punctual::{Sleeper, SleeperOptions, Strategy};
use spin_sleep::{SpinSleeper, SpinStrategy};

use super::oracle::WakeUp;

/// A way to wait for a duration.
pub(super) trait Peer {
    /// Waits; tells how the wake-up went, where it knows.
    fn wait(&mut self, asked_ns: i64) -> Option<WakeUp>;

    /// Puts back what it changed about the thread.
    fn rest(&mut self) {}
}

type Open = fn() -> anyhow::Result<Box<dyn Peer>>;

/// Everybody.
pub(super) const PEERS: [(&str, Open); 7] = [
    ("punctual hybrid", || Ok(Box::new(Own::open(Strategy::Hybrid)))),
    ("punctual compensated", || Ok(Box::new(Own::open(Strategy::Compensated)))),
    ("punctual native", || Ok(Box::new(Own::open(Strategy::Native)))),
    ("spin_sleep, yielding", || {
        Ok(Box::new(Spun(SpinSleeper::default().with_spin_strategy(SpinStrategy::YieldThread))))
    }),
    ("spin_sleep, spinning", || {
        Ok(Box::new(Spun(SpinSleeper::default().with_spin_strategy(SpinStrategy::SpinLoopHint))))
    }),
    ("std", || Ok(Box::new(Std))),
    ("tokio", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Box::new(Tokio(runtime)))
    }),
];

fn duration(asked_ns: i64) -> Duration {
    Duration::from_nanos(asked_ns.unsigned_abs())
}

struct Own {
    sleeper: Sleeper,
    hybrid: bool,
}

impl Own {
    fn open(strategy: Strategy) -> Self {
        Self { sleeper: SleeperOptions::new().strategy(strategy).open(), hybrid: strategy == Strategy::Hybrid }
    }
}

impl Peer for Own {
    fn wait(&mut self, asked_ns: i64) -> Option<WakeUp> {
        let margin_ns = i64::from(self.sleeper.learner().margin_ns(asked_ns));
        let wake = self.sleeper.sleep(duration(asked_ns));
        // Only a wait that slept has a wake-up. It ended when the spin began, or, without a spin, with the wait.
        (self.hybrid && !wake.slept.is_zero()).then(|| {
            let spun_ns = wake.spun.as_nanos() as i64;
            let after_deadline = wake.lateness().as_nanos() as i64 - spun_ns;
            WakeUp { latency_ns: after_deadline + margin_ns, spun_ns }
        })
    }

    fn rest(&mut self) {
        self.sleeper.rest();
    }
}

struct Spun(SpinSleeper);

impl Peer for Spun {
    fn wait(&mut self, asked_ns: i64) -> Option<WakeUp> {
        self.0.sleep(duration(asked_ns));
        None
    }
}

struct Std;

impl Peer for Std {
    fn wait(&mut self, asked_ns: i64) -> Option<WakeUp> {
        std::thread::sleep(duration(asked_ns));
        None
    }
}

struct Tokio(tokio::runtime::Runtime);

impl Peer for Tokio {
    fn wait(&mut self, asked_ns: i64) -> Option<WakeUp> {
        self.0.block_on(async { tokio::time::sleep(duration(asked_ns)).await });
        None
    }
}

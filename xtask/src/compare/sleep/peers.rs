//! The peers, behind one trait.

use std::time::Duration;

use punctual::{Sleeper, SleeperOptions, Strategy};
use spin_sleep::{SpinSleeper, SpinStrategy};

use super::oracle::WakeUp;

/// What a peer reports of its wait.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Said {
    /// Lateness by its own last clock reading.
    pub(super) lateness_ns: Option<i64>,
    pub(super) wake_up: Option<WakeUp>,
}

/// A way to wait for a duration.
pub(super) trait Peer {
    /// Waits, and reports on the wait if it can.
    fn wait(&mut self, asked_ns: i64) -> Said;

    /// Restores its changes to the thread.
    fn restore_timer_slack(&mut self) {}
}

type Open = fn() -> anyhow::Result<Box<dyn Peer>>;

/// All peers.
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
        Self { sleeper: SleeperOptions::new().strategy(strategy).build(), hybrid: strategy == Strategy::Hybrid }
    }
}

impl Peer for Own {
    fn wait(&mut self, asked_ns: i64) -> Said {
        let margin_ns = i64::from(self.sleeper.learner().margin_ns(asked_ns));
        let wake = self.sleeper.sleep(duration(asked_ns));
        // Only a wait that slept has a wake-up. It is at the start of the spin or, without one, at the wait's end.
        let lateness_ns = wake.lateness().as_nanos() as i64;
        let wake_up = (self.hybrid && !wake.slept.is_zero()).then(|| {
            let spun_ns = wake.spun.as_nanos() as i64;
            WakeUp { latency_ns: lateness_ns - spun_ns + margin_ns, spun_ns }
        });
        Said { lateness_ns: Some(lateness_ns), wake_up }
    }

    fn restore_timer_slack(&mut self) {
        self.sleeper.restore_timer_slack();
    }
}

struct Spun(SpinSleeper);

impl Peer for Spun {
    fn wait(&mut self, asked_ns: i64) -> Said {
        self.0.sleep(duration(asked_ns));
        Said::default()
    }
}

struct Std;

impl Peer for Std {
    fn wait(&mut self, asked_ns: i64) -> Said {
        std::thread::sleep(duration(asked_ns));
        Said::default()
    }
}

struct Tokio(tokio::runtime::Runtime);

impl Peer for Tokio {
    fn wait(&mut self, asked_ns: i64) -> Said {
        self.0.block_on(async { tokio::time::sleep(duration(asked_ns)).await });
        Said::default()
    }
}

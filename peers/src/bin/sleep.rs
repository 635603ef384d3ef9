//! Waits of the library's sleeper, of spin_sleep, std and tokio, which take turns: sleep.py runs it, and judges what it prints.
//!
//!     cargo run --release --bin sleep -- ROUNDS
//!
//! In each round every peer waits for every duration. A line of JSON per turn, printed at the end: the round, the peer, the asked
//! duration, the lateness of each wait by a clock reading before and after it, and by the peer's own last reading, the wake-ups of
//! the hybrid (latency and spin), CPU time and duration, all in ns.
#![forbid(unsafe_code)]

use std::time::Duration;

use punctual::{Sleeper, SleeperOptions, Strategy};
use punctual_linux::clock::{Clock, now_ns};
use spin_sleep::{SpinSleeper, SpinStrategy};

/// What is asked for, in ns.
const ASKED_NS: [i64; 4] = [20_000, 100_000, 1_000_000, 10_000_000];
/// Length of a turn: some hundred waits of up to a millisecond, enough for a 99th percentile. It has twenty of the longest waits.
const TURN_NS: i64 = 40_000_000;
const LONG_TURN_NS: i64 = 200_000_000;
/// Pause between turns. A busy real-time thread leaves its CPU for at least a tenth of the time (RT throttling takes 5 %).
const BREAK: Duration = Duration::from_millis(8);
/// Waits for learning before the first turn.
const WARM_UP: u32 = 50;

/// What a peer knows about its wait.
#[derive(Default)]
struct Known {
    lateness_ns: Option<i64>,
    /// Latency of the wake-up, and the spin after it.
    wake_up: Option<[i64; 2]>,
}

enum Peer {
    Own { sleeper: Sleeper, hybrid: bool },
    Spin(SpinSleeper),
    Std,
    Tokio(tokio::runtime::Runtime),
}

impl Peer {
    fn own(strategy: Strategy) -> Self {
        Self::Own { sleeper: SleeperOptions::new().strategy(strategy).build(), hybrid: strategy == Strategy::Hybrid }
    }

    fn all() -> [(&'static str, Self); 7] {
        let spin = |strategy| Self::Spin(SpinSleeper::default().with_spin_strategy(strategy));
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        [
            ("punctual hybrid", Self::own(Strategy::Hybrid)),
            ("punctual compensated", Self::own(Strategy::Compensated)),
            ("punctual native", Self::own(Strategy::Native)),
            ("spin_sleep, yielding", spin(SpinStrategy::YieldThread)),
            ("spin_sleep, spinning", spin(SpinStrategy::SpinLoopHint)),
            ("std", Self::Std),
            ("tokio", Self::Tokio(tokio)),
        ]
    }

    fn wait(&mut self, asked_ns: i64) -> Known {
        let asked = Duration::from_nanos(asked_ns.unsigned_abs());
        match self {
            Self::Own { sleeper, hybrid } => {
                let margin_ns = i64::from(sleeper.learner().margin_ns(asked_ns));
                let wake = sleeper.sleep(asked);
                // Only a wait that slept has a wake-up. It is at the start of the spin or, without one, at the wait's end.
                let (lateness_ns, spun_ns) = (wake.lateness().as_nanos() as i64, wake.spun.as_nanos() as i64);
                let slept = *hybrid && !wake.slept.is_zero();
                let wake_up = slept.then(|| [lateness_ns - spun_ns + margin_ns, spun_ns]);
                return Known { lateness_ns: Some(lateness_ns), wake_up };
            }
            Self::Spin(sleeper) => sleeper.sleep(asked),
            Self::Std => std::thread::sleep(asked),
            Self::Tokio(runtime) => runtime.block_on(async { tokio::time::sleep(asked).await }),
        }
        Known::default()
    }

    /// The next peer waits with the thread's own timer slack.
    fn restore_timer_slack(&mut self) {
        if let Self::Own { sleeper, .. } = self {
            sleeper.restore_timer_slack();
        }
    }
}

#[derive(Default)]
struct Turn {
    lateness_ns: Vec<i64>,
    by_itself_ns: Vec<i64>,
    wake_ups: Vec<[i64; 2]>,
    cpu_ns: i64,
    elapsed_ns: i64,
}

fn take_turn(peer: &mut Peer, asked_ns: i64) -> Turn {
    let waits = (if asked_ns >= 1_000_000 { LONG_TURN_NS } else { TURN_NS } / asked_ns).max(1) as usize;
    // Nothing is allocated between waits.
    let mut turn = Turn {
        lateness_ns: Vec::with_capacity(waits),
        by_itself_ns: Vec::with_capacity(waits),
        wake_ups: Vec::with_capacity(waits),
        ..Turn::default()
    };
    // The first wait after a break has cold caches: it is not counted.
    peer.wait(asked_ns);
    let (begin, cpu) = (now_ns(Clock::Monotonic), now_ns(Clock::ThreadCpu));
    for _ in 0..waits {
        let from = now_ns(Clock::Monotonic);
        let known = peer.wait(asked_ns);
        turn.lateness_ns.push(now_ns(Clock::Monotonic) - from - asked_ns);
        turn.by_itself_ns.extend(known.lateness_ns);
        turn.wake_ups.extend(known.wake_up);
    }
    turn.cpu_ns = now_ns(Clock::ThreadCpu) - cpu;
    turn.elapsed_ns = now_ns(Clock::Monotonic) - begin;
    peer.restore_timer_slack();
    turn
}

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(30, |rounds| rounds.parse().expect("a number of rounds"));
    // One peer per duration, so that it learns only that duration.
    let mut peers = ASKED_NS.map(|asked_ns| (asked_ns, Peer::all()));
    for (asked_ns, those) in &mut peers {
        for (_, peer) in those {
            let waits = if *asked_ns > 1_000_000 { WARM_UP / 5 } else { WARM_UP };
            for _ in 0..waits {
                peer.wait(*asked_ns);
            }
            peer.restore_timer_slack();
            std::thread::sleep(BREAK / 4);
        }
    }
    let mut turns = Vec::new();
    for round in 0..rounds {
        for (asked_ns, those) in &mut peers {
            // Each round begins with another peer, so that none always follows the same one.
            for step in 0..those.len() {
                let place = (step + round) % those.len();
                let (name, peer) = &mut those[place];
                turns.push((round, *name, *asked_ns, take_turn(peer, *asked_ns)));
                std::thread::sleep(BREAK);
            }
        }
    }
    for (round, peer, asked_ns, Turn { lateness_ns, by_itself_ns, wake_ups, cpu_ns, elapsed_ns }) in turns {
        println!(
            r#"{{"round":{round},"peer":"{peer}","asked_ns":{asked_ns},"lateness_ns":{lateness_ns:?},"by_itself_ns":{by_itself_ns:?},"wake_ups":{wake_ups:?},"cpu_ns":{cpu_ns},"elapsed_ns":{elapsed_ns}}}"#
        );
    }
}

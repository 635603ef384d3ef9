//! The check-up: what `punctual` measures when nothing in particular is asked.
//!
//! It is a list of parts, each an ordinary plan of one family, made small enough that all of them together are quick. A
//! new family joins by adding a [`Part`].

use std::time::Duration;

use punctual::conditions::{Conditions, CpuSet, Policy};

use crate::Session;
use crate::schedule::Amount;
use crate::variant::Variant;
use crate::wait::{self, methods};

/// One part of the check-up.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its name, as the single command is called.
    pub name: &'static str,
    /// How long it takes.
    pub takes: Duration,
    run: fn(Duration, &mut Session<'_>) -> Result<(), Error>,
}

/// Why a part could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Waiting: its plan.
    #[error(transparent)]
    Plan(#[from] wait::PlanError),
    /// Waiting: the run.
    #[error(transparent)]
    Wait(#[from] wait::Error),
}

/// The parts, in the order of the story they tell.
pub const PARTS: &[Part] = &[
    Part { name: wait::EXPERIMENT, takes: Duration::from_secs(9), run: waiting },
    Part { name: ON_TIME, takes: Duration::from_millis(1_500), run: on_time },
];

/// Runs all parts. A request to stop ends the part under way and leaves out the rest.
pub fn run(session: &mut Session<'_>) -> Result<(), Error> {
    for part in PARTS {
        if session.stopped() {
            break;
        }
        (part.run)(part.takes, session)?;
    }
    Ok(())
}

/// The ways to wait that people use most, and one of each kind that does better.
const WAITING: &[&str] = &[
    "usleep",
    "nanosleep",
    "clock_nanosleep_abs",
    "poll",
    "epoll_pwait2",
    "timerfd",
    "pthread_cond_timedwait",
    "futex",
    "spin_clock",
    "spin_yield",
];

/// Priority of the real-time comparison: above the usual interrupt-free work, below the kernel's own threads (50).
pub const FIFO_PRIORITY: u8 = 40;

/// What could make a wake-up more punctual and can be tried and taken back: each alone, so that each one's own effect shows.
#[must_use]
pub fn remedies() -> Vec<Variant> {
    let as_found = Conditions::default;
    let mut remedies = vec![
        Conditions { timer_slack: Some(Duration::from_nanos(1)), ..as_found() },
        Conditions { policy: Some(Policy::Fifo(FIFO_PRIORITY)), ..as_found() },
        Conditions { lock_memory: true, ..as_found() },
        Conditions { dma_latency: Some(Duration::ZERO), ..as_found() },
    ];
    // The last CPU that the process may use: the first one serves most interrupts.
    let allowed = Conditions::inspect().cpus;
    let last = allowed.filter(|cpus| cpus.len() > 1).and_then(|cpus| cpus.iter().last());
    remedies.extend(last.map(|cpu| Conditions { cpus: Some(CpuSet::of([cpu])), ..as_found() }));
    remedies.into_iter().map(Variant::of).collect()
}

/// One method under each of the remedies.
#[must_use]
pub fn companions(method: &'static wait::method::Method) -> Vec<(&'static wait::method::Method, Variant)> {
    remedies().into_iter().map(|variant| (method, variant)).collect()
}

fn waiting(takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let methods: Vec<_> = WAITING.iter().filter_map(|name| methods::find(name)).collect();
    let companions = methods::find("clock_nanosleep_abs").map(companions).unwrap_or_default();
    let plan = wait::Plan::new(wait::Wanted {
        methods,
        durations: vec![Duration::from_micros(100), Duration::from_millis(1)],
        variants: vec![Variant::as_found()],
        companions,
        base: Conditions::default(),
        amount: Amount::Time(takes),
        rounds: 10,
        warmup: 1,
        require: false,
    })?;
    wait::run(plan, session)?;
    Ok(())
}

/// Name of the on-time part in the record.
pub const ON_TIME: &str = "on_time";

/// What the library's own sleeper achieves.
fn on_time(takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = wait::Plan::new(wait::Wanted {
        methods: methods::find("hybrid").into_iter().collect(),
        durations: vec![Duration::from_micros(100), Duration::from_millis(1)],
        variants: vec![Variant::as_found()],
        companions: Vec::new(),
        base: Conditions::default(),
        amount: Amount::Time(takes),
        rounds: 5,
        warmup: 1,
        require: false,
    })?;
    wait::run(plan.named(ON_TIME), session)?;
    Ok(())
}

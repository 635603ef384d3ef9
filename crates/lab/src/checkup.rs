//! The check-up: what `punctual` measures when nothing in particular is asked.
//!
//! It is a list of parts, each an ordinary plan of one family, made small enough that all of them together are quick. A
//! new family joins by adding a [`Part`].

use std::time::Duration;

use punctual::conditions::{Conditions, Policy};

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
pub const PARTS: &[Part] = &[Part { name: wait::EXPERIMENT, takes: Duration::from_secs(9), run: waiting }];

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
    "thread_sleep",
    "select",
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

/// What the figures of one method under other conditions show: what slack and scheduler cost here.
#[must_use]
pub fn companions(method: &'static wait::method::Method) -> Vec<(&'static wait::method::Method, Variant)> {
    let exact = Some(Duration::from_nanos(1));
    let fifo = Some(Policy::Fifo(FIFO_PRIORITY));
    vec![(method, Variant::new(None, exact)), (method, Variant::new(fifo, None))]
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

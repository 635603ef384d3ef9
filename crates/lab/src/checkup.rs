//! The check-up: what `punctual` measures when nothing in particular is asked.
//!
//! It is a list of parts, each an ordinary plan of one family, made small enough that all of them together are quick. A
//! new family joins by adding a [`Part`].

use std::path::Path;
use std::time::Duration;

use punctual::conditions::{Conditions, CpuSet, Policy};
use punctual_record::Notice;

use crate::Session;
use crate::governor::{self, ramp};
use crate::ipc;
use crate::schedule::Amount;
use crate::variant::Variant;
use crate::wait::{self, methods};
use crate::yielding;

/// How thorough a check-up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Some five seconds: the few methods that a verdict needs, with wide intervals.
    Quick,
    /// Less than half a minute.
    #[default]
    Usual,
    /// Some minutes: more methods, waits and sizes, and intervals narrow enough for small differences.
    Thorough,
}

impl Depth {
    /// One of three, by depth.
    const fn of<T: Copy>(self, quick: T, usual: T, thorough: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Usual => usual,
            Self::Thorough => thorough,
        }
    }
}

/// One part of the check-up.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its name, as the single command is called.
    pub name: &'static str,
    /// How long it takes: quick, as usual, thorough; in ms.
    takes_ms: [u64; 3],
    run: fn(Depth, Duration, &mut Session<'_>) -> Result<(), Error>,
}

impl Part {
    /// How long it takes.
    #[must_use]
    pub const fn takes(&self, depth: Depth) -> Duration {
        let [quick, usual, thorough] = self.takes_ms;
        Duration::from_millis(depth.of(quick, usual, thorough))
    }
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
    /// Yielding: its plan.
    #[error(transparent)]
    YieldPlan(#[from] yielding::PlanError),
    /// Yielding: the run.
    #[error(transparent)]
    Yield(#[from] yielding::Error),
    /// Messages: the plan.
    #[error(transparent)]
    IpcPlan(#[from] ipc::PlanError),
    /// Messages: the run.
    #[error(transparent)]
    Ipc(#[from] ipc::Error),
    /// The kernel does not tell which CPUs may be used.
    #[error(transparent)]
    Kernel(#[from] punctual_linux::Error),
    /// CPU frequency: its plan.
    #[error(transparent)]
    GovernorPlan(#[from] governor::PlanError),
    /// CPU frequency: the run.
    #[error(transparent)]
    Governor(#[from] governor::Error),
}

/// The parts, in the order of the story they tell.
pub const PARTS: &[Part] = &[
    Part { name: wait::EXPERIMENT, takes_ms: [1_600, 8_500, 90_000], run: waiting },
    Part { name: ON_TIME, takes_ms: [500, 2_000, 15_000], run: on_time },
    Part { name: yielding::EXPERIMENT, takes_ms: [700, 3_000, 20_000], run: giving_way },
    Part { name: ipc::EXPERIMENT, takes_ms: [800, 6_000, 60_000], run: messages },
    Part { name: ramp::EXPERIMENT, takes_ms: [600, 1_800, 12_000], run: speeding_up },
];

/// Runs all parts. A request to stop ends the part under way and leaves out the rest. A part that fails becomes a notice.
pub fn run(depth: Depth, session: &mut Session<'_>) {
    let takes: Duration = PARTS.iter().map(|part| part.takes(depth)).sum();
    // Nobody asked for a time: a slow machine, or a busy one, may take three times as long.
    session.grant(takes * 2);
    for part in PARTS {
        if session.stopped() {
            break;
        }
        if let Err(error) = (part.run)(depth, part.takes(depth), session) {
            let remedy = "see to what the error names, and run the check-up again".to_owned();
            session.notice(Notice::PartFailed { part: part.name.into(), why: error.to_string(), remedy });
        }
    }
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

/// The least that a quick check-up needs: what people write, what is best, and what spinning achieves.
const WAITING_QUICKLY: &[&str] = &["usleep", "clock_nanosleep_abs", "timerfd", "spin_clock"];

/// What a thorough check-up waits with besides.
const WAITING_THOROUGHLY: &[&str] =
    &["clock_nanosleep", "select", "ppoll", "epoll_wait", "timer_sigwaitinfo", "mq_timedreceive"];

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

/// Waits that programs ask for: within and beyond what a wake-up takes.
fn durations(depth: Depth) -> Vec<Duration> {
    let us: &[u64] = depth.of(&[100], &[100, 1_000], &[20, 100, 1_000, 10_000]);
    us.iter().map(|us| Duration::from_micros(*us)).collect()
}

fn waiting(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let more = depth.of(&[][..], &[], WAITING_THOROUGHLY);
    let names = depth.of(WAITING_QUICKLY, WAITING, WAITING).iter().chain(more);
    let methods: Vec<_> = names.filter_map(|name| methods::find(name)).collect();
    let companions = methods::find("clock_nanosleep_abs").map(companions).unwrap_or_default();
    let plan = wait::Plan::new(wait::Wanted {
        methods,
        durations: durations(depth),
        variants: vec![Variant::as_found()],
        companions,
        base: Conditions::default(),
        amount: Amount::Time(takes),
        rounds: depth.of(6, 10, 30),
        warmup: 1,
        require: false,
    })?;
    wait::run(plan, session)?;
    Ok(())
}

/// Name of the on-time part in the record.
pub const ON_TIME: &str = "on_time";

/// What the library's own sleeper achieves, in turns with the call that it takes the place of.
const SLEEPERS: &[&str] = &["clock_nanosleep_abs", "hybrid"];

fn on_time(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let plan = wait::Plan::new(wait::Wanted {
        methods: SLEEPERS.iter().filter_map(|name| methods::find(name)).collect(),
        durations: durations(depth),
        variants: vec![Variant::as_found()],
        companions: Vec::new(),
        base: Conditions::default(),
        amount: Amount::Time(takes),
        rounds: depth.of(5, 5, 20),
        warmup: 1,
        require: false,
    })?;
    wait::run(plan.named(ON_TIME), session)?;
    Ok(())
}

/// What people write to let others run: one of each kind.
const YIELDING: &[&str] = &["pause", "sched_yield", "usleep0", "nanosleep1", "poll0"];

/// The two that the verdict is about.
const YIELDING_QUICKLY: &[&str] = &["sched_yield", "usleep0"];

fn giving_way(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    // The waiting part runs on all CPUs: what is pinned to one is another set of conditions, under a name of its own.
    let cpu = Conditions { cpus: Some(CpuSet::of([yielding::plan::one_cpu(None)?])), ..Conditions::default() };
    let plan = yielding::Plan::new(yielding::Wanted {
        methods: depth
            .of(YIELDING_QUICKLY, YIELDING, YIELDING)
            .iter()
            .filter_map(|name| yielding::methods::find(name))
            .collect(),
        competitors: depth.of(&[0, 1][..], &[0, 1], &[0, 1, 3]).to_vec(),
        kinds: vec![crate::crowd::Kind::Process],
        against: vec![yielding::Against::AsFound],
        competitor_nice: None,
        variants: vec![Variant::of(cpu)],
        base: Conditions::default(),
        amount: Amount::Time(takes),
        rounds: depth.of(5, 5, 20),
        warmup: 1,
        require: false,
    })?;
    yielding::run(plan, session)?;
    Ok(())
}

/// The mechanisms that people choose among, and the library's own.
const MESSAGES: &[&str] = &["ring", "memfd-futex", "posix-mq", "pipe", "unix-stream", "tcp", "memfd-spin"];

/// One of each kind: the library's, a queue, a pipe, a socket.
const MESSAGES_QUICKLY: &[&str] = &["ring", "posix-mq", "pipe", "unix-stream"];

fn messages(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let cpus = punctual_linux::affinity::affinity(0)?;
    let plan = ipc::Plan::new(ipc::Wanted {
        mechanisms: depth
            .of(MESSAGES_QUICKLY, MESSAGES, MESSAGES)
            .iter()
            .filter_map(|name| ipc::mechanisms::find(name))
            .collect(),
        sizes: depth.of(&[64][..], &[64, 16 << 10], &[8, 64, 1 << 10, 16 << 10, 64 << 10]).to_vec(),
        modes: vec![ipc::Mode::PingPong],
        places: ipc::place::Places::Both,
        topology: ipc::topology::Topology::read(Path::new("/"), &cpus),
        cpus,
        receive: Vec::new(),
        variants: vec![Variant::as_found()],
        sender_policies: Vec::new(),
        receiver_policies: Vec::new(),
        base: Conditions::default(),
        amount: Amount::Time(takes),
        rounds: depth.of(5, 5, 15),
        warmup: 1,
        require: false,
        depth: None,
        verify: None,
        blocks: None,
    })?;
    for wrong in ipc::run(plan, session)? {
        session.notice(Notice::Other { text: wrong });
    }
    Ok(())
}

/// How fast the CPU gets from rest, as the machine is set, and where the governor can be changed for a while what `performance` would bring.
fn speeding_up(_: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    // As few as tell a difference from chance: six of six.
    const ROUNDS: u32 = 6;
    let work = Duration::from_micros(750);
    // Half of a turn is rest, long enough for every governor to have gone down.
    let turn = takes / ROUNDS;
    let loops = (turn / 2).as_nanos() / work.as_nanos();
    let plan = ramp::Plan::new(ramp::Wanted {
        governors: ramp::Governors::AgainstPerformance,
        loops: loops as u32,
        work,
        rounds: ROUNDS,
        rest: turn / 2,
        thread: governor::Thread::default(),
        thread_priority: None,
    })?;
    ramp::run(plan, session)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_on_its_shelf() {
        let waits = [WAITING, WAITING_QUICKLY, WAITING_THOROUGHLY, SLEEPERS];
        for name in waits.into_iter().flatten() {
            assert!(methods::find(name).is_some(), "{name}");
        }
        for name in [YIELDING, YIELDING_QUICKLY].into_iter().flatten() {
            assert!(yielding::methods::find(name).is_some(), "{name}");
        }
        for name in [MESSAGES, MESSAGES_QUICKLY].into_iter().flatten() {
            assert!(ipc::mechanisms::find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_deeper_the_longer() {
        for part in PARTS {
            let [quick, usual, thorough] = [Depth::Quick, Depth::Usual, Depth::Thorough].map(|depth| part.takes(depth));
            assert!(quick < usual && usual < thorough, "{}", part.name);
        }
    }
}

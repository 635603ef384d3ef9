//! The check-up: the measurements of `punctual` without a command.
//!
//! It is a list of parts. Each is an ordinary plan of one family, small enough that all parts together are quick. A
//! new family joins with another [`Part`].

use std::path::Path;
use std::time::Duration;

use punctual::{Conditions, Policy};
use punctual_record::experiment::yielding::CompetitorKind;
use punctual_record::{DisturbanceProbe, Notice, OwnUsage};
use punctual_trace::Room;

use crate::families::{ipc, ramp, wait, yielding};
use crate::frame::{Amount, Portion, Request, Session, Sight, Variant, one_cpu, sight};
use crate::speed::Thread;
use crate::ways::wait::Method;
use wait::methods;

/// How thorough a check-up is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// About five seconds: the few methods that a verdict needs, with wide intervals.
    Quick,
    /// Less than half a minute.
    #[default]
    Usual,
    /// Some minutes: more methods, waits and sizes, and intervals narrow enough for small differences.
    Thorough,
}

impl Depth {
    /// One of three values, by depth.
    const fn choose<T: Copy>(self, quick: T, usual: T, thorough: T) -> T {
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
    /// Its name: that of the single command.
    pub name: &'static str,
    /// Its duration: quick, usual, thorough; in ms.
    takes_ms: [u64; 3],
    run: fn(Depth, Duration, &mut Session<'_>) -> Result<(), Error>,
}

impl Part {
    /// How long it takes at this depth.
    #[must_use]
    pub const fn takes(&self, depth: Depth) -> Duration {
        let [quick, usual, thorough] = self.takes_ms;
        Duration::from_millis(depth.choose(quick, usual, thorough))
    }
}

/// Why a part could not be run: its plan, or the run.
type Error = Box<dyn std::error::Error>;

/// The parts, in the order of the report.
pub(crate) const PARTS: &[Part] = &[
    Part { name: wait::EXPERIMENT, takes_ms: [2_100, 10_500, 105_000], run: waiting },
    Part { name: "why", takes_ms: [150, 400, 3_000], run: explaining },
    Part { name: yielding::EXPERIMENT, takes_ms: [700, 3_000, 20_000], run: giving_way },
    Part { name: ipc::EXPERIMENT, takes_ms: [800, 6_000, 60_000], run: messages },
    Part { name: ramp::EXPERIMENT, takes_ms: [600, 1_800, 12_000], run: speeding_up },
];

/// Runs all parts. A request to stop ends the current part and skips the rest. A part that fails becomes a notice.
pub fn run(depth: Depth, session: &mut Session<'_>) {
    let takes: Duration = PARTS.iter().map(|part| part.takes(depth)).sum();
    // No duration was requested: a slow or busy machine may take three times as long.
    session.grant(takes * 2);
    for (part, portion) in PARTS.iter().zip(portions(depth)) {
        session.begin(portion);
        if session.stopped() {
            break;
        }
        if let Err(error) = (part.run)(depth, part.takes(depth), session) {
            let remedy = "see to what the error names, and run the check-up again".to_owned();
            session.notice(Notice::PartFailed { part: part.name.into(), why: error.to_string(), remedy });
        }
    }
}

/// The portion of the check-up that each part is.
fn portions(depth: Depth) -> Vec<Portion> {
    let sum = |parts: &[Part]| parts.iter().map(|part| part.takes(depth)).sum();
    (0..PARTS.len())
        .map(|at| Portion { before: sum(&PARTS[..at]), takes: PARTS[at].takes(depth), after: sum(&PARTS[at + 1..]) })
        .collect()
}

/// The most common ways to wait, and one of each kind that does better.
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
    "hybrid",
];

/// The minimum of a quick check-up: the common calls, the best one, and spinning.
const WAITING_QUICKLY: &[&str] = &["usleep", "clock_nanosleep_abs", "timerfd", "spin_clock", "hybrid"];

/// Further ways to wait in a thorough check-up.
const WAITING_THOROUGHLY: &[&str] =
    &["clock_nanosleep", "select", "ppoll", "epoll_wait", "timer_sigwaitinfo", "mq_timedreceive"];

/// Priority of the real-time comparison: above most real-time programs, below the kernel's interrupt threads (50).
pub const FIFO_PRIORITY: u8 = 40;

/// Conditions that may make a wake-up more punctual and can be restored. Each is tried alone, so that its own effect
/// shows.
#[must_use]
pub fn remedies() -> Vec<Variant> {
    let as_found = Conditions::new;
    let mut remedies = vec![
        as_found().timer_slack(Duration::from_nanos(1)),
        as_found().policy(Policy::Fifo(FIFO_PRIORITY)),
        as_found().lock_memory(),
        as_found().dma_latency(Duration::ZERO),
    ];
    // The last CPU that the process may use: the first one serves most interrupts.
    let allowed = Conditions::inspect().get_cpus();
    let last = allowed.filter(|cpus| cpus.len() > 1).and_then(|cpus| cpus.iter().last());
    remedies.extend(last.map(|cpu| as_found().cpu(cpu)));
    remedies.into_iter().map(Variant::new).collect()
}

/// The share of the CPUs that others use from which the check-up tries what helps beside them.
const BUSY: f64 = 0.15;
/// Ten ticks of `/proc/stat` on each CPU: enough to tell a busy machine from a quiet one.
const LOOK: Duration = Duration::from_millis(100);

/// Conditions that help beside other programs, where there are some now: a short time slice, and the greatest weight.
fn in_company() -> Vec<Variant> {
    let probe = DisturbanceProbe::start(Path::new("/"));
    std::thread::sleep(LOOK);
    if probe.finish(OwnUsage::default()).busy_share.is_none_or(|share| share < BUSY) {
        return Vec::new();
    }
    let as_found = Conditions::new;
    vec![Variant::new(as_found().slice(Duration::from_micros(100))), Variant::new(as_found().nice(-20))]
}

/// One method under each of these conditions.
#[must_use]
pub fn companions(method: &'static Method) -> Vec<(&'static Method, Variant)> {
    remedies().into_iter().map(|variant| (method, variant)).collect()
}

/// The subjects with these names.
fn found<T>(names: &[&str], find: fn(&str) -> Option<T>) -> Vec<T> {
    names.iter().filter_map(|name| find(name)).collect()
}

/// Typical waits: below and above the duration of a wake-up.
fn durations(depth: Depth) -> Vec<Duration> {
    let us: &[u64] = depth.choose(&[100], &[100, 1_000], &[20, 100, 1_000, 10_000]);
    us.iter().map(|us| Duration::from_micros(*us)).collect()
}

fn waiting(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let mut methods = found(depth.choose(WAITING_QUICKLY, WAITING, WAITING), methods::find);
    methods.extend(found(depth.choose(&[], &[], WAITING_THOROUGHLY), methods::find));
    let stands_for_others = methods::find("clock_nanosleep_abs");
    let mut companions = stands_for_others.map(companions).unwrap_or_default();
    let beside = if depth == Depth::Quick { Vec::new() } else { in_company() };
    companions.extend(
        stands_for_others.into_iter().flat_map(|method| beside.iter().map(move |program| (method, program.clone()))),
    );
    let plan = wait::Plan::new(wait::Request {
        methods,
        durations: durations(depth),
        companions,
        interrupt: None,
        frame: Request::as_found(Amount::Time(takes), depth.choose(6, 10, 30)),
    })?;
    wait::run(plan, session)?;
    Ok(())
}

/// Pairs of rounds: as few as show what watching adds.
const PAIRS: u32 = 6;

/// Why the sleep that stands for others ends late. While events are open, every system call is slower: the figures are of the part before.
/// Where a CPU hides its idle thread, the sleeps are on one that shows it.
fn explaining(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let mut frame = Request::as_found(Amount::Time(takes), PAIRS).for_causes();
    if let Some(Sight { cpu, .. }) = sight(Room::Small).filter(|sight| !sight.hidden.is_empty()) {
        frame.base = frame.base.cpu(cpu);
        session.notice(Notice::Other { text: format!("the causes of late wake-ups are those on CPU {cpu}") });
    }
    let plan = wait::Plan::new(wait::Request {
        methods: methods::find("clock_nanosleep_abs").into_iter().collect(),
        durations: durations(depth),
        companions: Vec::new(),
        interrupt: None,
        frame,
    })?;
    wait::causes(plan, session)?;
    Ok(())
}

/// The common ways to yield: one of each kind.
const YIELDING: &[&str] = &["pause", "sched_yield", "usleep0", "usleep1", "poll0"];

/// The two that the verdict compares.
const YIELDING_QUICKLY: &[&str] = &["sched_yield", "usleep0"];

fn giving_way(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    // The waiting part runs on all CPUs. This part is pinned to one: it is another condition set, under its own name.
    let cpu = Conditions::new().cpu(one_cpu(None)?);
    let plan = yielding::Plan::new(yielding::Request {
        methods: found(depth.choose(YIELDING_QUICKLY, YIELDING, YIELDING), yielding::methods::find),
        competitors: depth.choose(&[0, 1][..], &[0, 1], &[0, 1, 3]).to_vec(),
        kinds: vec![CompetitorKind::Process],
        competitor_policies: vec![yielding::CompetitorPolicy::AsFound],
        competitor_nice: None,
        frame: Request {
            variants: vec![Variant::new(cpu)],
            ..Request::as_found(Amount::Time(takes), depth.choose(5, 5, 20))
        },
    })?;
    yielding::run(plan, session)?;
    Ok(())
}

/// The common mechanisms, and the library's own.
const MESSAGES: &[&str] = &["ring", "memfd-futex", "posix-mq", "pipe", "unix-stream", "tcp", "memfd-spin"];

/// One of each kind: the library's ring, a queue, a pipe, a socket.
const MESSAGES_QUICKLY: &[&str] = &["ring", "posix-mq", "pipe", "unix-stream"];

fn messages(depth: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    let cpus = punctual_linux::sched::affinity(0)?;
    let plan = ipc::Plan::new(ipc::Request {
        mechanisms: found(depth.choose(MESSAGES_QUICKLY, MESSAGES, MESSAGES), ipc::mechanism_named),
        sizes: depth.choose(&[64][..], &[64, 16 << 10], &[8, 64, 1 << 10, 16 << 10, 64 << 10]).to_vec(),
        modes: vec![ipc::Mode::PingPong],
        places: ipc::Places::Both,
        topology: ipc::Topology::read(Path::new("/"), &cpus),
        cpus,
        receive: Vec::new(),
        sender_policies: Vec::new(),
        receiver_policies: Vec::new(),
        frame: Request::as_found(Amount::Time(takes), depth.choose(5, 5, 15)),
        depth: None,
        verify: None,
        blocks: None,
    })?;
    for wrong in ipc::run(plan, session)? {
        session.notice(Notice::Other { text: wrong });
    }
    Ok(())
}

/// The time from rest to full speed with the present governor, and with `performance` if the governor can be
/// changed.
fn speeding_up(_: Depth, takes: Duration, session: &mut Session<'_>) -> Result<(), Error> {
    // The smallest number that shows a difference: six of six.
    const ROUNDS: u32 = 6;
    let work = Duration::from_micros(750);
    // Half of a turn is rest, long enough for every governor to lower the frequency.
    let turn = takes / ROUNDS;
    let loops = (turn / 2).as_nanos() / work.as_nanos();
    let plan = ramp::Plan::new(ramp::Request {
        governors: ramp::Governors::AgainstPerformance,
        loops: loops as u32,
        work,
        rounds: ROUNDS,
        rest: turn / 2,
        thread: Thread::default(),
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
        let waits = [WAITING, WAITING_QUICKLY, WAITING_THOROUGHLY];
        for name in waits.into_iter().flatten() {
            assert!(methods::find(name).is_some(), "{name}");
        }
        for name in [YIELDING, YIELDING_QUICKLY].into_iter().flatten() {
            assert!(yielding::methods::find(name).is_some(), "{name}");
        }
        for name in [MESSAGES, MESSAGES_QUICKLY].into_iter().flatten() {
            assert!(ipc::mechanism_named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn watching_gives_causes_or_the_reason_and_no_figures() {
        punctual_testing::undisturbed(|longer| {
            let mut silent = crate::frame::Silent;
            let mut session = Session::open(vec!["test".into()], "checkup", crate::frame::Stop::default(), &mut silent);
            explaining(Depth::Usual, Duration::from_millis(100) * longer, &mut session).unwrap();
            let run = session.close();
            assert!(run.series.is_empty(), "{run:?}");
            let refused = run.notices.iter().any(|notice| matches!(notice, Notice::Unseen(_)));
            let Some(causes) = &run.causes else {
                assert!(refused, "{:?}", run.notices);
                return Ok(());
            };
            assert!(!refused && causes.program.is_none(), "{causes:?}");
            let nominal = |ns| causes.calls.iter().any(|call| call.nominal_ns == Some(ns));
            let all = run.not_measured.is_empty() && nominal(100_000) && nominal(1_000_000);
            // Its time may be over before each wait had its turn.
            if all { Ok(()) } else { Err(punctual_testing::Disturbed(format!("{run:?}"))) }
        });
    }

    #[test]
    fn the_deeper_the_longer() {
        for part in PARTS {
            let [quick, usual, thorough] = [Depth::Quick, Depth::Usual, Depth::Thorough].map(|depth| part.takes(depth));
            assert!(quick < usual && usual < thorough, "{}", part.name);
        }
    }

    #[test]
    fn each_part_begins_where_the_one_before_it_ends() {
        let all = portions(Depth::Usual);
        assert_eq!(all.len(), PARTS.len());
        assert_eq!((all[0].before, all[PARTS.len() - 1].after), (Duration::ZERO, Duration::ZERO));
        for pair in all.windows(2) {
            assert_eq!(pair[0].before + pair[0].takes, pair[1].before);
            assert_eq!(pair[0].after, pair[1].takes + pair[1].after);
        }
    }
}

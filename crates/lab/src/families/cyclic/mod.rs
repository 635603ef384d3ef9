//! `cyclic`: threads that wake up at regular intervals and record how late each wake-up was.
//!
//! A [`Plan`] says on which CPUs, how often, for how long, under which conditions, beside which load. Refused: an interval shorter than
//! 10 us, a CPU that this process may not use, and SCHED_DEADLINE, which allows no affinity.
//!
//! [`run`] applies the conditions and starts the load and a thread on each CPU. The record has a series for each CPU, in ten rounds, or by the
//! hour from five hours on. What was measured before a signal or a failure is in it.

mod crew;
mod gauge;
mod load;
mod record;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use punctual::conditions::{Applied, Condition, Conditions, Guard, Lost, Refused, Scope};
use punctual::{CpuSet, Policy};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sched;
use punctual_record::experiment::cyclic::Parameters;
use punctual_record::{Causes, Experiment, Notice, PauseCause, Recorder, Run, Series, Unseen, Usage};

use crate::frame::breaks::{Break, Look, Stretch};
use crate::frame::{
    Error, Input, NotKept, Place, PlanError, Progress, Session, Shared, Stage, Tracer, Unavailable, condition_set,
};
use load::Loads;
use record::{COMPARED, Stretches};
use turn::Rest;

pub use crew::{Crew, Member, NotStarted, Orders, Start};
pub use gauge::{Bell, Gauge, KEPT, Keep, Spike, Spikes, TraceMark, highest};
pub use load::Load;
pub use record::{Aside, Lookout};
pub use turn::{Limits, Unit, Waiting};

/// Shortest interval: less is what a wake-up itself takes.
const SHORTEST: Duration = Duration::from_micros(10);
/// The real-time priorities that are tried, from the best. 99 belongs to the kernel's own threads.
const PRIORITIES: [u8; 3] = [95, 40, 1];

/// The request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Conditions of each thread, and of the process and the machine. Their CPUs are the measured ones.
    pub conditions: Conditions,
    /// A refused condition is an error.
    pub require: bool,
    /// From one wake-up to the next.
    pub interval: Duration,
    /// How long.
    pub duration: Duration,
    /// The length of a round; without it, the run has ten, or from five hours on one for each hour. A run in rounds of a given length is
    /// watched all the time.
    pub round: Option<Duration>,
    /// What the machine does meanwhile.
    pub loads: Vec<Load>,
    /// Whether each late wake-up is cut into causes.
    pub causes: bool,
    /// Of wake-ups later than this, the events go to the trace, and of no other.
    pub spikes_above: Option<Duration>,
}

/// A validated request.
#[derive(Debug, Clone)]
pub struct Plan {
    asked: Request,
    cpus: CpuSet,
    /// Of each thread, beside its CPU.
    of_threads: Conditions,
    of_all: Conditions,
    interval_ns: i64,
    spikes_above_ns: Option<i64>,
    /// What a real-time thread takes of its CPU at most; the machine says.
    share: Option<f64>,
}

impl Plan {
    /// Validates a request.
    ///
    /// # Errors
    /// The part of the request that is wrong.
    pub fn new(asked: Request) -> Result<Self, PlanError> {
        Input::Interval.check((SHORTEST..=asked.duration).contains(&asked.interval), || {
            "must be at least 10us, and at most the duration of the run (example: 1ms)".to_owned()
        })?;
        Input::Policy.check(!matches!(asked.conditions.get_policy(), Some(Policy::Deadline { .. })), || {
            "a thread under SCHED_DEADLINE cannot be bound to its CPU; use fifo:PRIO (example: fifo:95)".to_owned()
        })?;
        let wrong = |why: String| PlanError::new(Input::Cpu, why);
        let cpus = match asked.conditions.get_cpus() {
            // Where some are isolated (isolcpus), a thread is granted more than a process begins with. Where no thread can be made,
            // the first that measures says so.
            Some(cpus) => match refused(Conditions::new().cpus(&cpus)).unwrap_or_default().first() {
                Some(refused) => return Err(wrong(refused.why.clone())),
                None => cpus,
            },
            None => sched::affinity(0).map(CpuSet::from_iter).map_err(|error| wrong(error.to_string()))?,
        };
        let conditions = asked.conditions.clone().without(Condition::CPU);
        Ok(Self {
            cpus,
            of_threads: conditions.clone().only(&[Scope::Thread]),
            of_all: conditions.only(&[Scope::Process, Scope::Machine]),
            interval_ns: i64::try_from(asked.interval.as_nanos()).unwrap_or(i64::MAX),
            spikes_above_ns: asked.spikes_above.and_then(|above| i64::try_from(above.as_nanos()).ok()),
            share: None,
            asked,
        })
    }

    /// Whether its threads can monopolise a CPU.
    fn is_real_time(&self) -> bool {
        self.of_threads.get_policy().is_some_and(|policy| policy.is_real_time())
    }

    /// The loads as text.
    fn load(&self) -> Option<String> {
        let names: Vec<String> = self.asked.loads.iter().map(Load::to_string).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// What the kernel refuses a thread that asks for these conditions. The thread ends at once, and they with it. `None`: none can be made.
fn refused(asked: Conditions) -> Option<Vec<Refused>> {
    let refused = move || asked.allow_irreversible().apply().refused;
    std::thread::Builder::new().spawn(refused).ok()?.join().ok()
}

/// The highest priority under SCHED_FIFO of a few that this user may have; `None`: none of them.
#[must_use]
pub fn highest_priority() -> Option<Policy> {
    let is_granted = |policy: &Policy| refused(Conditions::new().policy(*policy)).is_some_and(|all| all.is_empty());
    PRIORITIES.map(Policy::Fifo).into_iter().find(is_granted)
}

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::CYCLIC;
/// Rounds of a run.
const ROUNDS: u32 = 10;
/// The rounds of a run that has at least [`ENOUGH`] of them.
const HOUR: Duration = Duration::from_secs(3600);
/// Rounds that can be compared.
const ENOUGH: u32 = 5;
/// From one look at the figures to the next.
const LOOK: Duration = Duration::from_millis(250);
/// Time for the conditions, the load, the kernel's events and the end, on a busy machine too.
const AROUND: Duration = Duration::from_secs(20);
/// A shorter run is watched all the time: what watching adds is not found out.
const LONG: Duration = Duration::from_secs(4);
/// Spikes that are remembered.
const SPIKES: usize = 1024;

/// What the threads saw.
#[derive(Debug, Default)]
struct Seen {
    stretches: Vec<Stretches>,
    usage: Vec<Option<Usage>>,
    refused: Vec<Refused>,
    lost: Vec<Lost>,
    left: Vec<Notice>,
    pauses: Pauses,
    causes: Option<Causes>,
    unseen: Vec<Unseen>,
    /// Why the load was not all the time as asked.
    without_load: Option<Unavailable>,
}

/// Runs the plan and enters its series in the session.
///
/// # Errors
/// If no thread could be started, a required condition was refused, a load failed, or the events of a trace are refused.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let share = plan.is_real_time().then(|| Rest::share(&session.host().rt));
    let plan = Arc::new(Plan { share, ..plan });
    let place = Place { cpus: Vec::new(), real_time: plan.is_real_time() };
    let asked = plan.of_threads.clone().over(&plan.of_all);
    let (performed, begin_ns) = (Arc::clone(&plan), now_ns(Clock::Monotonic));
    let started_ns = session.time_of(begin_ns);
    let tracer = session.take_tracer();
    let shown = Shown::default();
    let so_far = shown.clone();
    let perform = move |stage: &Stage| perform(&performed, stage, (begin_ns, started_ns), (tracer, so_far));
    let as_asked = condition_set(&asked, &asked, &[]);
    let enter = |run: &mut Run| {
        let seen = shown.open();
        run.series.extend(series(&plan, &seen.0, &as_asked.label));
        run.causes.clone_from(&seen.1);
        run.conditions.push(as_asked.clone());
        run.complete = false;
    };
    let seen = session.perform_shown(place, &enter, perform)?;
    let seen = seen.transpose()?.unwrap_or_default();
    let held = seen.refused.iter().fold(asked.clone(), |held, refused| held.without(refused.condition));
    let set = condition_set(&asked, &held, &seen.refused);
    let label = set.label.clone();
    for refusal in &set.refused {
        session.notice(Notice::ConditionRefused { conditions: label.clone(), refusal: refusal.clone() });
    }
    let lost: Vec<NotKept> = seen.lost.iter().map(|lost| NotKept::new(&label, lost)).collect();
    let refused = set.refused.first().cloned().map(Error::Refused);
    let unmet = refused.or_else(|| lost.first().cloned().map(Error::Lost)).filter(|_| plan.asked.require);
    session.add_conditions(set);
    tell(lost, seen.pauses, session);
    seen.left.into_iter().for_each(|notice| session.notice(notice));
    let used = seen.usage.iter().flatten().copied().reduce(Usage::plus);
    used.into_iter().for_each(|used| session.add_usage(used));
    series(&plan, &seen.stretches, &label).into_iter().for_each(|series| session.add_series(series));
    seen.causes.into_iter().for_each(|causes| session.set_causes(causes));
    seen.unseen.into_iter().for_each(|unseen| session.notice(Notice::Unseen(unseen)));
    let Some(error) = unmet.or(seen.without_load.map(Error::Unavailable)) else { return Ok(()) };
    session.incomplete();
    Err(error)
}

/// Enters what the threads had lost at their end, and what stood still meanwhile.
fn tell(lost: Vec<NotKept>, pauses: Pauses, session: &mut Session<'_>) {
    for NotKept { conditions, condition, set, found, .. } in lost {
        session.notice(Notice::ConditionNotKept { conditions, condition, set, found, left_out: 0 });
    }
    for (cause, gap_ns, at_ns) in pauses.found {
        let after_ns = session.time_of(at_ns);
        session.notice(Notice::Paused { cause, gap_ns, after_ns, times: 0 });
    }
}

/// When the program was stopped, or the machine suspended, while the threads cycled. What came late by that is among the figures: it is said.
#[derive(Debug, Default)]
struct Pauses {
    before: Option<Look>,
    /// What each thread had counted in each bucket of its spread.
    counted: Vec<Vec<u64>>,
    /// How late every thread was before the last call.
    late_before_ns: u64,
    /// Of each cause: how long altogether, and when it was first noticed.
    found: Vec<(PauseCause, u64, i64)>,
}

/// The shortest stop that is reported. A busy machine delays threads under SCHED_OTHER by as much as a shorter one does.
const SHORTEST_STOP_NS: u64 = 20_000_000;

impl Pauses {
    /// How late every thread was at least once since the last call. A stop delays all that had a wake-up due in it.
    fn all_late_ns(&mut self, gauges: &[Arc<Gauge>]) -> u64 {
        let now: Vec<Vec<u64>> = gauges.iter().map(|gauge| gauge.spread()).collect();
        let before = std::mem::replace(&mut self.counted, now);
        let most = |(thread, counts): (usize, &Vec<u64>)| {
            let known = |bucket: usize| before.get(thread).and_then(|counts| counts.get(bucket)).copied().unwrap_or(0);
            let bucket = counts.iter().enumerate().rposition(|(bucket, count)| *count > known(bucket));
            bucket.map_or(0, |bucket| highest(bucket).max(0).unsigned_abs())
        };
        self.counted.iter().enumerate().map(most).min().unwrap_or(0)
    }

    /// The last call was to be this long ago.
    fn look(&mut self, expected: Duration, gauges: &[Arc<Gauge>]) {
        let expected_ns = expected.as_nanos() as u64;
        let took_ns = self.before.map_or(0, |before| now_ns(Clock::Monotonic) - before.at_ns);
        let now = Look::after(took_ns.saturating_sub_unsigned(expected_ns), Look::now);
        let stretch = Stretch { expected_ns, largest_ns: 0, guest_cpus: None };
        let late_ns = self.all_late_ns(gauges);
        // The signal may be noticed one look after the wake-ups.
        let all_late_ns = late_ns.max(std::mem::replace(&mut self.late_before_ns, late_ns));
        let broken = self.before.replace(now).and_then(|before| stretch.broken(&before, &now));
        let (cause, gap_ns) = match broken {
            // SIGCONT also comes to a program that was not stopped.
            Some(Break::Paused { cause: PauseCause::Stopped, .. }) if all_late_ns < SHORTEST_STOP_NS => return,
            Some(Break::Paused { cause: PauseCause::Stopped, .. }) => (PauseCause::Stopped, all_late_ns),
            Some(Break::Paused { cause, gap_ns }) => (cause, gap_ns),
            _ => return,
        };
        match self.found.iter_mut().find(|(known, ..)| *known == cause) {
            Some((_, all_ns, _)) => *all_ns = all_ns.saturating_add(gap_ns),
            None => self.found.push((cause, gap_ns, now.at_ns)),
        }
    }
}

/// The rounds and the causes so far, for who shows or keeps them.
type Shown = Shared<(Vec<Stretches>, Option<Causes>)>;

/// Shows a copy with what was counted since the last round.
fn show(shown: &Shown, stretches: &[Stretches], at: (u32, u64), causes: Option<Causes>) {
    let mut copy = stretches.to_vec();
    let mut recorder = Recorder::new();
    copy.iter_mut().for_each(|one| one.enter(at, &mut recorder, Usage::default()));
    let mut shown = shown.open();
    shown.0 = copy;
    shown.1 = causes.or(shown.1.take());
}

/// The series of each CPU.
fn series(plan: &Plan, stretches: &[Stretches], label: &str) -> Vec<Series> {
    let parameters = Parameters { interval_ns: plan.interval_ns, load: plan.load() };
    let series = |(cpu, one): (usize, &Stretches)| one.series(format!("cpu{cpu}"), parameters.clone(), label);
    plan.cpus.iter().zip(stretches).filter_map(series).collect()
}

fn perform(
    plan: &Plan,
    stage: &Stage,
    times: (i64, u64),
    (tracer, shown): (Option<Box<dyn Tracer>>, Shown),
) -> Result<Seen, Error> {
    stage.announce(plan.asked.duration + AROUND);
    // This thread reads the events, and may be what a wake-up waits for.
    let _ = rustix::thread::set_name(c"punctual/reader");
    let Applied { guard, refused } = plan.of_all.clone().allow_irreversible().apply();
    let mut seen = Seen { refused, ..Seen::default() };
    let notes = guard.notes().iter().map(|text| Notice::Other { text: text.clone() });
    seen.left.extend(notes);
    let restored = |guard: Guard| guard.restore().iter().map(crate::frame::ledger::not_restored).collect::<Vec<_>>();
    if plan.asked.require && !seen.refused.is_empty() {
        seen.left.extend(restored(guard));
        return Ok(seen);
    }
    let mut loads = Loads::start(&plan.asked.loads, plan.cpus.len())?;
    let mut lookout =
        if plan.asked.causes { Lookout::open(tracer, plan.spikes_above_ns.is_some())? } else { Lookout::default() };
    let mut crew = Crew::start(orders(plan)).map_err(|error| Unavailable::because(error.to_string()))?;
    for refused in crew.refused().iter().flatten() {
        if !seen.refused.iter().any(|known| known.condition == refused.condition) {
            seen.refused.push(refused.clone());
        }
    }
    if plan.asked.require && !seen.refused.is_empty() {
        drop((crew, loads));
        seen.left.extend(restored(guard));
        return Ok(seen);
    }
    seen.stretches = crew.gauges().iter().map(|gauge| Stretches::new(gauge, Unit::Nanoseconds)).collect();
    lookout.begin(&crew);
    seen.pauses.look(Duration::ZERO, crew.gauges());
    if plan.asked.duration >= LONG && plan.asked.round.is_none() {
        lookout.compare(&crew);
        seen.pauses.look(COMPARED, crew.gauges());
    }
    watch(plan, stage, &mut seen, times, (&mut crew, &mut lookout, &mut loads, &shown));
    seen.lost = crew.lost().to_vec();
    (seen.causes, seen.unseen) = lookout.end(crew.bell().spikes());
    drop(loads);
    seen.left.extend(restored(guard));
    Ok(seen)
}

/// What the threads are to do: all start together, and end when they are told to.
fn orders(plan: &Plan) -> Orders {
    let member = |cpu: usize| Member {
        conditions: plan.of_threads.clone().over(&Conditions::new().cpu(cpu)),
        interval_ns: plan.interval_ns,
        smis_of: None,
    };
    Orders {
        members: plan.cpus.iter().map(member).collect(),
        clock: Clock::Monotonic,
        waiting: Waiting::Deadline,
        start: Start::Together(0),
        limits: Limits {
            unit: Unit::Nanoseconds,
            cycles: None,
            lasts_ns: i64::try_from(plan.asked.duration.as_nanos()).ok(),
            break_above: None,
            share: plan.share,
        },
        keep: Keep { spread: true, ..Keep::default() },
        bell: Bell::with(plan.spikes_above_ns.map(|above| Spikes::new(above, SPIKES)), None),
    }
}

/// The length of the rounds of a run of which so much is left.
fn round_of(asked: &Request, left: Duration) -> Duration {
    let by_number = if asked.duration >= HOUR * ENOUGH { HOUR } else { left / ROUNDS };
    asked.round.unwrap_or(by_number)
}

/// Enters rounds and shows progress until the threads end, by themselves or on request, or a load ends.
fn watch(
    plan: &Plan,
    stage: &Stage,
    seen: &mut Seen,
    (begin_ns, started_ns): (i64, u64),
    (crew, lookout, loads, shown): (&mut Crew, &mut Lookout, &mut Loads, &Shown),
) {
    let Seen { stretches, pauses, .. } = seen;
    let mut recorder = Recorder::new();
    let elapsed = || Duration::from_nanos((now_ns(Clock::Monotonic) - begin_ns).unsigned_abs());
    let each = round_of(&plan.asked, plan.asked.duration.saturating_sub(elapsed()));
    // A whole number of looks to a round.
    let look = each / u32::try_from(each.as_nanos().div_ceil(LOOK.as_nanos())).unwrap_or(u32::MAX).max(1);
    let (mut round, mut since) = (0, Duration::ZERO);
    while !crew.bell().rung() {
        lookout.look(look, crew.bell().spikes());
        pauses.look(look, crew.gauges());
        let now = elapsed();
        if now - since >= each && now + each / 2 < plan.asked.duration {
            let at = (round, started_ns + since.as_nanos() as u64);
            stretches.iter_mut().for_each(|one| one.enter(at, &mut recorder, Usage::default()));
            (round, since) = (round + 1, now);
        }
        show(shown, stretches, (round, started_ns + since.as_nanos() as u64), lookout.so_far());
        seen.without_load = loads.failed();
        let is_over = linux::stop::requested() || seen.without_load.is_some();
        if is_over || !stage.pause(progress(plan, stretches, now)) {
            break;
        }
    }
    seen.usage = crew.end();
    let at = (round, started_ns + since.as_nanos() as u64);
    for (one, used) in stretches.iter_mut().zip(seen.usage.iter()) {
        one.enter(at, &mut recorder, used.unwrap_or_default());
    }
}

/// The figures so far: the CPU with the worst wake-up.
fn progress(plan: &Plan, stretches: &[Stretches], now: Duration) -> Progress {
    let us = |ns: i64| format!("{:.1} us", ns as f64 / 1000.0);
    let max = |(cpu, one): (usize, &Stretches)| Some((one.gauge().extremes()?.1, cpu));
    let worst = plan.cpus.iter().zip(stretches).filter_map(max).max();
    let missed: u64 = stretches.iter().map(|one| one.gauge().missed()).sum();
    let cycles: u64 = stretches.iter().map(|one| one.gauge().cycles()).sum();
    let detail = worst.map(|(ns, cpu)| format!("{cycles} wake-ups, {missed} missed, worst {} on CPU {cpu}", us(ns)));
    Progress {
        doing: format!("{} threads", plan.cpus.len()),
        detail,
        done: (now.as_secs_f64() / plan.asked.duration.as_secs_f64()).min(1.0),
        left: plan.asked.duration.saturating_sub(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let (interval, duration) = (Duration::from_millis(1), Duration::from_secs(1));
        Request {
            conditions: Conditions::new(),
            require: false,
            interval,
            duration,
            round: None,
            loads: Vec::new(),
            causes: true,
            spikes_above: None,
        }
    }

    #[test]
    fn every_cpu_that_is_allowed_is_measured() {
        let plan = Plan::new(Request { conditions: Conditions::new().nice(5).lock_memory(), ..request() }).unwrap();
        assert_eq!(plan.cpus.len(), sched::affinity(0).unwrap().len());
        assert_eq!((plan.of_threads.get_nice(), plan.of_threads.get_lock_memory()), (Some(5), None));
        assert_eq!((plan.of_all.get_nice(), plan.of_all.get_lock_memory()), (None, Some(true)));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let refused = |request: Request| Plan::new(request).unwrap_err().input;
        assert_eq!(refused(Request { interval: Duration::from_micros(9), ..request() }), Input::Interval);
        assert_eq!(refused(Request { interval: Duration::from_secs(2), ..request() }), Input::Interval);
        assert_eq!(refused(Request { conditions: Conditions::new().cpu(8000), ..request() }), Input::Cpu);
    }

    #[test]
    fn a_stop_is_as_long_as_every_thread_was_late() {
        let keep = Keep { spread: true, ..Keep::default() };
        let gauges = [(); 2].map(|()| Arc::new(Gauge::new(keep, false)));
        let mut pauses = Pauses::default();
        let mut late_ms = |ms: [i64; 2]| {
            for (gauge, ms) in gauges.iter().zip(ms) {
                gauge.record(ms, ms * 1_000_000, 0);
            }
            pauses.all_late_ns(&gauges) / 1_000_000
        };
        assert_eq!([late_ms([5, 7]), late_ms([90, 1]), late_ms([52, 51])], [5, 1, 51]);
        assert_eq!(pauses.all_late_ns(&gauges), 0, "nobody woke up since");
    }

    #[test]
    fn a_run_has_ten_rounds_or_one_for_each_hour() {
        let round = |hours: u64, round| {
            let duration = Duration::from_secs(hours * 3600);
            round_of(&Request { duration, round, ..request() }, duration)
        };
        let minute = Duration::from_secs(60);
        assert_eq!([round(1, None), round(8, None), round(8, Some(minute))], [6 * minute, 60 * minute, minute]);
    }

    /// A thread with fewer CPUs than its cpuset has, as where others are isolated: the kernel grants those too.
    #[test]
    fn cpus_beyond_those_that_a_thread_begins_with_are_measured_if_asked_for() {
        let all = CpuSet::from_iter(sched::affinity(0).unwrap());
        let of_one = std::thread::spawn(|| {
            sched::set_affinity(0, &sched::affinity(0).unwrap()[..1]).unwrap();
            let plan = |conditions| Plan::new(Request { conditions, ..request() }).unwrap().cpus;
            let all = CpuSet::from_iter(sched::affinity(std::process::id() as i32).unwrap());
            (plan(Conditions::new()).len(), plan(Conditions::new().cpus(&all)))
        });
        assert_eq!(of_one.join().unwrap(), (1, all));
    }
}

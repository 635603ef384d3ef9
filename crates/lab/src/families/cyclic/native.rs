//! A run of the native form: the conditions, the load, a thread on each CPU, and the record of what they saw.
//!
//! The record has a series for each CPU, in rounds of a tenth of the run, at most an hour each. What was measured before a signal or
//! a failure is in it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::conditions::{Applied, Conditions, Lost, Refused};
use punctual_linux as linux;
use punctual_linux::clock::{Clock, now_ns};
use punctual_record::experiment::cyclic::Parameters;
use punctual_record::{Causes, Experiment, Notice, PauseCause, Recorder, Run, Series, Unseen, Usage};

use super::bell::{Bell, Spikes};
use super::crew::{Crew, Member, Orders};
use super::gauge::Keep;
use super::load::Loads;
use super::lookout::{COMPARED, Lookout};
use super::plan::Plan;
use super::rest;
use super::start::Start;
use super::stretch::Stretches;
use super::turn::{Limits, Unit, Waiting};
use crate::frame::breaks::{Break, Look, NotKept, Stretch};
use crate::frame::stage::Stage;
use crate::frame::{Error, Place, Progress, Session, Tracer, Unavailable, condition_set};

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = Experiment::CYCLIC;
/// Rounds of a run.
const ROUNDS: u32 = 10;
/// Longest round.
const LONGEST_ROUND: Duration = Duration::from_secs(3600);
/// From one look at the figures to the next.
const LOOK: Duration = Duration::from_millis(250);
/// Time for the conditions, the load, the kernel's events and the end.
const AROUND: Duration = Duration::from_secs(4);
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
}

/// Runs the plan and enters its series in the session.
///
/// # Errors
/// If no thread could be started, or a required condition was refused.
pub fn run(plan: Plan, session: &mut Session<'_>) -> Result<(), Error> {
    let share = plan.is_real_time().then(|| rest::share(&session.host().rt));
    let plan = Arc::new(Plan { share, ..plan });
    let place = Place { cpus: Vec::new(), real_time: plan.is_real_time() };
    let asked = plan.of_threads.clone().over(&plan.of_all);
    let (performed, begin_ns) = (Arc::clone(&plan), now_ns(Clock::Monotonic));
    let started_ns = session.time_of(begin_ns);
    let tracer = session.take_tracer();
    let shown = Shown::default();
    let so_far = Shown(Arc::clone(&shown.0));
    let perform = move |stage: &Stage| perform(&performed, stage, (begin_ns, started_ns), (tracer, so_far));
    let as_asked = condition_set(&asked, &asked, &[]);
    let enter = |run: &mut Run| {
        let seen = shown.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    let unmet = refused.or_else(|| lost.first().cloned().map(Error::Lost)).filter(|_| plan.require);
    session.add_conditions(set);
    tell(lost, seen.pauses, session);
    seen.left.into_iter().for_each(|notice| session.notice(notice));
    let used = seen.usage.iter().flatten().copied().reduce(Usage::plus);
    used.into_iter().for_each(|used| session.add_usage(used));
    series(&plan, &seen.stretches, &label).into_iter().for_each(|series| session.add_series(series));
    seen.causes.into_iter().for_each(|causes| session.set_causes(causes));
    seen.unseen.into_iter().for_each(|unseen| session.notice(Notice::Unseen(unseen)));
    unmet.map_or(Ok(()), Err)
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
    /// Of each cause: how long altogether, and when it was first noticed.
    found: Vec<(PauseCause, u64, i64)>,
}

impl Pauses {
    /// The last call was to be this long ago.
    fn look(&mut self, expected: Duration) {
        let expected_ns = expected.as_nanos() as u64;
        let took_ns = self.before.map_or(0, |before| now_ns(Clock::Monotonic) - before.at_ns);
        let now = Look::after(took_ns.saturating_sub_unsigned(expected_ns), Look::now);
        let stretch = Stretch { expected_ns, largest_ns: 0, guest_cpus: None };
        let broken = self.before.replace(now).and_then(|before| stretch.broken(&before, &now));
        let Some(Break::Paused { cause, gap_ns }) = broken else { return };
        match self.found.iter_mut().find(|(known, ..)| *known == cause) {
            Some((_, all_ns, _)) => *all_ns = all_ns.saturating_add(gap_ns),
            None => self.found.push((cause, gap_ns, now.at_ns)),
        }
    }
}

/// The rounds and the causes so far, for who shows or keeps them.
#[derive(Debug, Default)]
struct Shown(Arc<Mutex<(Vec<Stretches>, Option<Causes>)>>);

impl Shown {
    /// Takes a copy with what was counted since the last round.
    fn update(&self, stretches: &[Stretches], at: (u32, u64), causes: Option<Causes>) {
        let mut copy = stretches.to_vec();
        let mut recorder = Recorder::new();
        copy.iter_mut().for_each(|one| one.enter(at, &mut recorder, Usage::default()));
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.0 = copy;
        shown.1 = causes.or(shown.1.take());
    }
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
    stage.announce(plan.duration + AROUND);
    let Applied { guard, refused } = plan.of_all.clone().allow_irreversible().apply();
    let mut seen = Seen { refused, ..Seen::default() };
    let notes = guard.notes().iter().map(|text| Notice::Other { text: text.clone() });
    seen.left.extend(notes);
    let loads = Loads::start(&plan.loads, plan.cpus.len())?;
    let mut lookout =
        if plan.causes { Lookout::open(tracer, plan.spikes_above_ns.is_some()) } else { Lookout::closed() };
    let mut crew = Crew::start(orders(plan)).map_err(|error| Unavailable::because(error.to_string()))?;
    for refused in crew.refused().iter().flatten() {
        if !seen.refused.iter().any(|known| known.condition == refused.condition) {
            seen.refused.push(refused.clone());
        }
    }
    seen.stretches = crew.gauges().iter().map(|gauge| Stretches::new(gauge, Unit::Nanoseconds)).collect();
    lookout.begin(&crew);
    seen.pauses.look(Duration::ZERO);
    if plan.duration >= LONG && plan.round.is_none() {
        lookout.compare(&crew);
        seen.pauses.look(COMPARED);
    }
    let Seen { stretches, pauses, .. } = &mut seen;
    seen.usage = watch(plan, stage, (stretches, pauses), times, (&mut crew, &mut lookout, &shown));
    seen.lost = crew.lost().to_vec();
    (seen.causes, seen.unseen) = lookout.end(crew.bell().spikes());
    drop(loads);
    seen.left.extend(guard.restore().iter().map(crate::frame::settings::not_restored));
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
            lasts_ns: i64::try_from(plan.duration.as_nanos()).ok(),
            break_above: None,
            share: plan.share,
        },
        keep: Keep { spread: true, ..Keep::default() },
        bell: Bell::with(plan.spikes_above_ns.map(|above| Spikes::new(above, SPIKES)), None),
    }
}

/// Enters rounds and shows progress until the threads end, by themselves or on request.
fn watch(
    plan: &Plan,
    stage: &Stage,
    (stretches, pauses): (&mut [Stretches], &mut Pauses),
    (begin_ns, started_ns): (i64, u64),
    (crew, lookout, shown): (&mut Crew, &mut Lookout, &Shown),
) -> Vec<Option<Usage>> {
    let mut recorder = Recorder::new();
    let each = plan.round.unwrap_or_else(|| (plan.duration / ROUNDS).min(LONGEST_ROUND));
    let elapsed = || Duration::from_nanos((now_ns(Clock::Monotonic) - begin_ns).unsigned_abs());
    let (mut round, mut since) = (0, Duration::ZERO);
    while !crew.bell().rung() {
        lookout.look(LOOK.min(each), crew.bell().spikes());
        pauses.look(LOOK.min(each));
        let now = elapsed();
        if now - since >= each && now + each / 2 < plan.duration {
            let at = (round, started_ns + since.as_nanos() as u64);
            stretches.iter_mut().for_each(|one| one.enter(at, &mut recorder, Usage::default()));
            (round, since) = (round + 1, now);
        }
        shown.update(stretches, (round, started_ns + since.as_nanos() as u64), lookout.so_far());
        if linux::stop::requested() || !stage.pause(progress(plan, stretches, now)) {
            break;
        }
    }
    let usage = crew.end();
    let at = (round, started_ns + since.as_nanos() as u64);
    for (one, used) in stretches.iter_mut().zip(usage.iter()) {
        one.enter(at, &mut recorder, used.unwrap_or_default());
    }
    usage
}

/// The figures so far: the CPU whose latest wake-up was the latest.
fn progress(plan: &Plan, stretches: &[Stretches], now: Duration) -> Progress {
    let us = |ns: i64| format!("{:.1} us", ns as f64 / 1000.0);
    let latest = |(cpu, one): (usize, &Stretches)| Some((one.gauge().extremes()?.1, cpu));
    let worst = plan.cpus.iter().zip(stretches).filter_map(latest).max();
    let missed: u64 = stretches.iter().map(|one| one.gauge().missed()).sum();
    let cycles: u64 = stretches.iter().map(|one| one.gauge().cycles()).sum();
    let detail = worst.map(|(ns, cpu)| format!("{cycles} wake-ups, {missed} missed, latest {} on CPU {cpu}", us(ns)));
    Progress {
        doing: format!("{} threads", plan.cpus.len()),
        detail,
        done: (now.as_secs_f64() / plan.duration.as_secs_f64()).min(1.0),
        left: plan.duration.saturating_sub(now),
    }
}

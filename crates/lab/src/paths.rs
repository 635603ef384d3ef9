//! The ways of calls through the kernel: what one wait or one yield does there.
//!
//! The input is a list of [`Subject`]s. The [`Session`] receives the path of each, or the reason for a missing one. Recording
//! takes time itself: these are no figures of how long a call takes.

use std::time::Duration;

use punctual::CpuSet;
use punctual_linux::clock::{Clock, now_ns};
use punctual_linux::sched;
use punctual_record::{CallPath, NotMeasured, Notice, Unseen};
use punctual_trace::PathRecorder;

use crate::families::{wait, yielding};
use crate::frame::error::without;
use crate::frame::places::Place;
use crate::frame::{Error, Progress, Session, Stage, Unavailable};
use crate::ways;

/// Name of this experiment in the record.
pub const EXPERIMENT: &str = "path";

/// Longest wait of a path: it is made two dozen times.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Longest recording of one way.
const LONGEST: Duration = Duration::from_secs(60);

/// A wait or a yield.
#[derive(Debug, Clone, Copy)]
pub enum Subject {
    /// A way to wait.
    Wait(&'static ways::wait::Method),
    /// A way to yield.
    Yield(&'static ways::YieldMethod),
}

impl Subject {
    /// All ways to yield, then all ways to wait.
    pub fn all() -> impl Iterator<Item = Self> {
        yielding::methods::ALL.iter().map(Self::Yield).chain(wait::methods::all().map(Self::Wait))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Wait(method) => method.name,
            Self::Yield(method) => method.name,
        }
    }

    fn record(&self, asked_ns: i64, recorder: &mut PathRecorder) -> Result<CallPath, Unavailable> {
        let found = match self {
            Self::Wait(method) => {
                let mut waiter = (method.open)()?;
                let mut failed = None;
                let mut wait = || failed = waiter.wait(now_ns(Clock::Monotonic), asked_ns).err();
                // The first call of a method differs: it touches its memory.
                wait();
                let names = (method.name, method.call);
                let found = recorder.record(names, method.system_calls, &mut wait);
                if let Some(error) = failed {
                    return Err(Unavailable::because(format!("{}: {error}", method.call)));
                }
                found
            }
            Self::Yield(method) => {
                let mut yielder = (method.open)()?;
                yielder.repeat(1);
                recorder.record((method.name, method.call), method.system_calls, &mut || yielder.repeat(1))
            }
        };
        found
            .map_err(|error| without("not recorded", &error))?
            .ok_or_else(|| Unavailable::because("it made no system call, or none without an interrupt"))
    }
}

/// The record of each way, and the reason for a missing graph of functions.
type Recorded = (Vec<(Subject, Result<CallPath, Unavailable>)>, Option<Unseen>);

/// Records the path of each, on these CPUs or anywhere; a wait is of this length.
///
/// # Errors
/// If the kernel lets nothing be recorded.
pub fn run(
    subjects: Vec<Subject>,
    asked: Duration,
    cpus: Option<&CpuSet>,
    session: &mut Session<'_>,
) -> Result<(), Error> {
    let asked_ns = i64::try_from(asked.as_nanos()).unwrap_or(i64::MAX);
    let place = Place::on(cpus, false);
    let pinned = place.cpus.clone();
    let performed = session.perform(place, move |stage| {
        if !pinned.is_empty() {
            sched::set_affinity(0, &pinned).map_err(|e| Error::Unavailable(Unavailable::because(e.to_string())))?;
        }
        perform(&subjects, asked_ns, stage)
    })?;
    let Some((recorded, no_graph)) = performed.transpose()? else { return Ok(()) };
    for (subject, result) in recorded {
        match result {
            Ok(path) => session.add_path(path),
            Err(Unavailable { why, remedy }) => session.add_not_measured(NotMeasured {
                experiment: EXPERIMENT.to_owned(),
                subject: subject.name().to_owned(),
                conditions: None,
                parameters: std::collections::BTreeMap::new(),
                why,
                remedy,
            }),
        }
    }
    no_graph.into_iter().for_each(|unseen| session.notice(Notice::Unseen(unseen)));
    Ok(())
}

/// Runs on the stage.
fn perform(subjects: &[Subject], asked_ns: i64, stage: &Stage) -> Result<Recorded, Error> {
    stage.announce(LONGEST);
    let open = PathRecorder::open();
    let mut recorder = open.map_err(|error| Unavailable::from(without("paths of calls", &error)))?;
    let mut recorded = Vec::new();
    for (at, subject) in subjects.iter().enumerate() {
        stage.announce(LONGEST);
        let done = at as f64 / subjects.len() as f64;
        let doing = format!("path of {}", subject.name());
        if !stage.pause(Progress { doing, detail: None, done, left: Duration::ZERO }) {
            break;
        }
        recorded.push((*subject, subject.record(asked_ns, &mut recorder)));
    }
    let no_graph = recorder.without().map(|error| without("functions of the kernel", error));
    // Closing takes time as well.
    stage.announce(LONGEST);
    drop(recorder);
    Ok((recorded, no_graph))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Silent, Stop};

    #[test]
    fn a_yield_has_a_path_or_a_reason_and_spinning_has_none() {
        let named = |name: &str| Subject::all().find(|subject| subject.name() == name).unwrap();
        let mut silent = Silent;
        let mut session = Session::open(vec!["test".into()], "why", Stop::default(), &mut silent);
        let subjects = vec![named("sched_yield"), named("clock_nanosleep"), named("spin_clock")];
        if let Err(error) = run(subjects, Duration::from_micros(100), None, &mut session) {
            assert!(matches!(error, Error::Unavailable(_)), "{error}");
            return punctual_testing::lacks(punctual_testing::Lack::Events);
        }
        let run = session.close();
        let found: Vec<&str> = run.paths.iter().map(|path| path.method.as_str()).collect();
        assert_eq!(found, ["sched_yield", "clock_nanosleep"], "{:?}", run.not_measured);
        assert!(run.paths.iter().all(|path| path.recorded > 0 && !path.steps.is_empty()));
        assert!(run.paths[1].took_ns >= 100_000, "{:?}", run.paths[1]);
        assert_eq!((run.not_measured.len(), run.not_measured[0].subject.as_str()), (1, "spin_clock"));
    }
}

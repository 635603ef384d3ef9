//! On which causes a remedy acts, and what these took of each wake-up before the trials.
//!
//! A remedy takes off what its causes take, and no more. A larger gain has another source, such as a machine that changed meanwhile.

use punctual_record::remedy::acts_on;
use punctual_record::{CallCauses, Cause, CauseSource, Run, Trial};

use crate::format::spoken;

/// Fewest wake-ups that say what a cause takes.
const WAKE_UPS: u64 = 50;
/// A gain is larger only by more than this share and this time: the causes were measured at another time.
const SHARE: f64 = 0.1;
const NS: f64 = 1_000.0;

/// The causes that a remedy acts on; `None`: it may change anything.
fn acts(id: &str) -> Option<&'static [Cause]> {
    Some(acts_on(id)).filter(|causes| !causes.is_empty())
}

/// These causes in words.
fn called(causes: &[Cause]) -> &'static str {
    let has = |cause: Cause| causes.contains(&cause);
    match (has(Cause::TimerSlack), has(Cause::OtherThread), has(Cause::IdleState)) {
        (true, true, _) => "timer slack and other threads",
        (true, ..) => "timer slack",
        (_, true, _) => "other threads",
        (.., true) => "idle states",
        _ => "its causes",
    }
}

/// What these causes took of a wake-up on average, in the call of which they took most. `None`: it is unknown.
fn took(run: &Run, on: &[Cause]) -> Option<f64> {
    let causes = run.causes.as_ref().filter(|causes| causes.source == CauseSource::Tracepoints)?;
    let calls = causes.calls.iter().filter(|call| call.late.count >= WAKE_UPS);
    let each = |call: &CallCauses| {
        let times = call.causes.iter().filter(|one| on.contains(&one.cause)).map(|one| one.time.total_ns as f64);
        times.sum::<f64>() / call.late.count as f64
    };
    calls.map(each).max_by(f64::total_cmp)
}

/// Whether both act on one cause that explains at least half of this gain.
pub(super) fn share_a_cause(run: &Run, one: &Trial, other: &Trial, gain_ns: i64) -> bool {
    let (Some(one), Some(other)) = (acts(&one.id), acts(&other.id)) else { return false };
    let both: Vec<Cause> = one.iter().copied().filter(|cause| other.contains(cause)).collect();
    took(run, &both).is_some_and(|ns| ns >= gain_ns as f64 / 2.0)
}

/// Says that the gain is larger than what the remedy can take off, where it is.
pub(super) fn doubt(run: &Run, trial: &Trial, gain_ns: i64) -> Option<String> {
    let acts = acts(&trial.id)?;
    let took = took(run, acts)?;
    let larger = gain_ns as f64 > took + NS.max(SHARE * took);
    let ns = spoken::duration(took);
    let called = called(acts);
    larger.then(|| format!("That is more than {called} took of a wake-up before the trials: {ns}."))
}

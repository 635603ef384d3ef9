//! The remedy for slow messages that a run can judge: another mechanism than a pipe, for each place.

use punctual_record::experiment::ipc::{Mode, Placement};
use punctual_record::{Experiment, Run, Series};

use crate::evidence::rounds::{Pair, test};
use crate::evidence::{Effect, Figure, Outcome};
use crate::family::shared::measured;
use crate::format::{grouped, sanitize};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

use crate::family::ipc::traffic::{Message, bytes, place};
use crate::family::ipc::traffic::{contests, sleeps};

/// The mechanism that programs use most.
const USUAL: &str = "pipe";
/// A gain smaller than this, in ns, or than this part of the time, is no reason for another mechanism.
const WORTH_NS: i64 = 2_000;
const WORTH_PART: i64 = 10;

/// The same messages through a pipe and through another mechanism.
#[derive(Clone, Copy)]
struct Case<'a> {
    usual: Message<'a>,
    other: Message<'a>,
}

impl<'a> Case<'a> {
    fn pair(&self) -> Pair<'a> {
        Pair { before: self.usual.series, after: self.other.series, figure: Figure::P50 }
    }

    /// The median as a share of the pipe's.
    fn ratio(&self) -> f64 {
        match (self.usual.summary.p50, self.other.summary.p50) {
            (Some(usual), Some(other)) if usual > 0 => (other.max(1)) as f64 / usual as f64,
            _ => 1.0,
        }
    }
}

/// The quickest mechanism of each place whose receiver sleeps, if it is quicker than a pipe by enough. Also those that
/// show no difference from it. All mechanisms are tested, so that the quickest is not one by chance.
pub(super) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let series = measured(series, Experiment::ipc);
    let cases = cases(&series);
    let effects = test(run, &cases.iter().map(Case::pair).collect::<Vec<_>>());
    let tested: Vec<(Case<'a>, Effect)> = cases.into_iter().zip(effects).collect();
    let refs: Vec<&(Case<'a>, Effect)> = tested.iter().collect();
    let by_place = grouped(&refs, |(case, _)| case.other.parameters.place);
    by_place.into_iter().flat_map(|(place, cases)| of_place(run, place, &cases)).collect()
}

/// Round trips under the first conditions, for each size and place.
fn cases<'a>(series: &[Message<'a>]) -> Vec<Case<'a>> {
    let Some(first) = series.first() else { return Vec::new() };
    let as_found: Vec<Message<'a>> =
        series.iter().copied().filter(|its| its.conditions == first.conditions && sleeps(its)).collect();
    let of = |contest: super::traffic::Contest<'a>| {
        let usual = contest.series.iter().copied().find(|its| its.subject == USUAL);
        let others = contest.series.into_iter().filter(|its| its.subject != USUAL);
        usual.map(|usual| others.map(move |other| Case { usual, other }).collect::<Vec<_>>()).unwrap_or_default()
    };
    let ping = contests(&as_found).into_iter().filter(|contest| contest.common.mode == Mode::PingPong);
    // Of several pairs of CPUs, each place has its first.
    let all: Vec<Case<'a>> = ping.flat_map(of).collect();
    let key =
        |case: &Case<'a>| (case.other.parameters.place, case.other.series.subject.as_str(), case.other.parameters.size);
    grouped(&all, key).into_iter().map(|(_, cases)| cases[0]).collect()
}

fn of_place<'a>(run: &'a Run, place: Placement, cases: &[&(Case<'a>, Effect)]) -> Vec<Candidate<'a>> {
    let mechanisms = grouped(cases, |(case, _)| case.other.series.subject.as_str());
    let worth = |(_, effect): &&(Case<'a>, Effect)| {
        let part = effect.before_ns.unwrap_or(0) / WORTH_PART;
        effect.better().is_some_and(|gain| gain.ns >= WORTH_NS.max(part))
    };
    let worse = |(_, effect): &&(Case<'a>, Effect)| effect.outcome == Outcome::Worse;
    let mean = |cases: &[&(Case<'a>, Effect)]| {
        cases.iter().map(|(case, _)| case.ratio().ln()).sum::<f64>() / cases.len().max(1) as f64
    };
    let mut good: Vec<(f64, Vec<Case<'a>>)> = mechanisms
        .iter()
        .filter(|(_, cases)| cases.iter().any(worth) && !cases.iter().any(worse))
        .map(|(_, cases)| (mean(cases), cases.iter().map(|(case, _)| *case).collect()))
        .collect();
    good.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some(((_, best), others)) = good.split_first() else { return Vec::new() };
    let equal = others.iter().map(|(_, cases)| cases).filter(|cases| equal(run, best, cases));
    std::iter::once(best).chain(equal).map(|cases| candidate(place, cases)).collect()
}

/// Whether no common size shows a difference at p50.
fn equal<'a>(run: &Run, best: &[Case<'a>], other: &[Case<'a>]) -> bool {
    let both = |case: &Case<'a>| {
        let same = other.iter().find(|its| its.other.parameters.size == case.other.parameters.size)?;
        Some(Pair { before: case.other.series, after: same.other.series, figure: Figure::P50 })
    };
    let pairs: Vec<Pair<'a>> = best.iter().filter_map(both).collect();
    !pairs.is_empty() && test(run, &pairs).iter().all(|effect| effect.outcome == Outcome::NoDifference)
}

fn candidate<'a>(on: Placement, cases: &[Case<'a>]) -> Candidate<'a> {
    let first = cases[0].other;
    let name = sanitize(&first.subject);
    let words = place(first.parameters);
    let about = &first.series.about;
    let trial = |case: &Case<'a>| Trial {
        case: i64::try_from(case.other.parameters.size).unwrap_or(i64::MAX),
        name: size,
        before: case.usual.series,
        after: case.other.series,
    };
    Candidate {
        id: format!("{name} {on}"),
        goal: Goal::PassMessages,
        cause: format!("pipe {on}"),
        what: format!("{name} on {words}"),
        instead_of: USUAL.to_owned(),
        trials: cases.iter().map(trial).collect(),
        price: Price { program: Some("another design".to_owned()), ..Price::default() },
        code: Code::of_series(about, about.call.as_deref().map(sanitize)),
    }
}

fn size(size: i64) -> String {
    bytes(size.unsigned_abs())
}

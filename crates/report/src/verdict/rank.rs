//! Tests all candidates of a run at once, groups equal remedies, and ranks them by gain for price.

use punctual_record::Run;

use crate::evidence::rounds::{Pair, test};
use crate::evidence::shares::{self, Baseline};
use crate::evidence::{Effect, Figure, Outcome, ShareEffect};

use super::advice::{Advice, Case, Goal, Standing, Variant};
use super::candidate::{Candidate, Trial};

/// What an advice removes, and the series that show it.
struct Shown<'a> {
    cause: String,
    trials: Vec<Trial<'a>>,
}

/// What the candidates of each experiment do: the advised ones first, the largest gain for its price first.
pub(crate) fn tested(run: &Run, candidates: Vec<(&str, Vec<Candidate<'_>>)>) -> Vec<Advice> {
    let candidates = gathered(candidates);
    let pairs: Vec<Pair<'_>> = candidates.iter().flat_map(|(_, its)| pairs(its)).collect();
    let trials = candidates.iter().flat_map(|(_, its)| &its.trials);
    let questions: Vec<_> = trials.map(|trial| (Baseline::Series(trial.before), trial.after)).collect();
    let mut effects = test(run, &pairs).into_iter();
    let mut others = shares::test(&questions).into_iter();
    let judged: Vec<(Advice, Shown<'_>)> =
        candidates.into_iter().map(|(experiment, its)| judge(experiment, its, &mut effects, &mut others)).collect();
    let mut advice =
        grouped(judged, |(head, one), (_, other)| one.cause == other.cause && are_equal(run, (head, one), other));
    rank(&mut advice);
    advice
}

/// The advised ones first, the largest gain for its price first.
pub(crate) fn rank(advice: &mut [Advice]) {
    advice.sort_by(|a, b| a.standing.cmp(&b.standing).then(a.goal.cmp(&b.goal)).then(score(b).total_cmp(&score(a))));
}

/// Candidates of one name and goal as one, in the order of their first case.
fn gathered<'a, 'e>(candidates: Vec<(&'e str, Vec<Candidate<'a>>)>) -> Vec<(&'e str, Candidate<'a>)> {
    let mut all: Vec<(&str, Candidate<'_>)> = Vec::new();
    for (experiment, candidates) in candidates {
        for candidate in candidates {
            let same = |(its, known): &&mut (&str, Candidate<'_>)| {
                *its == experiment && known.id == candidate.id && known.goal == candidate.goal
            };
            match all.iter_mut().find(same) {
                Some((_, known)) => known.trials.extend(candidate.trials),
                None => all.push((experiment, candidate)),
            }
        }
    }
    all
}

/// How long something takes, unless shares of the CPU are the goal.
fn pairs<'a>(its: &Candidate<'a>) -> Vec<Pair<'a>> {
    let of = |trial: &Trial<'a>| {
        let Trial { before, after, .. } = *trial;
        [Figure::P50, Figure::P99].map(|figure| Pair { before, after, figure })
    };
    if its.goal == Goal::LetOthersRun { Vec::new() } else { its.trials.iter().flat_map(of).collect() }
}

fn judge<'a>(
    experiment: &str,
    candidate: Candidate<'a>,
    effects: &mut impl Iterator<Item = Effect>,
    others: &mut impl Iterator<Item = ShareEffect>,
) -> (Advice, Shown<'a>) {
    let timed = candidate.goal != Goal::LetOthersRun;
    let mut next = || if timed { effects.next().unwrap_or_default() } else { Effect::default() };
    let case = |trial: &Trial<'_>| Case {
        case: (trial.name)(trial.case),
        p50: next(),
        p99: next(),
        cpu_share_before: trial.before.cpu_share.filter(|share| share.is_finite()),
        cpu_share_after: trial.after.cpu_share.filter(|share| share.is_finite()),
        cpu_ns_before: trial.before.cpu_ns_per_op.filter(|ns| ns.is_finite()),
        cpu_ns_after: trial.after.cpu_ns_per_op.filter(|ns| ns.is_finite()),
        others: others.next().filter(|effect| effect.before.is_some() && effect.after.is_some()),
    };
    let cases: Vec<Case> = candidate.trials.iter().map(case).collect();
    let Candidate { id, goal, cause, what, instead_of, trials, price, code } = candidate;
    let standing = standing(goal, &cases);
    let experiment = experiment.to_owned();
    let (doubt, equal) = (None, Vec::new());
    let advice = Advice { id, goal, experiment, what, instead_of, standing, cases, price, code, doubt, equal };
    (advice, Shown { cause, trials })
}

pub(crate) fn standing(goal: Goal, cases: &[Case]) -> Standing {
    let of = |case: &Case| match (goal, &case.others) {
        (Goal::LetOthersRun, others) => vec![others.as_ref().map_or(Outcome::NotTested, |effect| effect.outcome)],
        _ => vec![case.p50.outcome, case.p99.outcome],
    };
    let outcomes: Vec<Outcome> = cases.iter().flat_map(of).collect();
    let any = |outcome: Outcome| outcomes.contains(&outcome);
    match (any(Outcome::Better), any(Outcome::Worse)) {
        (true, true) => Standing::Mixed,
        (true, false) => Standing::Advised,
        (false, true) => Standing::Worse,
        _ if any(Outcome::NoDifference) => Standing::NoDifference,
        _ => Standing::NotTested,
    }
}

/// Advised remedies of one goal that are equal to the cheapest of them become its variants.
pub(crate) fn grouped<T>(
    mut judged: Vec<(Advice, T)>,
    equal: impl Fn(&(Advice, T), &(Advice, T)) -> bool,
) -> Vec<Advice> {
    let mut heads: Vec<(Advice, T)> = Vec::new();
    judged.sort_by(|(a, _), (b, _)| price(a).total_cmp(&price(b)));
    for its in judged {
        let alike = |head: &&mut (Advice, T)| {
            [&head.0, &its.0].iter().all(|advice| advice.standing == Standing::Advised)
                && head.0.goal == its.0.goal
                && equal(head, &its)
        };
        match heads.iter_mut().find(alike) {
            Some((head, _)) => {
                let Advice { what, price, code, .. } = its.0;
                head.equal.push(Variant { what, price, code });
            }
            None => heads.push(its),
        }
    }
    heads.into_iter().map(|(advice, _)| advice).collect()
}

/// Whether two remedies show no difference at p50 in any common case. A difference that is small beside what both gain
/// counts as none.
fn are_equal<'s>(run: &Run, (head, one): (&Advice, &'s Shown<'_>), other: &'s Shown<'_>) -> bool {
    if head.goal == Goal::LetOthersRun {
        return leave_equal_shares(head, one, other);
    }
    let both = |trial: &'s Trial<'_>| {
        let same = other.trials.iter().find(|its| its.case == trial.case)?;
        Some(Pair { before: trial.after, after: same.after, figure: Figure::P50 })
    };
    let pairs: Vec<Pair<'_>> = one.trials.iter().filter_map(both).collect();
    let gained = head.best().and_then(|case| case.p50.better()).map_or(0, |gain| gain.ns);
    let small = |effect: &Effect| match (effect.outcome, effect.gain) {
        (Outcome::Better | Outcome::Worse, Some(gain)) => gain.ns.abs() < gained / 5,
        _ => true,
    };
    !pairs.is_empty() && test(run, &pairs).iter().all(small)
}

/// The same for the shares of the CPU that others get.
fn leave_equal_shares(head: &Advice, one: &Shown<'_>, other: &Shown<'_>) -> bool {
    let same = |trial: &Trial<'_>| other.trials.iter().find(|its| its.case == trial.case).map(|its| its.after);
    let questions: Vec<_> =
        one.trials.iter().filter_map(|trial| Some((Baseline::Series(trial.after), same(trial)?))).collect();
    let gained = head.best().map_or(0.0, Case::share_gained);
    let small = |effect: &ShareEffect| !effect.is_shown() || effect.gain.is_some_and(|g| g.share.abs() < gained / 5.0);
    !questions.is_empty() && shares::test(&questions).iter().all(small)
}

/// Nanoseconds gained at p50 in the best case, less for what has a price. A hundredth of a CPU for others counts as 1 µs.
fn score(advice: &Advice) -> f64 {
    let Some(case) = advice.best() else { return 0.0 };
    if advice.goal == Goal::LetOthersRun {
        return 1e5 * case.share_gained() / price(advice);
    }
    let gain = case.p50.better().or_else(|| case.p99.better()).map_or(0, |gain| gain.ns);
    gain as f64 / price(advice)
}

/// 1: free. A tenth of a CPU, a privilege or another design counts as much as half of the gain.
fn price(advice: &Advice) -> f64 {
    let cpu = advice.best().and_then(Case::cpu_shares).map_or(0.0, |[before, after]| (after - before).max(0.0));
    let its = &advice.price;
    let points = [&its.privilege, &its.others, &its.program].into_iter().flatten().count() as f64;
    1.0 + 10.0 * cpu + 0.5 * points + if its.energy.is_some() { 1.0 } else { 0.0 }
}

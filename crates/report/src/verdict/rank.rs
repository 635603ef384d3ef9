//! Tests all candidates of a run at once, groups equal remedies, and ranks them by gain for price.
//!
//! No two advices of a run contradict each other: what one calls better than another is not called worse or equal by a second. The first of
//! two stands. A yield that lets others run is away for longer: what would be back sooner than an advised one is no second advice, but a part
//! of the first one's price. A difference that is shown takes precedence over an equality, which only says that none is.

use std::collections::BTreeSet;

use punctual_record::Run;

use super::Level;
use super::advice::{Advice, Candidate, Case, Equality, Goal, Standing, Trial, Variant};
use super::trust::{is_busy, of_advice};
use crate::evidence::rounds::{Pair, test};
use crate::evidence::shares::{self, Baseline};
use crate::evidence::{Effect, Figure, Gain, Outcome, ShareEffect};
use crate::format::spoken;

/// Scores of one order that differ by less than this factor are alike.
const ALIKE: f64 = 1.5;

/// What the candidates of each experiment do: the advised ones first, the largest gain for its price first.
pub(crate) fn tested(run: &Run, candidates: Vec<(&str, Vec<Candidate<'_>>)>) -> Vec<Advice> {
    let candidates = gathered(candidates);
    let pairs: Vec<Pair<'_>> = candidates.iter().flat_map(|(_, candidate)| pairs(candidate)).collect();
    let trials = candidates.iter().flat_map(|(_, candidate)| &candidate.trials);
    let questions: Vec<_> = trials.map(|trial| (Baseline::Series(trial.before), trial.after)).collect();
    let mut effects = test(run, &pairs).into_iter();
    let mut others = shares::test(&questions).into_iter();
    let judge = |(experiment, candidate)| (judge(experiment, &candidate, &mut effects, &mut others), candidate);
    let judged: Vec<(Advice, Candidate<'_>)> = candidates.into_iter().map(judge).collect();
    let mut advice = grouped(
        judged,
        |(head, one), (_, other)| {
            if one.cause == other.cause { are_equal(run, (head, one), other) } else { None }
        },
    );
    rank(run, &mut advice);
    advice
}

/// The advised ones first, the largest gain for its price first; none contradicts one before it.
pub(crate) fn rank(run: &Run, advice: &mut Vec<Advice>) {
    let busy = is_busy(run);
    order(advice, busy);
    reconcile(advice);
    order(advice, busy);
    for advice in advice {
        advice.trust = of_advice(advice);
        advice.in_company = busy && advice.standing == Standing::Advised && advice.gains_at_the_tail();
    }
}

/// Orders by standing and goal. What replaces another remedy follows that one, since it is no gain on what was found. On a busy machine, what
/// gains at the median and in the tail precedes what gains at one of them. Then the largest gain for its price is first, and of gains that are
/// much alike the one that costs least: chance decides which of these is larger, and the next run would say the reverse.
fn order(advice: &mut Vec<Advice>, busy: bool) {
    let advised: Vec<Advice> = advice.iter().filter(|one| one.standing == Standing::Advised).cloned().collect();
    let further = |one: &Advice| one.standing == Standing::Advised && one.is_further(&advised);
    let class = |one: &Advice| {
        let both = busy && one.gains_at_the_tail() && one.best().is_some_and(|case| case.p50.better().is_some());
        (one.standing, one.goal, further(one), !both)
    };
    let mut rest: Vec<Advice> = std::mem::take(advice);
    let names: Vec<String> = rest.iter().map(|one| one.id.clone()).collect();
    let proposed = |one: &Advice| names.iter().position(|name| *name == one.id);
    rest.sort_by(|a, b| class(a).cmp(&class(b)).then_with(|| score(b, busy).total_cmp(&score(a, busy))));
    while let Some(first) = rest.first() {
        let (class_of_first, least) = (class(first), score(first, busy) / ALIKE);
        let alike = rest.iter().take_while(|one| class(one) == class_of_first && score(one, busy) >= least);
        let cheapest = alike.enumerate().min_by_key(|(_, one)| (cost(one), proposed(one)));
        advice.push(rest.remove(cheapest.map_or(0, |(place, _)| place)));
    }
}

/// Candidates of one name and goal as one, in the order of their first case.
fn gathered<'a, 'e>(candidates: Vec<(&'e str, Vec<Candidate<'a>>)>) -> Vec<(&'e str, Candidate<'a>)> {
    let mut all: Vec<(&str, Candidate<'_>)> = Vec::new();
    for (experiment, candidates) in candidates {
        for candidate in candidates {
            let same = |(name, known): &&mut (&str, Candidate<'_>)| {
                *name == experiment && known.id == candidate.id && known.goal == candidate.goal
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
fn pairs<'a>(candidate: &Candidate<'a>) -> Vec<Pair<'a>> {
    let both_figures = |trial: &Trial<'a>| {
        let Trial { before, after, .. } = *trial;
        [Figure::P50, Figure::P99].map(|figure| Pair { before, after, figure })
    };
    if candidate.goal == Goal::LetOthersRun {
        Vec::new()
    } else {
        candidate.trials.iter().flat_map(both_figures).collect()
    }
}

fn judge(
    experiment: &str,
    candidate: &Candidate<'_>,
    effects: &mut impl Iterator<Item = Effect>,
    others: &mut impl Iterator<Item = ShareEffect>,
) -> Advice {
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
    let Candidate { id, goal, what, instead_of, price, code, .. } = candidate.clone();
    let mut advice = Advice {
        id,
        goal,
        experiment: experiment.to_owned(),
        what,
        instead_of,
        standing: standing(goal, &cases),
        trust: Level::Unknown,
        in_company: false,
        cases,
        price,
        code,
        doubt: None,
        equal: Vec::new(),
    };
    advice.doubt = advice.longer_tail();
    advice
}

pub(crate) fn standing(goal: Goal, cases: &[Case]) -> Standing {
    let outcomes_of = |case: &Case| match (goal, &case.others) {
        (Goal::LetOthersRun, others) => vec![others.as_ref().map_or(Outcome::NotTested, |effect| effect.outcome)],
        _ => vec![case.p50.outcome, case.p99.outcome],
    };
    let outcomes: Vec<Outcome> = cases.iter().flat_map(outcomes_of).collect();
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
    equality: impl Fn(&(Advice, T), &(Advice, T)) -> Option<Equality>,
) -> Vec<Advice> {
    let mut heads: Vec<(Advice, T)> = Vec::new();
    judged.sort_by_key(|(advice, _)| cost(advice));
    for next in judged {
        let alike = |(at, head): (usize, &(Advice, T))| {
            let advised = [&head.0, &next.0].iter().all(|advice| advice.standing == Standing::Advised);
            let equality = (advised && head.0.goal == next.0.goal).then(|| equality(head, &next));
            Some((at, equality??))
        };
        match heads.iter().enumerate().find_map(alike) {
            Some((at, equality)) => {
                let Advice { what, price, code, .. } = next.0;
                heads[at].0.equal.push(Variant { what, price, code, equality });
            }
            None => heads.push(next),
        }
    }
    heads.into_iter().map(|(advice, _)| advice).collect()
}

/// How far two remedies are equal in all common cases; `None` where one differs, or where that cannot be told.
fn are_equal<'s>(run: &Run, (head, one): (&Advice, &'s Candidate<'_>), other: &'s Candidate<'_>) -> Option<Equality> {
    if head.goal == Goal::LetOthersRun {
        return leave_equal_shares(head, one, other);
    }
    let both = |trial: &'s Trial<'_>| {
        let same = other.trials.iter().find(|theirs| theirs.case == trial.case)?;
        Some([Figure::P50, Figure::P99].map(|figure| Pair { before: trial.after, after: same.after, figure }))
    };
    let pairs: Vec<Pair<'_>> = one.trials.iter().filter_map(both).flatten().collect();
    let gained_ns = head.best().and_then(|case| case.p50.better()).map_or(0, |gain| gain.ns);
    let effects = test(run, &pairs);
    let cases = effects.chunks_exact(2).map(|figures| equality(&figures[0], &figures[1], gained_ns));
    cases.collect::<Option<Vec<_>>>()?.into_iter().reduce(Equality::and)
}

/// Two remedies in one case, which gain so much at the median.
pub(crate) fn equality(p50: &Effect, p99: &Effect, gained_ns: i64) -> Option<Equality> {
    let p50_ns = p50.gain.map(Gain::most_ns).filter(|&within_ns| within_ns <= gained_ns / 3)?;
    if matches!(p99.outcome, Outcome::Better | Outcome::Worse) {
        return None;
    }
    if let Some(p99_ns) = p99.gain.map(Gain::most_ns).filter(|&within_ns| within_ns <= gained_ns) {
        return Some(Equality::Both { p50_ns, p99_ns });
    }
    // Where too few rounds tell, a tail that looks twice as long is not called equal.
    let alike = p99.before_ns.zip(p99.after_ns).is_none_or(|(a, b)| a.max(b) <= a.min(b).saturating_mul(2));
    alike.then_some(Equality::Median { p50_ns })
}

/// The same for the shares of the CPU that others get.
fn leave_equal_shares(head: &Advice, one: &Candidate<'_>, other: &Candidate<'_>) -> Option<Equality> {
    let same =
        |trial: &Trial<'_>| other.trials.iter().find(|theirs| theirs.case == trial.case).map(|theirs| theirs.after);
    let questions: Vec<_> =
        one.trials.iter().filter_map(|trial| Some((Baseline::Series(trial.after), same(trial)?))).collect();
    let gained = head.best().map_or(0.0, Case::share_gained);
    let within = |effect: &ShareEffect| effect.gain.map(|gain| gain.low.abs().max(gain.high.abs()));
    let cases = shares::test(&questions)
        .iter()
        .map(|effect| within(effect).filter(|share| *share <= gained / 3.0))
        .collect::<Option<Vec<f64>>>()?;
    cases.into_iter().reduce(f64::max).map(|share| Equality::Share { share })
}

/// Nanoseconds gained in the best case, less for what has a price. A hundredth of a CPU for others counts as 1 µs. A busy machine is late at
/// the tail, so what is gained there beyond the median counts too. On a quiet one a tail is few events.
fn score(advice: &Advice, busy: bool) -> f64 {
    let Some(case) = advice.best() else { return 0.0 };
    if advice.goal == Goal::LetOthersRun {
        return 1e5 * case.share_gained() / price(advice);
    }
    let [p50, p99] = [&case.p50, &case.p99].map(|effect| effect.better().map(|gain| gain.ns));
    let gained_ns = match (p50, p99) {
        (Some(p50), Some(p99)) if busy => p50.max(p99),
        (Some(gained), _) | (None, Some(gained)) => gained,
        (None, None) => 0,
    };
    gained_ns as f64 / price(advice)
}

/// 1: free. A tenth of a CPU, a privilege or another design counts as much as half of the gain.
fn price(advice: &Advice) -> f64 {
    1.0 + 0.5 * points(advice) as f64 + 10.0 * cpu(advice)
}

/// The same in steps that are larger than what two runs differ by: 0 is free.
fn cost(advice: &Advice) -> usize {
    points(advice) + (20.0 * cpu(advice)).round() as usize
}

/// The additional share of a CPU.
fn cpu(advice: &Advice) -> f64 {
    advice.best().and_then(Case::cpu_shares).map_or(0.0, |[before, after]| (after - before).max(0.0))
}

/// What else it costs: 1 for a privilege, for what others lose and for another design, 2 for energy.
fn points(advice: &Advice) -> usize {
    let price = &advice.price;
    let takes = |case: &Case| case.others.as_ref().is_some_and(|effect| effect.outcome == Outcome::Worse);
    let others = price.others.is_some() || advice.cases.iter().any(takes);
    let costs = [price.privilege.is_some(), others, price.program.is_some()].into_iter().filter(|costs| *costs).count();
    costs + if price.energy.is_some() { 2 } else { 0 }
}

/// Reconciles all that is advised.
pub(super) fn reconcile(all: &mut [Advice]) {
    // The advices whose price has what the others would gain: the first of these gains most.
    let mut priced: BTreeSet<usize> = BTreeSet::new();
    for next in 0..all.len() {
        let (earlier, rest) = all.split_at_mut(next);
        let next = &mut rest[0];
        if next.standing != Standing::Advised {
            continue;
        }
        for (place, kept) in earlier.iter_mut().enumerate().filter(|(_, kept)| kept.standing == Standing::Advised) {
            let trade = trades_away(kept, next);
            if trade && priced.insert(place) {
                let both = [kept.price.program.take(), loss_without(next)];
                let both: Vec<String> = both.into_iter().flatten().collect();
                kept.price.program = (!both.is_empty()).then(|| both.join(", "));
            }
            if trade || is_reverse(kept, next) {
                next.standing = Standing::Mixed;
                break;
            }
            tell_apart(kept, next);
            tell_apart(next, kept);
        }
    }
}

/// Whether the second replaces what the first advises by what the first replaces, in a common case.
fn is_reverse(one: &Advice, other: &Advice) -> bool {
    let common = one.cases.iter().any(|case| other.cases.iter().any(|theirs| theirs.case == case.case));
    one.goal == other.goal && common && one.is_about(&other.instead_of) && other.is_about(&one.instead_of)
}

/// Whether the second is back sooner than what the first advises for others.
fn trades_away(one: &Advice, other: &Advice) -> bool {
    (one.goal, other.goal) == (Goal::LetOthersRun, Goal::BackSoon) && one.is_about(&other.instead_of)
}

/// Takes what another advice shows to differ from its remedy, or from one of its variants, out of the variants.
fn tell_apart(group: &mut Advice, difference: &Advice) {
    if group.goal != difference.goal || !group.is_about(&difference.what) || !group.is_about(&difference.instead_of) {
        return;
    }
    let lesser = if group.what == difference.instead_of { &difference.what } else { &difference.instead_of };
    group.equal.retain(|variant| variant.what != *lesser);
}

/// What whoever does the reverse loses: `3.94 ms later back at p50`. A loss for others is a price of the reverse already.
fn loss_without(advice: &Advice) -> Option<String> {
    let case = advice.best().filter(|_| advice.goal != Goal::LetOthersRun)?;
    let [_, larger] = advice.goal.words();
    let figures = [(&case.p50, "p50"), (&case.p99, "p99")];
    let (gain, figure) = figures.into_iter().find_map(|(effect, figure)| Some((effect.better()?, figure)))?;
    Some(format!("{} {larger} at {figure}", spoken::duration(gain.ns)))
}

#[cfg(test)]
mod tests {
    use super::super::advice::{Case, Equality, Variant};
    use super::*;
    use crate::evidence::{Effect, Gain, Outcome};
    use crate::verdict::{Code, Level, Price};

    fn effect(outcome: Outcome, [low_ns, high_ns]: [i64; 2], before_ns: i64, after_ns: i64) -> Effect {
        let gain = Gain { ns: (low_ns + high_ns) / 2, low_ns, high_ns, scatter_ns: 0 };
        Effect { outcome, before_ns: Some(before_ns), after_ns: Some(after_ns), gain: Some(gain), why: None }
    }

    /// Both remedies gain 50 µs at the median.
    fn equal(p50: &Effect, p99: &Effect) -> Option<Equality> {
        equality(p50, p99, 50_000)
    }

    #[test]
    fn equal_at_p50_is_not_equal() {
        let p50 = effect(Outcome::NoDifference, [-3_000, 2_000], 30_000, 31_000);
        let like = |low, high, after| effect(Outcome::NoDifference, [low, high], 80_000, after);
        assert_eq!(equal(&p50, &like(-9_000, 8_000, 81_000)), Some(Equality::Both { p50_ns: 3_000, p99_ns: 9_000 }));
        // The rounds do not tell, and the tails look alike.
        assert_eq!(equal(&p50, &like(-900_000, 60_000, 90_000)), Some(Equality::Median { p50_ns: 3_000 }));
        // The rounds do not tell, and one tail looks 37 times as long: a busy machine.
        assert_eq!(equal(&p50, &like(-4_000_000, 60_000, 3_000_000)), None);
        let not_tested = Effect { before_ns: Some(80_000), after_ns: Some(3_000_000), ..Effect::default() };
        assert_eq!(equal(&p50, &not_tested), None);
        let shown = effect(Outcome::Worse, [-80_000, -30_000], 80_000, 140_000);
        assert_eq!(equal(&p50, &shown), None);
    }

    #[test]
    fn what_could_differ_at_p50_is_not_equal() {
        let p99 = effect(Outcome::NoDifference, [-9_000, 8_000], 80_000, 81_000);
        let wide = effect(Outcome::NoDifference, [-40_000, 30_000], 30_000, 31_000);
        assert_eq!(equal(&wide, &p99), None, "few rounds");
        assert_eq!(equal(&Effect::default(), &p99), None, "not tested");
        // Shown, and small beside the gain.
        let small = effect(Outcome::Better, [2_000, 6_000], 30_000, 26_000);
        assert_eq!(equal(&small, &p99), Some(Equality::Both { p50_ns: 6_000, p99_ns: 9_000 }));
    }

    fn advice(goal: Goal, what: &str, instead_of: &str, case: &str) -> Advice {
        let gain = Gain { ns: 50_000, low_ns: 40_000, high_ns: 60_000, scatter_ns: 0 };
        let p50 = Effect { outcome: Outcome::Better, gain: Some(gain), ..Effect::default() };
        Advice {
            id: format!("{what} instead of {instead_of}"),
            goal,
            experiment: "wait".into(),
            what: what.into(),
            instead_of: instead_of.into(),
            standing: Standing::Advised,
            trust: Level::Unknown,
            in_company: false,
            cases: vec![Case { case: case.into(), p50, ..Case::default() }],
            price: Price::default(),
            code: Code::default(),
            doubt: None,
            equal: Vec::new(),
        }
    }

    /// An advice against what was found, with these gains at the median and at the 99th percentile.
    fn gaining(what: &str, [p50_ns, p99_ns]: [i64; 2]) -> Advice {
        let gain = |ns: i64| match ns {
            0 => effect(Outcome::NoDifference, [-5_000, 5_000], 1_000_000, 1_000_000),
            _ => effect(Outcome::Better, [ns, ns], 2_000_000, 2_000_000 - ns),
        };
        let case = Case { case: "1 ms".into(), p50: gain(p50_ns), p99: gain(p99_ns), ..Case::default() };
        Advice { cases: vec![case], ..advice(Goal::WakeOnTime, what, "as found", "1 ms") }
    }

    fn needing(what: &str, gains: [i64; 2]) -> Advice {
        let price = Price { privilege: Some("CAP_SYS_NICE".into()), ..Price::default() };
        Advice { price, ..gaining(what, gains) }
    }

    fn ordered(mut all: Vec<Advice>, busy: bool) -> Vec<String> {
        order(&mut all, busy);
        all.into_iter().map(|advice| advice.what).collect()
    }

    #[test]
    fn of_gains_that_are_alike_the_cheapest_is_first_whichever_is_larger() {
        for (free, priced) in [(50_000, 60_000), (60_000, 50_000), (50_000, 110_000)] {
            let both = || [gaining("slack 1 ns", [free, 0]), needing("fifo", [priced, 0])];
            let [one, other] = both();
            assert_eq!(ordered(both().into(), false), ["slack 1 ns", "fifo"]);
            assert_eq!(ordered(vec![other, one], true), ["slack 1 ns", "fifo"]);
        }
        let more = vec![gaining("slack 1 ns", [50_000, 0]), needing("fifo", [500_000, 0])];
        assert_eq!(ordered(more, false), ["fifo", "slack 1 ns"], "ten times as much");
    }

    #[test]
    fn what_replaces_another_remedy_follows_it() {
        let instead = |of: &str| Advice { instead_of: of.into(), ..gaining("fifo", [500_000, 0]) };
        let all = |of| vec![instead(of), gaining("slack 1 ns", [50_000, 0])];
        assert_eq!(ordered(all("slack 1 ns"), false), ["slack 1 ns", "fifo"]);
        assert_eq!(ordered(all("as found"), false), ["fifo", "slack 1 ns"]);
        let worse = Advice { standing: Standing::Worse, ..gaining("slack 1 ns", [0, 0]) };
        assert_eq!(ordered(vec![worse, instead("slack 1 ns")], false), ["fifo", "slack 1 ns"], "that is none");
    }

    #[test]
    fn beside_others_what_gains_at_the_median_and_in_the_tail_is_first() {
        let all = || {
            let slice = gaining("slice", [0, 1_100_000]);
            vec![slice, needing("fifo", [50_000, 800_000]), gaining("slack 1 ns", [50_000, 52_000])]
        };
        assert_eq!(ordered(all(), true), ["fifo", "slice", "slack 1 ns"]);
        let without: Vec<Advice> = all().into_iter().filter(|one| one.what != "slice").collect();
        assert_eq!(ordered(without, false), ["slack 1 ns", "fifo"], "on a quiet machine a tail is few events");
    }

    fn equal_to(mut advice: Advice, what: &str) -> Advice {
        let equality = Equality::Median { p50_ns: 1_000 };
        advice.equal.push(Variant { what: what.into(), price: Price::default(), code: Code::default(), equality });
        advice
    }

    fn standings(mut all: Vec<Advice>) -> (Vec<Standing>, Vec<Advice>) {
        reconcile(&mut all);
        (all.iter().map(|advice| advice.standing).collect(), all)
    }

    #[test]
    fn of_an_advice_and_its_reverse_the_first_stands() {
        use Standing::{Advised, Mixed};
        let (one, other) = (("fifo", "slack 1 ns"), ("slack 1 ns", "fifo"));
        let advised = |goal, (what, instead_of): (&str, &str), case| advice(goal, what, instead_of, case);
        let both = |case| vec![advised(Goal::WakeOnTime, one, "1 ms"), advised(Goal::WakeOnTime, other, case)];
        assert_eq!(standings(both("1 ms")).0, [Advised, Mixed]);
        assert_eq!(standings(both("100 µs")).0, [Advised, Advised], "what helps long waits may hurt short ones");
        let through_a_variant = vec![
            equal_to(advised(Goal::WakeOnTime, ("slice", "slack 1 ns"), "1 ms"), "fifo"),
            advised(Goal::WakeOnTime, other, "1 ms"),
        ];
        assert_eq!(standings(through_a_variant).0, [Advised, Mixed]);
        let not_advised = Advice { standing: Standing::Worse, ..advised(Goal::WakeOnTime, one, "1 ms") };
        assert_eq!(
            standings(vec![not_advised, advised(Goal::WakeOnTime, other, "1 ms")]).0,
            [Standing::Worse, Advised]
        );
    }

    #[test]
    fn what_another_goal_loses_is_a_price() {
        let both = vec![
            advice(Goal::LetOthersRun, "sched_yield()", "usleep(0)", "with 1 competitor"),
            advice(Goal::BackSoon, "usleep(0)", "sched_yield()", "with 1 competitor"),
        ];
        let (found, mut all) = standings(both);
        assert_eq!(found, [Standing::Advised, Standing::Mixed]);
        let price = Some("50.0\u{a0}µs later back at p50".to_owned());
        assert_eq!(all[0].price.program, price);
        reconcile(&mut all);
        assert_eq!(all[0].price.program, price, "said once");
        let (found, all) = standings(vec![
            advice(Goal::LetOthersRun, "sched_yield()", "usleep(0)", ""),
            advice(Goal::BackSoon, "usleep(0)", "sched_yield()", ""),
            advice(Goal::BackSoon, "nanosleep(0)", "sched_yield()", ""),
        ]);
        assert_eq!(found, [Standing::Advised, Standing::Mixed, Standing::Mixed]);
        assert_eq!(all[0].price.program, price, "of two that are back sooner, the first");
        let (found, unrelated) = standings(vec![
            advice(Goal::LetOthersRun, "sched_yield()", "usleep(0)", ""),
            advice(Goal::BackSoon, "nanosleep(0)", "usleep(0)", ""),
        ]);
        assert_eq!((found, &unrelated[0].price), (vec![Standing::Advised; 2], &Price::default()));
    }

    #[test]
    fn what_is_shown_to_differ_is_not_called_equal() {
        let equal = || equal_to(advice(Goal::WakeOnTime, "slack 1 ns", "as found", "1 ms"), "fifo");
        let better = advice(Goal::WakeOnTime, "fifo", "slack 1 ns", "1 ms");
        for all in [vec![equal(), better.clone()], vec![better, equal()]] {
            let (standings, all) = standings(all);
            assert_eq!(standings, [Standing::Advised; 2]);
            assert!(all.iter().all(|advice| advice.equal.is_empty()), "{all:?}");
        }
        let elsewhere = advice(Goal::WakeOnTime, "slice", "slack 1 ns", "1 ms");
        assert_eq!(standings(vec![equal(), elsewhere]).1[0].equal.len(), 1);
    }
}

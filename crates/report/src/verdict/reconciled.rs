//! No two advices of a run contradict each other: what one calls better than another is not called worse or equal by a second.
//!
//! Takes the advices in their order. The first of two stands. A yield that lets others run is away for longer: what would be back
//! sooner than an advised one is no second advice, but a part of the first one's price. A difference that is shown takes precedence over
//! an equality, which only says that none is.

use std::collections::BTreeSet;

use super::advice::{Advice, Goal, Standing};
use crate::format::spoken;

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
    let common = one.cases.iter().any(|case| other.cases.iter().any(|its| its.case == case.case));
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
        let of = |goal, (what, instead_of): (&str, &str), case| advice(goal, what, instead_of, case);
        let both = |case| vec![of(Goal::WakeOnTime, one, "1 ms"), of(Goal::WakeOnTime, other, case)];
        assert_eq!(standings(both("1 ms")).0, [Advised, Mixed]);
        assert_eq!(standings(both("100 µs")).0, [Advised, Advised], "what helps long waits may hurt short ones");
        let through_a_variant = vec![
            equal_to(of(Goal::WakeOnTime, ("slice", "slack 1 ns"), "1 ms"), "fifo"),
            of(Goal::WakeOnTime, other, "1 ms"),
        ];
        assert_eq!(standings(through_a_variant).0, [Advised, Mixed]);
        let not_advised = Advice { standing: Standing::Worse, ..of(Goal::WakeOnTime, one, "1 ms") };
        assert_eq!(standings(vec![not_advised, of(Goal::WakeOnTime, other, "1 ms")]).0, [Standing::Worse, Advised]);
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

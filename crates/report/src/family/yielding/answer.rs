//! Which call to use to let others run, and which to be back soon.

use punctual_record::experiment::yielding::Rank;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Columns, Table};
use crate::evidence::shares::Baseline;
use crate::evidence::{MIN_ROUNDS, Outcome, at_p50, shares};
use crate::family::shared::{ALWAYS, has_few_rounds, measured};
use crate::family::yielding::situation::{self, costs, sharers, who_gains};
use crate::family::yielding::situation::{Contest, Figure, Situation, YIELDS, situations};
use crate::format::naming::under;
use crate::format::{listed, sanitize, spoken, unbroken, units};
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial, is_busy, share_instead};

/// Most sentences on a competitor that is no equal.
const UNEQUAL: usize = 2;
/// Most names of calls that show no difference.
const MOST: usize = 3;

/// A sentence for each goal, and one for each customary call that does not yield here.
pub(in crate::family) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let situations = situations(&measured(series, Experiment::yields));
    let is_all = series.len() == run.series.len();
    let Some(contest) = Contest::from_situations(&situations) else {
        let said = told(&situations).filter(|_| is_all).map(|(situation, figures)| {
            let all: Vec<&Figure<'_>> = figures.iter().collect();
            // The list of all costs is the table.
            if situation.competitors == 0 {
                return costs(&all).into_iter().skip(1).collect();
            }
            let mut said = who_gains(situation, &all);
            let conditions = &all[0].calls.conditions;
            let is_one = |other: &(Situation, Vec<Figure<'_>>)| {
                other.0.competitors == 0
                    || other.0 == *situation && other.1.iter().all(|figure| figure.calls.conditions == *conditions)
            };
            if !situations.iter().all(is_one) {
                let which = format!("{}, caller {}", capital(&situation.in_words()), under(conditions));
                said.iter_mut().take(1).for_each(|text| *text = format!("{which}: {text}"));
            }
            said
        });
        let sentences = said.into_iter().flatten().take(UNEQUAL).collect();
        let table = told(&situations).filter(|_| is_all).map(|(_, figures)| of_situation(&situations, &figures));
        return Answer { table, ..Answer::in_words(sentences) };
    };
    let (others, leaving) = let_others_run(&contest);
    let (back, soonest) = back_soon(run, &contest).unzip();
    let mut sentences = vec![others];
    sentences.extend(back);
    sentences.extend(idle(&contest));
    let habits = contest.habits().copied();
    let named: Vec<String> = leaving
        .into_iter()
        .chain(soonest.into_iter().flatten())
        .chain(habits)
        .map(|figure| figure.name().to_owned())
        .collect();
    sentences.extend(alone(&contest, is_busy(run)));
    let table = table(&contest.figures, |figure| contest.alone(figure).copied()).ranked("left to others", named);
    Answer { table: Some(table).filter(|_| is_all), ..Answer::in_words(sentences) }
}

/// `A call alone on its CPU takes 285 ns with sched_yield, 52.9 µs with usleep0.` On a busy machine it is not alone.
fn alone(contest: &Contest<'_>, busy: bool) -> Option<String> {
    let cost = |habit: &Figure<'_>| {
        let calls = contest.alone(habit).filter(|alone| !has_few_rounds(&alone.calls))?.calls;
        Some(format!("{} with {}", spoken::fine(calls.metrics.bare_ns?), habit.name()))
    };
    let costs: Vec<String> = contest.habits().filter_map(cost).collect();
    let takes = if busy {
        "A call without a competitor, in a loop of such calls beside other programs, takes"
    } else {
        "A call alone on its CPU, in a loop of such calls, takes"
    };
    (!costs.is_empty()).then(|| format!("{takes} {}.", listed(&costs, MOST)))
}

/// Where nothing was measured against an equal competitor: the last situation, under one set of conditions. Where the caller goes first, no other
/// program runs whatever it calls, so that another situation says more.
fn told<'s, 'a>(situations: &'s [(Situation, Vec<Figure<'a>>)]) -> Option<(&'s Situation, Vec<Figure<'a>>)> {
    let says_more = |(one, _): &&(Situation, Vec<Figure<'_>>)| one.competitors > 0 && one.rank != Some(Rank::Lower);
    let (situation, figures) = situations.iter().rfind(says_more).or(situations.last())?;
    let conditions = &figures.first()?.calls.conditions;
    Some((situation, figures.iter().filter(|figure| figure.calls.conditions == *conditions).copied().collect()))
}

/// The table of a situation: its methods, and what a call of each costs alone.
fn of_situation(situations: &[(Situation, Vec<Figure<'_>>)], figures: &[Figure<'_>]) -> Table {
    let alone = |figure: &Figure<'_>| {
        let same =
            |other: &&Figure<'_>| other.name() == figure.name() && other.calls.conditions == figure.calls.conditions;
        let (_, all) = situations.first().filter(|(first, _)| first.competitors == 0)?;
        all.iter().find(same).copied()
    };
    table(figures, alone).ranked("left to others", Vec::new())
}

/// What each method costs, what it leaves to others and how long it is away: what leaves most comes first.
fn table<'a>(figures: &[Figure<'a>], alone: impl Fn(&Figure<'a>) -> Option<Figure<'a>>) -> Table {
    let mut sorted = figures.to_vec();
    let cost =
        |figure: &Figure<'a>| alone(figure).and_then(|other| other.cost_ns()).or(figure.cost_ns()).unwrap_or(f64::MAX);
    sorted.sort_by(|a, b| b.rank().total_cmp(&a.rank()).then(cost(a).total_cmp(&cost(b))));
    let one_set = figures.iter().all(|figure| figure.calls.conditions == figures[0].calls.conditions);
    let any_alone = figures.iter().any(|figure| alone(figure).is_some());
    let against = figures.iter().any(|figure| figure.yielded().is_some());
    Columns::new()
        .left("method", ALWAYS, |figure: &Figure<'a>| figure.name().to_owned())
        .left("conditions", ALWAYS, |figure| figure.calls.conditions.clone())
        .only_if(!one_set)
        .fine("call alone", 90, |figure| alone(figure)?.cost_ns())
        .only_if(any_alone)
        .when(against, |columns| {
            columns
                .share("left to others", ALWAYS, Figure::left_to_others)
                .share("competitor ran", 80, Figure::yielded)
                .summary([("away p50", ALWAYS), ("p99", 70)], |figure| Some(&figure.away?.series.summary))
        })
        .plain(&sorted)
}

fn names(figures: &[&Figure<'_>]) -> String {
    let names: Vec<String> = figures.iter().map(|figure| figure.name().to_owned()).collect();
    match names.as_slice() {
        [one, other] => format!("{one} or {other}"),
        _ => listed(&names, MOST),
    }
}

fn share(share: Option<f64>) -> String {
    unbroken(&units::or_absent(share, units::share))
}

fn rivals(contest: &Contest<'_>) -> String {
    if contest.competitors == 1 { "a competitor".to_owned() } else { format!("{} competitors", contest.competitors) }
}

/// `To let others run: sched_yield. A competitor gets 100 % of the CPU time of both; with usleep0, 81 %.`
fn let_others_run<'a>(contest: &Contest<'a>) -> (String, Vec<Figure<'a>>) {
    let questions: Vec<_> =
        contest.figures.iter().map(|f| (Baseline::Share(contest.fair_share()), f.calls.series)).collect();
    let effects = shares::test(&questions);
    let fair = share(Some(contest.fair_share()));
    let gives = |(figure, effect): &(&Figure<'a>, _)| {
        let shares::ShareEffect { outcome, .. } = effect;
        *outcome == Outcome::Better && figure.lets_others_run()
    };
    let mut shown: Vec<&Figure<'a>> =
        contest.figures.iter().zip(effects.clone()).filter(gives).map(|(figure, _)| figure).collect();
    shown.sort_by(|a, b| b.left_to_others().unwrap_or(0.0).total_cmp(&a.left_to_others().unwrap_or(0.0)));
    let Some((best, rest)) = shown.split_first() else {
        if let Some(why) = effects.iter().find_map(|effect| effect.why.as_deref()) {
            return (format!("Which call lets others run was not tested: {why}."), Vec::new());
        }
        let rivals = rivals(contest);
        let none = format!(
            "No call is shown to let others run: to give {rivals} more than {fair} of the CPU time of {}.",
            sharers(contest.competitors)
        );
        return (none, Vec::new());
    };
    let questions: Vec<_> =
        rest.iter().map(|figure| (Baseline::Series(figure.calls.series), best.calls.series)).collect();
    let less = shares::test(&questions);
    let mut equal = vec![*best];
    let same = rest.iter().zip(&less).filter(|(_, effect)| effect.is_alike());
    equal.extend(same.map(|(figure, _)| *figure));
    let cost = |figure: &&Figure<'_>| contest.alone(figure).and_then(Figure::cost_ns).unwrap_or(f64::MAX);
    equal.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let mut text = format!(
        "To let others run: {}. {} {} {} of the CPU time of {}",
        names(&equal),
        capital(&rivals(contest)),
        if contest.competitors == 1 { "gets" } else { "get" },
        share(equal.first().and_then(|figure| figure.left_to_others())),
        sharers(contest.competitors)
    );
    let worse =
        rest.iter().zip(&less).filter(|(_, effect)| effect.outcome == Outcome::Better).map(|(figure, _)| figure);
    let habit = contest.habits().find(|habit| worse.clone().any(|figure| figure.name() == habit.name()));
    if let Some(habit) = habit {
        text.push_str(&format!("; with {}, {}", habit.name(), share(habit.left_to_others())));
    }
    text.push('.');
    (text, equal.into_iter().take(MOST).copied().collect())
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// `usleep0 does not yield here: it slept in 0.2 % of the calls. A competitor ran in 0.2 % of them and got 50 % of the CPU.`
fn idle(contest: &Contest<'_>) -> Vec<String> {
    let told = |habit: &&Figure<'_>| habit.yielded().is_some() && !has_few_rounds(&habit.calls);
    let idle = contest.habits().filter(told).filter(|habit| !habit.lets_others_run());
    let text = |habit: &Figure<'_>| {
        let name = habit.name().to_owned();
        let ran = format!("ran in {}", share(habit.yielded()));
        let got = format!("got {} of the CPU", share(habit.others_share()));
        match habit.slept() {
            Some(slept) if slept < YIELDS => format!(
                "{name} does not yield here: it slept in {} of the calls. {} {ran} of them and {got}.",
                share(Some(slept)),
                capital(&rivals(contest))
            ),
            _ => format!("{name} does not yield here: {} {ran} of the calls and {got}.", rivals(contest)),
        }
    };
    idle.map(text).collect()
}

/// `To be back soon: usleep0 or nanosleep0. Away for 63 µs at p50 with a competitor; with sched_yield, 4 ms.`
fn back_soon<'a>(run: &Run, contest: &Contest<'a>) -> Option<(String, Vec<Figure<'a>>)> {
    let mut known: Vec<&Figure<'a>> =
        contest.figures.iter().filter(|figure| figure.lets_others_run() && figure.away_ns().is_some()).collect();
    known.sort_by_key(|figure| figure.away_ns());
    let (best, rest) = known.split_first()?;
    let to = best.away?.series;
    if rest.is_empty() && has_few_rounds(to) {
        let text = format!("Which call returns first was not tested: fewer than {MIN_ROUNDS} rounds.");
        return Some((text, Vec::new()));
    }
    let effects = at_p50(run, rest.iter().filter_map(|figure| Some([figure.away?.series, to])));
    let found = |outcome: Outcome| -> Vec<&Figure<'a>> {
        rest.iter().zip(&effects).filter(|(_, effect)| effect.outcome == outcome).map(|(figure, _)| *figure).collect()
    };
    let untested = found(Outcome::NotTested);
    if !rest.is_empty() && untested.len() == rest.len() {
        let why = effects.iter().find_map(|effect| effect.why.as_deref()).unwrap_or("too few rounds");
        return Some((format!("Which call returns first was not tested: {why}."), Vec::new()));
    }
    let duration = |figure: &Figure<'_>| unbroken(&figure.away_ns().map_or_else(String::new, units::duration));
    let least_ns = best.away_ns()?;
    let alike = rest.iter().zip(&effects).filter(|(_, effect)| effect.is_alike(least_ns)).map(|(figure, _)| *figure);
    let equal: Vec<&Figure<'a>> = std::iter::once(*best).chain(alike).collect();
    let lead = if rest.is_empty() { "To be back soon: only" } else { "To be back soon:" };
    let also = if rest.is_empty() { " yields" } else { "" };
    let mut text =
        format!("{lead} {}{also}. Away for {} at p50 with {}", names(&equal), duration(best), rivals(contest));
    let later = found(Outcome::Better);
    if let Some(habit) = contest.habits().find(|habit| later.iter().any(|figure| figure.name() == habit.name())) {
        text.push_str(&format!("; with {}, {}", habit.name(), duration(habit)));
    }
    text.push('.');
    if !untested.is_empty() {
        text.push_str(&format!(" Not tested: {}.", names(&untested)));
    }
    Some((text, equal.into_iter().take(MOST).copied().collect()))
}

// Calls to use instead of the customary ones: to let others run, and to be back soon.

pub(in crate::family) fn candidates<'a>(_: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let Some(contest) = Contest::from_situations(&situations(&measured(series, Experiment::yields))) else {
        return Vec::new();
    };
    let mut all = to_let_others_run(&contest);
    all.extend(to_be_back_soon(&contest));
    all
}

/// Instead of the habit that leaves others least. A call that does not yield on this kernel is no candidate.
fn to_let_others_run<'a>(contest: &Contest<'a>) -> Vec<Candidate<'a>> {
    let share = |figure: &Figure<'_>| figure.left_to_others().unwrap_or(f64::NAN);
    let known = contest.habits().filter(|figure| figure.left_to_others().is_some());
    let Some(from) = known.min_by(|a, b| share(a).total_cmp(&share(b))) else { return Vec::new() };
    let yields = |to: &&Figure<'a>| to.lets_others_run() && share(to) > contest.fair_share();
    let candidate = |to: &Figure<'a>| {
        let trial = trial(contest, from.calls.series, to.calls.series);
        let price = Price { program: dearer(contest, from, to), ..Price::default() };
        candidate((Goal::LetOthersRun, from, to), trial, price)
    };
    contest.figures.iter().filter(yields).filter(|to| to.name() != from.name()).map(candidate).collect()
}

/// Instead of the habit that is away longest, of those that yield at all.
fn to_be_back_soon<'a>(contest: &Contest<'a>) -> Vec<Candidate<'a>> {
    // What runs during a call that does not yield was scheduled by the kernel itself.
    let yielding = contest.habits().filter(|figure| figure.lets_others_run() && figure.away_ns().is_some());
    let Some(from) = yielding.max_by_key(|figure| figure.away_ns()) else { return Vec::new() };
    let others: Vec<&Figure<'a>> = contest
        .figures
        .iter()
        .filter(|to| to.lets_others_run() && to.away_ns().is_some() && to.name() != from.name())
        .collect();
    let questions: Vec<_> = others.iter().map(|to| (Baseline::Series(from.calls.series), to.calls.series)).collect();
    let effects = shares::test(&questions);
    let candidate = |(to, effect): (&&Figure<'a>, shares::ShareEffect)| {
        let trial = trial(contest, from.away?.series, to.away?.series);
        let price = Price { program: dearer(contest, from, to), others: taken(&effect), ..Price::default() };
        Some(candidate((Goal::BackSoon, from, to), trial, price))
    };
    others.iter().zip(effects).filter_map(candidate).collect()
}

/// What it takes from others; that this was not tested is said too.
fn taken(effect: &shares::ShareEffect) -> Option<String> {
    match effect.outcome {
        Outcome::NotTested => Some("what it leaves to others was not tested".to_owned()),
        Outcome::Worse => Some(format!("others get {}", share_instead(effect)?)),
        Outcome::Better | Outcome::NoDifference => None,
    }
}

fn trial<'a>(contest: &Contest<'a>, before: &'a Series, after: &'a Series) -> Trial<'a> {
    let name = |n: i64| format!("with {n} competitor{}", if n == 1 { "" } else { "s" });
    Trial { case: contest.competitors.into(), name, before, after }
}

fn candidate<'a>((goal, from, to): (Goal, &Figure<'a>, &Figure<'a>), trial: Trial<'a>, price: Price) -> Candidate<'a> {
    let call = |figure: &Figure<'_>| {
        let call = figure.calls.series.about.call.as_deref();
        sanitize(call.unwrap_or(figure.name()))
    };
    Candidate {
        id: format!("{} instead of {}", to.name(), from.name()),
        cause: from.name().to_owned(),
        price,
        code: Code::of_series(&to.calls.series.about, Some(format!("{};", call(to)))),
        ..Candidate::instead(goal, call(to), call(from), trial)
    }
}

/// What a call costs more with no other thread ready, where the intervals of both medians do not overlap.
fn dearer(contest: &Contest<'_>, from: &Figure<'_>, to: &Figure<'_>) -> Option<String> {
    let (from, to) = (contest.alone(from)?, contest.alone(to)?);
    situation::dearer(to, from).then_some(format!(
        "a call alone takes {} instead of {}",
        spoken::fine(to.cost_ns()?),
        spoken::fine(from.cost_ns()?)
    ))
}

//! The verdict on each remedy.

use punctual_record::{Run, Spread, Trial, TrialBlock, TrialRefused};

use crate::evidence::Figure;
use crate::evidence::pairs::{Change, MIN_PAIRS, Question, shares, test};
use crate::format::prose::{sentence, unbroken};
use crate::format::sanitize::sanitize;
use crate::format::units;
use crate::naming;
use crate::verdict::{Advice, Case, Code, Goal, Price, rank, standing};

/// The experiment of the advice.
const EXPERIMENT: &str = "why";
/// Most trials, and pairs of one, that a file is believed to have.
const MOST_TRIALS: usize = 100;
const MOST_PAIRS: usize = 10_000;
/// A median of fewer wake-ups says little of its block.
const WAKE_UPS: u64 = 10;

/// The wake-ups of one kind in a block.
type Kind = fn(&TrialBlock) -> Option<Spread>;
/// A figure of them.
type Value = fn(&Spread) -> Option<u64>;

/// Which wake-ups: by timers, and all others.
const KINDS: [(&str, Kind); 2] = [("on timers", |block| block.timer), ("on other wake-ups", |block| block.other)];

/// A remedy that was tried, with its effects.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    pub(super) trial: &'a Trial,
    pub(super) cases: Vec<Case>,
    pub(super) cpu: Option<Change>,
}

/// All remedies that were tried, tested together.
pub(super) fn judged(run: &Run) -> Vec<Judged<'_>> {
    let tried: Vec<&Trial> = trials(run).filter(|trial| !trial.pairs.is_empty()).collect();
    let asked: Vec<(usize, &str)> = tried.iter().enumerate().flat_map(|(at, trial)| cases(at, trial)).collect();
    let questions = asked.iter().flat_map(|(at, case)| questions(tried[*at], case)).collect();
    let mut effects = test(questions).into_iter();
    let cpu = shares(&tried.iter().map(|trial| cpu_shares(trial)).collect::<Vec<_>>());
    let mut judged: Vec<Judged<'_>> =
        tried.into_iter().zip(cpu).map(|(trial, cpu)| Judged { trial, cases: Vec::new(), cpu }).collect();
    for (at, case) in asked {
        let mut next = || effects.next().unwrap_or_default();
        judged[at].cases.push(Case { case: case.to_owned(), p50: next(), p99: next(), ..Case::default() });
    }
    judged
}

fn trials(run: &Run) -> impl Iterator<Item = &Trial> {
    run.causes.iter().flat_map(|causes| &causes.trials).take(MOST_TRIALS)
}

/// The kinds of wake-ups that the program has.
fn cases(at: usize, trial: &Trial) -> Vec<(usize, &'static str)> {
    let has = |of: Kind| trial.pairs.iter().any(|pair| of(&pair.off).or(of(&pair.on)).is_some());
    let all: Vec<_> = KINDS.into_iter().filter(|(_, of)| has(*of)).map(|(name, _)| (at, name)).collect();
    // Without any wake-up it says so.
    if all.is_empty() { vec![(at, "on timers")] } else { all }
}

fn questions(trial: &Trial, case: &str) -> [Question; 2] {
    let of = KINDS.into_iter().find(|(name, _)| *name == case).map_or(KINDS[0].1, |(_, of)| of);
    let figures: [(Figure, Value, &str); 2] =
        [(Figure::P50, |its| Some(its.p50_ns), "10"), (Figure::P99, |its| its.p99_ns, "100")];
    figures.map(|(figure, value, needed)| {
        let one = |block: &TrialBlock| {
            let spread = of(block).filter(|its| its.count >= WAKE_UPS)?;
            value(&spread).map(|ns| ns as f64)
        };
        let all = trial.pairs.iter().take(MOST_PAIRS);
        let pairs: Vec<[f64; 2]> = all.filter_map(|pair| Some([one(&pair.off)?, one(&pair.on)?])).collect();
        let why = format!(
            "too few wake-ups: {} of {} pairs of blocks have {needed} in each, and a test takes {MIN_PAIRS}",
            pairs.len(),
            trial.pairs.len()
        );
        Question { figure, pairs, why }
    })
}

fn cpu_shares(trial: &Trial) -> Vec<[f64; 2]> {
    let share = |block: &TrialBlock| Some(block.cpu_ns? as f64 / block.ns.max(1) as f64);
    let all = trial.pairs.iter().take(MOST_PAIRS);
    all.filter_map(|pair| Some([share(&pair.off)?, share(&pair.on)?])).collect()
}

/// What each remedy that was tried does, the advised ones first.
pub(crate) fn advice(run: &Run) -> Vec<Advice> {
    let mut all: Vec<Advice> = judged(run).into_iter().map(one).collect();
    rank(&mut all);
    all
}

fn one(judged: Judged<'_>) -> Advice {
    let Judged { trial, cases, cpu } = judged;
    let text = |text: &Option<String>| text.as_deref().map(sanitize);
    let code = |text: &Option<String>| text.as_deref().map(naming::code);
    Advice {
        id: sanitize(&trial.id),
        goal: Goal::WakeOnTime,
        experiment: EXPERIMENT.to_owned(),
        what: sanitize(&trial.remedy),
        instead_of: "as found".to_owned(),
        standing: standing(Goal::WakeOnTime, &cases),
        cases,
        price: Price {
            privilege: text(&trial.price.privilege),
            energy: text(&trial.price.energy),
            others: text(&trial.price.others),
            program: cpu.and_then(|change| price(&change)),
        },
        code: Code { c: code(&trial.code.c), rust: None, shell: code(&trial.code.shell) },
        equal: Vec::new(),
    }
}

/// `0.3 % more of a CPU`, where a difference is shown.
pub(super) fn price(change: &Change) -> Option<String> {
    let more = if change.by > 0.0 { "more" } else { "less" };
    change.shown.then(|| format!("{} {more} of a CPU", unbroken(&units::share(change.by.abs()))))
}

/// What was refused: what, why, and what would allow it.
pub(crate) fn untried(run: &Run) -> Vec<String> {
    let said = |trial: &Trial| {
        let text = match &trial.refused {
            Some(TrialRefused { why, remedy: None }) => sentence(&sanitize(why)),
            Some(TrialRefused { why, remedy: Some(remedy) }) => {
                format!("{} To allow it: {}", sentence(&sanitize(why)), sentence(&sanitize(remedy)))
            }
            None => "There was no time for it.".to_owned(),
        };
        format!("{}: {text}", sanitize(&trial.remedy))
    };
    trials(run).filter(|trial| trial.pairs.is_empty()).map(said).collect()
}

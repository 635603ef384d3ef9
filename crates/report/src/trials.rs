//! What remedies did to a program on which they were tried: advice, and a section with each.
//!
//! Takes the [`Trial`](punctual_record::Trial)s of a run. Three things are different: no difference shown, too few wake-ups to test, and
//! refused. A remedy that was refused is no advice; it is among what could not be tried. A remedy takes off what its causes take, and no
//! more. A larger gain has another source, such as a machine that changed meanwhile.

use punctual_record::remedy::acts_on;
use punctual_record::{CallCauses, Cause, CauseSource, Run, Spread, Trial, TrialBlock, TrialPair, TrialRefused};

use crate::document::{Block, Section};
use crate::evidence::pairs::{Change, MIN_PAIRS, Question, shares, test};
use crate::evidence::{Effect, Figure, Gain, Outcome};
use crate::format::{gathered, listed, naming, sanitize, sentence, spoken, unbroken, units};
use crate::verdict::{
    Advice, Case, Code, Equality, Goal, Level, Price, Standing, Untried, Verdict, equality, grouped, rank, standing,
};

/// All remedies; `None` where none was tried or refused.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let mut lines: Vec<String> = judged(run).iter().flat_map(|judged| tried(run, judged)).collect();
    lines.extend(untried(run).into_iter().map(|refused| format!("{}: not tried: {}", refused.what, refused.why)));
    if lines.is_empty() {
        return None;
    }
    let how = "Each was on and off in adjacent blocks of time, in random order, and everything was put back. A gain is the median of the \
               pairs' differences; in parentheses: its 95 % interval.";
    Some(Section::new("Remedies tried").with(Block::Paragraph(how.to_owned())).with(Block::said(lines)))
}

/// What is no advice, in a line for the first screen; `None` where all is.
pub(crate) fn summary(run: &Run, verdict: &Verdict) -> Option<Section> {
    let names = |standing: Standing| -> Vec<String> {
        let advices =
            verdict.tried.iter().filter(|advice| advice.standing == standing && advice.experiment == EXPERIMENT);
        advices.map(|advice| advice.what.clone()).collect()
    };
    let cut = cut(run);
    let said = [
        ("Worse here", names(Standing::Worse)),
        ("Better and worse", names(Standing::Mixed)),
        ("No difference shown", names(Standing::NoDifference)),
        (cut.as_deref().unwrap_or("Too few wake-ups to test"), names(Standing::NotTested)),
    ];
    let said = said.into_iter().filter(|(_, names)| !names.is_empty());
    let said = said.map(|(lead, names)| format!("{lead}: {}.", listed(&names, 5)));
    let texts: Vec<String> = said.chain(not_tried(run)).collect();
    (!texts.is_empty()).then(|| Section::default().with(Block::Paragraph(texts.join(" "))))
}

/// What left too little time, where one reason holds for every remedy that was tried.
fn cut(run: &Run) -> Option<String> {
    let mut reasons = trials(run).filter(|trial| !trial.pairs.is_empty()).map(|trial| trial.refused.as_ref());
    let first = reasons.next()??;
    reasons.all(|reason| reason == Some(first)).then(|| format!("Not tested, because {}", reason(first)))
}

/// What was not tried, a sentence for each reason.
fn not_tried(run: &Run) -> Vec<String> {
    let why = |trial: &Trial| trial.refused.as_ref().map_or_else(|| "there was no time for it".to_owned(), reason);
    let reasons = trials(run).filter(|trial| trial.pairs.is_empty());
    let reasons = gathered(reasons.map(|trial| (why(trial), sanitize(&trial.remedy))));
    let sentence = |(why, names): &(String, Vec<String>)| format!("Not tried, because {why}: {}.", listed(names, 5));
    reasons.iter().map(sentence).collect()
}

/// `not permitted; run as root`.
fn reason(refused: &TrialRefused) -> String {
    let remedy = refused.remedy.as_ref().map_or_else(String::new, |remedy| format!("; {}", sanitize(remedy)));
    sanitize(&refused.why) + &remedy
}

/// `timer slack 1 ns on timers: 51 µs earlier at p50 (49 µs to 52 µs), ...`, for each kind of wake-ups.
fn tried(run: &Run, judged: &Judged<'_>) -> Vec<String> {
    let trial = judged.trial;
    let cpu = judged.cpu.as_ref().map(cpu);
    let pairs = pairs(judged);
    let partly = trial.refused.as_ref().map(|refused| format!(" {}", sentence(&sanitize(&refused.why))));
    let sentence_of = |case: &Case| {
        let figures = [("p50", &case.p50), ("p99", &case.p99)].map(|(name, effect)| figure(name, effect));
        let mut parts: Vec<String> = figures.into_iter().collect();
        parts.dedup();
        parts.extend(cpu.clone());
        let text = format!("{} {}: {}; {pairs}.", sanitize(&trial.remedy), case.case, parts.join(", "));
        let doubt = doubt(run, trial, case).map_or(String::new(), |doubt| format!(" {doubt}"));
        text + &doubt + partly.as_deref().unwrap_or_default()
    };
    judged.cases.iter().map(sentence_of).collect()
}

/// `9 pairs, without 2 in which others took the CPU far more than usual`.
fn pairs(judged: &Judged<'_>) -> String {
    let pairs = units::many(judged.quiet.pairs.len() as u64, "pair");
    match judged.quiet.left_out as u64 {
        0 => pairs,
        n => format!("{pairs}, without {} in which others took the CPU far more than usual", units::count(n)),
    }
}

fn figure(name: &str, effect: &Effect) -> String {
    match (effect.outcome, effect.better().map(|gain| (gain, "earlier")).or(effect.worse().map(|loss| (loss, "later"))))
    {
        (_, Some((interval, word))) => {
            format!(
                "{} {word} at {name} ({} to {})",
                spoken::duration(interval.ns),
                spoken::duration(interval.low_ns),
                spoken::duration(interval.high_ns)
            )
        }
        (Outcome::NotTested, _) => {
            format!("{name} not tested ({})", effect.why.as_deref().unwrap_or("not measured"))
        }
        _ => format!("no difference shown at {name}"),
    }
}

/// `CPU +0.3 % (0.2 to 0.4)`.
fn cpu(change: &Change) -> String {
    if !change.shown {
        return "no difference in CPU time shown".to_owned();
    }
    let percent = |share: f64| format!("{:+.1}", 100.0 * share);
    unbroken(&format!("CPU {} % ({} to {})", percent(change.by), percent(change.low), percent(change.high)))
}

/// The experiment of the advice.
const EXPERIMENT: &str = "why";
/// Most trials that a file is believed to have.
const MOST_TRIALS: usize = 100;
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
struct Judged<'a> {
    trial: &'a Trial,
    quiet: Quiet<'a>,
    cases: Vec<Case>,
    cpu: Option<Change>,
}

/// All remedies that were tried, tested together.
fn judged(run: &Run) -> Vec<Judged<'_>> {
    let tried: Vec<&Trial> = trials(run).filter(|trial| !trial.pairs.is_empty()).collect();
    let tried: Vec<(&Trial, Quiet<'_>)> = tried.iter().copied().zip(Quiet::of_all(&tried)).collect();
    let asked: Vec<(usize, &str)> = tried.iter().enumerate().flat_map(|(at, (trial, _))| cases(at, trial)).collect();
    let questions = asked.iter().flat_map(|(at, case)| questions(&tried[*at].1, case)).collect();
    let mut effects = test(questions).into_iter();
    let cpu = shares(&tried.iter().map(|(_, quiet)| cpu_shares(quiet)).collect::<Vec<_>>());
    let mut judged: Vec<Judged<'_>> = tried
        .into_iter()
        .zip(cpu)
        .map(|((trial, quiet), cpu)| Judged { trial, quiet, cases: Vec::new(), cpu })
        .collect();
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
    let has = |kind: Kind| trial.pairs.iter().any(|pair| kind(&pair.off).or(kind(&pair.on)).is_some());
    let all: Vec<_> = KINDS.into_iter().filter(|(_, kind)| has(*kind)).map(|(name, _)| (at, name)).collect();
    // Without any wake-up it says so.
    if all.is_empty() { vec![(at, "on timers")] } else { all }
}

fn questions(quiet: &Quiet<'_>, case: &str) -> [Question; 2] {
    let kind = KINDS.into_iter().find(|(name, _)| *name == case).map_or(KINDS[0].1, |(_, kind)| kind);
    let figures: [(Figure, Value, &str); 2] =
        [(Figure::P50, |spread| Some(spread.p50_ns), "10"), (Figure::P99, |spread| spread.p99_ns, "100")];
    figures.map(|(figure, value, needed)| {
        let one = |block: &TrialBlock| {
            let spread = kind(block).filter(|spread| spread.count >= WAKE_UPS)?;
            value(&spread).map(|ns| ns as f64)
        };
        let all = quiet.pairs.iter();
        let pairs: Vec<[f64; 2]> = all.filter_map(|pair| Some([one(&pair.off)?, one(&pair.on)?])).collect();
        let verb = if pairs.len() == 1 { "has" } else { "have" };
        let (n, all) = (pairs.len(), quiet.pairs.len() + quiet.left_out);
        let why = match quiet.left_out {
            0 => format!("too few wake-ups: {n} of {all} pairs of blocks {verb} {needed} in each, and a test takes {MIN_PAIRS}"),
            _ => format!(
                "too few wake-ups: {n} of {all} pairs of blocks {verb} {needed} in each and were not disturbed, and a test takes {MIN_PAIRS}"
            ),
        };
        Question { figure, pairs, why }
    })
}

fn cpu_shares(quiet: &Quiet<'_>) -> Vec<[f64; 2]> {
    let share = |block: &TrialBlock| Some(block.cpu_ns? as f64 / block.ns.max(1) as f64);
    quiet.pairs.iter().filter_map(|pair| Some([share(&pair.off)?, share(&pair.on)?])).collect()
}

/// What each remedy that was tried does, the advised ones first.
pub(crate) fn advice(run: &Run) -> Vec<Advice> {
    let all = judged(run).into_iter().map(|judged| (one(run, &judged), judged)).collect();
    let mut all = grouped(all, |(head, one), (_, other)| {
        let gain = head.best().and_then(|case| case.p50.better()).map_or(0, |gain| gain.ns);
        if share_a_cause(run, one.trial, other.trial, gain) { are_equal(one, other, gain) } else { None }
    });
    rank(run, &mut all);
    all
}

/// How far two remedies are equal in every common case. Each was tested against the program without it.
fn are_equal(one: &Judged<'_>, other: &Judged<'_>, gained_ns: i64) -> Option<Equality> {
    let common =
        one.cases.iter().filter_map(|case| Some((case, other.cases.iter().find(|theirs| theirs.case == case.case)?)));
    let cases = common.map(|(a, b)| equality(&difference(&a.p50, &b.p50), &difference(&a.p99, &b.p99), gained_ns));
    cases.collect::<Option<Vec<_>>>()?.into_iter().reduce(Equality::and)
}

/// The difference of two gains, whose errors are independent.
fn difference(one: &Effect, other: &Effect) -> Effect {
    let (before_ns, after_ns) = (one.after_ns, other.after_ns);
    let Some((a, b)) = one.gain.zip(other.gain) else { return Effect { before_ns, after_ns, ..Effect::default() } };
    let half = |gain: Gain| gain.high_ns.abs_diff(gain.low_ns) as f64 / 2.0;
    let (ns, reach) = (b.ns - a.ns, half(a).hypot(half(b)) as i64);
    let outcome = Outcome::judged(ns.abs() > reach, ns > 0);
    let gain = Gain { ns, low_ns: ns - reach, high_ns: ns + reach, scatter_ns: a.scatter_ns.max(b.scatter_ns) };
    Effect { outcome, before_ns, after_ns, gain: Some(gain), why: None }
}

fn one(run: &Run, judged: &Judged<'_>) -> Advice {
    let Judged { trial, cases, cpu, .. } = judged;
    let text = |text: &Option<String>| text.as_deref().map(sanitize);
    let code = |text: &Option<String>| text.as_deref().map(naming::code);
    Advice {
        id: sanitize(&trial.id),
        goal: Goal::WakeOnTime,
        experiment: EXPERIMENT.to_owned(),
        what: sanitize(&trial.remedy),
        instead_of: "as found".to_owned(),
        standing: standing(Goal::WakeOnTime, cases),
        trust: Level::Unknown,
        in_company: false,
        cases: cases.clone(),
        price: Price {
            privilege: text(&trial.price.privilege),
            energy: text(&trial.price.energy),
            others: text(&trial.price.others),
            program: cpu.as_ref().and_then(price),
        },
        code: Code {
            c: code(&trial.code.c),
            rust: code(&trial.code.rust),
            python: code(&trial.code.python),
            shell: code(&trial.code.shell),
        },
        doubt: cases.iter().find_map(|case| doubt(run, trial, case)),
        equal: Vec::new(),
    }
}

/// What speaks against a gain: it is larger than what the remedy can take off. Causes say only what timers' wake-ups lost.
fn doubt(run: &Run, trial: &Trial, case: &Case) -> Option<String> {
    let gain_ns = case.p50.better().filter(|_| case.case == KINDS[0].0)?.ns;
    let acts = acts(&trial.id)?;
    let took = took(run, acts)?;
    let larger = gain_ns as f64 > took + BEYOND_NS.max(BEYOND * took);
    let (ns, called) = (spoken::duration(took), called(acts));
    larger.then(|| format!("That is more than {called} took of a wake-up before the trials: {ns}."))
}

/// `0.3 % more of a CPU`, where a difference is shown.
fn price(change: &Change) -> Option<String> {
    let more = if change.by > 0.0 { "more" } else { "less" };
    change.shown.then(|| format!("{} {more} of a CPU", spoken::share(change.by.abs())))
}

/// What was refused: what, why, and what would allow it.
pub(crate) fn untried(run: &Run) -> Vec<Untried> {
    let said = |trial: &Trial| {
        let what = sanitize(&trial.remedy);
        match &trial.refused {
            Some(TrialRefused { why, remedy }) => {
                Untried::new(what, &sanitize(why), remedy.as_deref().map(sanitize).as_deref())
            }
            None => Untried::new(what, "There was no time for it.", None),
        }
    };
    trials(run).filter(|trial| trial.pairs.is_empty()).map(said).collect()
}

// The pairs of blocks that count: those that others disturbed far more than their like are left out.
//
// The usual is what a quarter of the blocks stay below. A machine that is busy all the time is what the program lives on. No pair of it
// is left out.

/// Most pairs that a file is believed to have.
const MOST: usize = 10_000;
/// Share of a block for which its threads wait for a CPU. Above it, the block can be disturbed: 2 ms of 100 ms.
const WAITED: f64 = 0.02;
/// How many times the usual share.
const TIMES: f64 = 4.0;
/// Share of a CPU that the host takes, from which a block is disturbed. The kernel counts it in ticks, of which one says little.
const STOLEN: f64 = 0.05;
const TICK_NS: u64 = 10_000_000;

/// The pairs that count, and how many do not.
#[derive(Debug)]
struct Quiet<'a> {
    pairs: Vec<&'a TrialPair>,
    left_out: usize,
}

impl<'a> Quiet<'a> {
    /// Of all trials of a program: without a remedy, their blocks are alike.
    fn of_all(trials: &[&'a Trial]) -> Vec<Self> {
        let off = usual(trials.iter().flat_map(|trial| &trial.pairs).take(MOST).map(|pair| &pair.off));
        trials.iter().map(|trial| Self::new(trial, off)).collect()
    }

    fn new(trial: &'a Trial, off: f64) -> Self {
        let all: Vec<&TrialPair> = trial.pairs.iter().take(MOST).collect();
        // A remedy may let its threads wait longer.
        let on = usual(all.iter().map(|pair| &pair.on)).max(off);
        let limits = [off, on].map(|share| WAITED.max(TIMES * share));
        let is_quiet = |pair: &&TrialPair| {
            let keeps =
                |block: &TrialBlock, limit: f64| waited(block).is_none_or(|share| share <= limit) && !is_robbed(block);
            keeps(&pair.off, limits[0]) && keeps(&pair.on, limits[1])
        };
        let pairs: Vec<&TrialPair> = all.iter().copied().filter(is_quiet).collect();
        Self { left_out: all.len() - pairs.len(), pairs }
    }
}

/// The share of a block for which threads wait, which a quarter of the blocks stay below.
fn usual<'a>(blocks: impl Iterator<Item = &'a TrialBlock>) -> f64 {
    let mut shares: Vec<f64> = blocks.filter_map(waited).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 4).copied().unwrap_or(0.0)
}

fn waited(block: &TrialBlock) -> Option<f64> {
    Some(block.run_delay_ns? as f64 / block.ns.max(1) as f64)
}

fn is_robbed(block: &TrialBlock) -> bool {
    block.stolen_ns.is_some_and(|ns| ns > TICK_NS && ns as f64 >= STOLEN * block.ns as f64)
}

/// Fewest wake-ups that say what a cause takes.
const SPLIT_WAKE_UPS: u64 = 50;
/// A gain is larger only by more than this share and this time: the causes were measured at another time.
const BEYOND: f64 = 0.1;
const BEYOND_NS: f64 = 1_000.0;

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
    let calls = causes.calls.iter().filter(|call| call.late.count >= SPLIT_WAKE_UPS);
    let each = |call: &CallCauses| {
        let times = call.causes.iter().filter(|one| on.contains(&one.cause)).map(|one| one.time.total_ns as f64);
        times.sum::<f64>() / call.late.count as f64
    };
    calls.map(each).max_by(f64::total_cmp)
}

/// Whether both act on one cause that explains at least half of this gain.
fn share_a_cause(run: &Run, one: &Trial, other: &Trial, gain_ns: i64) -> bool {
    let (Some(one), Some(other)) = (acts(&one.id), acts(&other.id)) else { return false };
    let both: Vec<Cause> = one.iter().copied().filter(|cause| other.contains(cause)).collect();
    took(run, &both).is_some_and(|ns| ns >= gain_ns as f64 / 2.0)
}

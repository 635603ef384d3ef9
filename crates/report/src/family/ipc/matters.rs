//! What may matter to messages: size, rate, placement, priority. Two series are compared if they differ in nothing else.

use punctual_record::experiment::ipc::{Mode, Placement, Receive};
use punctual_record::{Experiment, Notice, POLICY, Run, Series};

use crate::evidence::rounds::{Maxima, Pair, at_p50, test, test_maxima};
use crate::evidence::{Effect, Figure, Outcome};
use crate::family::ipc::traffic::{Contest, Message, brief, bytes, contests, cpus, place, sleeps};
use crate::family::shared::measured;
use crate::format::{gathered, grouped, naming, sanitize};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

/// What two series differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dimension {
    /// Bytes of a message.
    Size,
    /// From one message to the next.
    Rate,
    /// One CPU, two threads of one core, two cores.
    Placement,
    /// The scheduling policies of sender and receiver.
    Priority,
}

impl Dimension {
    const ALL: [Self; 4] = [Self::Size, Self::Rate, Self::Placement, Self::Priority];

    /// Its word, and the preposition of its values.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Size => ("Size", "with"),
            Self::Rate => ("Rate", "with"),
            Self::Placement => ("Placement", "on"),
            Self::Priority => ("Priority", "under"),
        }
    }
}

/// A series and its place in the dimension.
#[derive(Debug, Clone)]
pub(super) struct Side<'a> {
    pub(super) message: Message<'a>,
    /// `64 B`, `one every 1 s`, `two CPUs`, `SCHED_FIFO 40`.
    pub(super) name: String,
    order: u64,
}

/// Two series, and how they differ.
#[derive(Debug, Clone)]
pub(super) struct Comparison<'a> {
    pub(super) dimension: Dimension,
    pub(super) from: Side<'a>,
    pub(super) to: Side<'a>,
    pub(super) p50: Effect,
    pub(super) p99: Effect,
    /// Of the priority: its purpose is a small maximum.
    pub(super) maxima: Option<Maxima>,
}

impl Comparison<'_> {
    /// What both have in common, in words.
    pub(super) fn rest(&self, run: &Run) -> String {
        let parameters = self.to.message.parameters;
        let mut words = vec![naming_of(&self.to.message)];
        for (dimension, word) in [
            (Dimension::Size, bytes(parameters.size).replace(' ', "\u{a0}")),
            (Dimension::Rate, brief(parameters)),
            (Dimension::Placement, place(parameters).to_owned()),
            (Dimension::Priority, self.to.message.conditions.clone()),
        ] {
            // Under the conditions as found, or the only ones, there is nothing to say.
            let one_set = dimension == Dimension::Priority && run.conditions.len() < 2;
            if dimension != self.dimension && word != naming::AS_FOUND && !one_set {
                words.push(word);
            }
        }
        words.join(", ")
    }
}

/// The mechanism, and how it receives if not in the kernel.
pub(super) fn naming_of(message: &Message<'_>) -> String {
    let name = message.subject.clone();
    match message.parameters.receive {
        Receive::Block => name,
        other => format!("{name} ({other})"),
    }
}

/// All comparisons that the series allow, tested together. The first of each dimension stands for all others:
/// the smallest size, the rarest message, one CPU, the ordinary policy.
pub(super) fn comparisons<'a>(run: &Run, series: &[Message<'a>]) -> Vec<Comparison<'a>> {
    let mut all: Vec<Comparison<'a>> =
        Dimension::ALL.into_iter().flat_map(|dimension| paired(run, dimension, series)).collect();
    let both = |comparison: &Comparison<'a>| (comparison.from.message.series, comparison.to.message.series);
    let figures = |(before, after)| [Figure::P50, Figure::P99].map(|figure| Pair { before, after, figure });
    let questions: Vec<Pair<'a>> = all.iter().map(both).flat_map(figures).collect();
    let mut effects = test(run, &questions).into_iter();
    for comparison in &mut all {
        comparison.p50 = effects.next().unwrap_or_default();
        comparison.p99 = effects.next().unwrap_or_default();
    }
    let of_priority = all.partition_point(|comparison| comparison.dimension < Dimension::Priority);
    let tails: Vec<_> = all[of_priority..].iter().map(both).collect();
    for (comparison, maxima) in all[of_priority..].iter_mut().zip(test_maxima(&tails)) {
        comparison.maxima = maxima;
    }
    all
}

/// The pairs of series that differ in this dimension alone, before their tests.
fn paired<'a>(run: &Run, dimension: Dimension, series: &[Message<'a>]) -> Vec<Comparison<'a>> {
    let side = |message: &Message<'a>| {
        let (order, name) = position(run, dimension, message)?;
        Some(Side { message: *message, name, order })
    };
    let placed: Vec<Side<'a>> = series.iter().filter_map(side).collect();
    // What must be equal: everything but the dimension itself, and whether latency counts from when a message was due.
    let rest = |side: &Side<'a>| {
        let (series, asked) = (side.message.series, side.message.parameters);
        let unless = |own: Dimension| dimension != own;
        let size = unless(Dimension::Size).then_some(asked.size);
        let traffic = unless(Dimension::Rate).then_some((asked.mode, asked.interval_ns));
        let counts_from = (asked.mode == Mode::Rate, asked.mode == Mode::PingPong);
        let cpus = unless(Dimension::Placement).then_some((asked.place, asked.sender_cpu, asked.receiver_cpu));
        let conditions = match dimension {
            Dimension::Priority => other_conditions(run, &series.conditions),
            _ => series.conditions.clone(),
        };
        (&series.subject, asked.receive, asked.depth, size, traffic, counts_from, cpus, conditions)
    };
    let mut pairs = Vec::new();
    for (_, mut sides) in gathered(placed.iter().map(|side| (rest(side), side.clone()))) {
        // Of several pairs of CPUs of one kind, the first is compared, and named.
        sides.sort_by_key(|side| side.order);
        sides.dedup_by(|next, first| {
            let same = next.order == first.order;
            if same {
                first.name = cpus(first.message.parameters).unwrap_or_else(|| first.name.clone());
            }
            same
        });
        let mut sides = sides.into_iter();
        let Some(first) = sides.next() else { continue };
        let untested = |to| {
            let (p50, p99) = (Effect::default(), Effect::default());
            Comparison { dimension, from: first.clone(), to, p50, p99, maxima: None }
        };
        pairs.extend(sides.map(untested));
    }
    pairs
}

/// Where a series stands in this dimension, and the name of that place; `None`: it has no place there.
fn position(run: &Run, dimension: Dimension, message: &Message<'_>) -> Option<(u64, String)> {
    let parameters = message.parameters;
    match dimension {
        Dimension::Size => Some((parameters.size, bytes(parameters.size))),
        // A round trip has no rate of its own. Rare messages first.
        Dimension::Rate if parameters.mode == Mode::PingPong => None,
        Dimension::Rate => {
            let name =
                if parameters.mode == Mode::Saturated { "saturated traffic".to_owned() } else { brief(parameters) };
            Some((u64::MAX - parameters.interval_ns.unwrap_or(0).unsigned_abs(), name))
        }
        Dimension::Placement => {
            let core = same_core(run, message);
            let order = match parameters.place {
                Placement::SameCpu => 0,
                Placement::TwoCpus if core => 1,
                Placement::TwoCpus => 2,
                Placement::AnyCpu => 3,
            };
            Some((order, if core { "two threads of one core" } else { place(parameters) }.to_owned()))
        }
        Dimension::Priority => {
            let index = run.conditions.iter().position(|set| set.label == message.conditions)?;
            let set = &run.conditions[index];
            let order = index as u64 + if set.is_real_time() { 1 << 32 } else { 0 };
            (!set.refuses(POLICY)).then(|| (order, message.conditions.clone()))
        }
    }
}

fn same_core(run: &Run, message: &Message<'_>) -> bool {
    let parameters = message.parameters;
    let Some((a, b)) = parameters.sender_cpu.zip(parameters.receiver_cpu) else { return false };
    run.notices.iter().any(
        |notice| matches!(notice, Notice::SameCore { pairs } if pairs.contains(&[a, b]) || pairs.contains(&[b, a])),
    )
}

/// What was asked of a set, without the policy.
fn other_conditions(run: &Run, label: &str) -> String {
    let set = run.conditions.iter().find(|set| set.label == label);
    let settings = set.into_iter().flat_map(|set| &set.settings);
    let asked = settings.filter(|setting| setting.condition != POLICY && setting.asked.is_some());
    asked.map(|setting| format!("{}={:?};", setting.condition, setting.asked)).collect()
}

// The remedy for slow messages that a run can judge: another mechanism than a pipe, for each place.

/// The mechanism that programs use most.
pub(super) const USUAL: &str = "pipe";
/// A gain smaller than this, in ns, or than this part of the time, is no reason for another mechanism.
const WORTH_NS: i64 = 2_000;
const WORTH_PART: i64 = 10;

/// The same messages through a pipe and through another mechanism.
#[derive(Clone, Copy)]
struct Case<'a> {
    usual: Message<'a>,
    other: Message<'a>,
}

/// A case, and what the other mechanism does.
type Tested<'c, 'a> = (&'c Case<'a>, &'c Effect);

impl<'a> Case<'a> {
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
    let effects = at_p50(run, cases.iter().map(|case| [case.usual.series, case.other.series]));
    let by_place = gathered(cases.iter().zip(&effects).map(|tested| (tested.0.other.parameters.place, tested)));
    by_place.into_iter().flat_map(|(place, cases)| of_place(run, place, &cases)).collect()
}

/// Round trips under the first conditions, for each size and place.
fn cases<'a>(series: &[Message<'a>]) -> Vec<Case<'a>> {
    let Some(first) = series.first() else { return Vec::new() };
    let as_found: Vec<Message<'a>> =
        series.iter().copied().filter(|message| message.conditions == first.conditions && sleeps(message)).collect();
    let cases_of = |contest: Contest<'a>| {
        let (usual, others): (Vec<_>, Vec<_>) =
            contest.series.into_iter().partition(|message| message.subject == USUAL);
        let usual = usual.into_iter().next();
        others.into_iter().filter_map(move |other| Some(Case { usual: usual?, other }))
    };
    let ping = contests(&as_found).into_iter().filter(|contest| contest.common.mode == Mode::PingPong);
    // Of several pairs of CPUs, each place has its first.
    let all: Vec<Case<'a>> = ping.flat_map(cases_of).collect();
    let key =
        |case: &Case<'a>| (case.other.parameters.place, case.other.series.subject.as_str(), case.other.parameters.size);
    grouped(&all, key).into_iter().map(|(_, cases)| cases[0]).collect()
}

fn of_place<'a>(run: &'a Run, place: Placement, cases: &[Tested<'_, 'a>]) -> Vec<Candidate<'a>> {
    let mechanisms = grouped(cases, |(case, _)| case.other.series.subject.as_str());
    let worth = |(_, effect): &Tested<'_, 'a>| {
        let part = effect.before_ns.unwrap_or(0) / WORTH_PART;
        effect.better().is_some_and(|gain| gain.ns >= WORTH_NS.max(part))
    };
    let worse = |(_, effect): &Tested<'_, 'a>| effect.outcome == Outcome::Worse;
    let mean = |cases: &[Tested<'_, 'a>]| {
        cases.iter().map(|(case, _)| case.ratio().ln()).sum::<f64>() / cases.len().max(1) as f64
    };
    let mut good: Vec<(f64, Vec<Case<'a>>)> = mechanisms
        .iter()
        .filter(|(_, cases)| cases.iter().any(worth) && !cases.iter().any(worse))
        .map(|(_, cases)| (mean(cases), cases.iter().map(|(case, _)| **case).collect()))
        .collect();
    good.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some(((_, best), others)) = good.split_first() else { return Vec::new() };
    let equal = others.iter().map(|(_, cases)| cases).filter(|cases| equal(run, best, cases));
    std::iter::once(best).chain(equal).map(|cases| candidate(place, cases)).collect()
}

/// Whether no common size shows a difference at p50.
fn equal<'a>(run: &Run, best: &[Case<'a>], other: &[Case<'a>]) -> bool {
    let both = |case: &Case<'a>| {
        let same = other.iter().find(|theirs| theirs.other.parameters.size == case.other.parameters.size)?;
        Some([case.other.series, same.other.series])
    };
    let effects = at_p50(run, best.iter().filter_map(both));
    !effects.is_empty() && effects.iter().all(|effect| effect.outcome == Outcome::NoDifference)
}

fn candidate<'a>(on: Placement, cases: &[Case<'a>]) -> Candidate<'a> {
    let first = cases[0].other;
    let name = sanitize(&first.subject);
    let about = &first.series.about;
    let trial = |case: &Case<'a>| Trial {
        case: i64::try_from(case.other.parameters.size).unwrap_or(i64::MAX),
        name: size,
        before: case.usual.series,
        after: case.other.series,
    };
    Candidate {
        id: format!("{name} {on}"),
        cause: format!("pipe {on}"),
        trials: cases.iter().map(trial).collect(),
        price: Price { program: Some("another design".to_owned()), ..Price::default() },
        code: Code::of_series(about, about.call.as_deref().map(sanitize)),
        ..Candidate::instead(Goal::PassMessages, change(&first), USUAL.to_owned(), trial(&cases[0]))
    }
}

/// What is used instead of the usual mechanism: `posix-mq on one CPU`.
pub(super) fn change(message: &Message<'_>) -> String {
    format!("{} on {}", sanitize(&message.subject), place(message.parameters))
}

fn size(size: i64) -> String {
    bytes(size.unsigned_abs())
}

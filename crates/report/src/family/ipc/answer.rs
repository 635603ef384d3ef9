//! Mechanisms against each other, and whether size, rate, placement and priority matter, in a sentence each and as a table.
//!
//! Series of a contest differ in mechanism and way of receiving only. The quickest is tested against all others on their
//! rounds.

use punctual_record::experiment::ipc::Mode;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Paint, Row, Section};
use crate::evidence::maxima::{MIN_ROUNDS, Maxima};
use crate::evidence::{Effect, Outcome};
use crate::family::ipc::matters::{Comparison, Dimension, comparisons};
use crate::family::ipc::traffic::{Message, brief, bytes, place};
use crate::family::shared::{ALWAYS, measured};
use crate::format::{grouped, sentence, spoken, unbroken, units};
use crate::verdict::{Advice, Answer};

/// The sentences. Where messages are one part of a run, one short sentence on the placement.
pub(super) fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let messages = measured(series, Experiment::ipc);
    let all = comparisons(run, &messages);
    if series.len() < run.series.len() {
        return Answer::of(short(&all).into_iter().collect());
    }
    if all.is_empty() {
        return Answer::of(alone(&messages).into_iter().collect());
    }
    Answer::of(questions(&all).iter().flat_map(|question| sentences(run, question)).collect())
}

/// Where there is one alone: `A message of 64 B by pipe takes 6.16 µs at p50 (there and back, one CPU).`
fn alone(messages: &[Message<'_>]) -> Option<String> {
    // Saturated latency is time in a queue.
    let mut unqueued = messages.iter().filter(|message| message.parameters.mode != Mode::Saturated);
    let (Some(message), None) = (unqueued.next(), unqueued.next()) else { return None };
    let parameters = message.parameters;
    let takes = spoken::duration(message.summary.p50?);
    let (size, by) = (unbroken(&bytes(parameters.size)), super::matters::naming_of(message));
    Some(format!("A message of {size} by {by} takes {takes} at p50 ({}, {}).", brief(parameters), place(parameters)))
}

/// `64 B there and back take 6.16 µs on one CPU, 60.1 µs on two CPUs (pipe).`
fn short(all: &[Comparison<'_>]) -> Option<String> {
    let shown = |its: &&Comparison<'_>| its.dimension == Dimension::Placement && differs(&its.p50);
    let its = all.iter().filter(shown).find(|its| its.to.message.subject == "pipe").or(all.iter().find(shown))?;
    let parameters = its.to.message.parameters;
    let [from, to] = [its.p50.before_ns?, its.p50.after_ns?].map(spoken::duration);
    let (size, way) = (unbroken(&bytes(parameters.size)), brief(parameters));
    let mechanism = super::matters::naming_of(&its.to.message);
    Some(format!("{size} {way} take {from} on {}, {to} on {} ({mechanism}).", its.from.name, its.to.name))
}

/// The comparisons of one question, grouped by what else they have in common.
type Question<'c, 'a> = Vec<Vec<&'c Comparison<'a>>>;

/// A question for each dimension; for placement and priority, one for each value.
fn questions<'c, 'a>(all: &'c [Comparison<'a>]) -> Vec<Question<'c, 'a>> {
    // Saturated latency is time in a queue: it answers where nothing else does.
    let queued = |its: &Comparison<'_>| {
        matches!(its.dimension, Dimension::Size | Dimension::Placement)
            && its.to.message.parameters.mode == Mode::Saturated
    };
    let only = |dimension| all.iter().filter(|its| its.dimension == dimension).all(queued);
    let refs: Vec<&Comparison<'a>> = all.iter().filter(|its| !queued(its) || only(its.dimension)).collect();
    let key = |its: &&'c Comparison<'a>| match its.dimension {
        Dimension::Size | Dimension::Rate => (its.dimension, ""),
        Dimension::Placement | Dimension::Priority => (its.dimension, its.to.name.as_str()),
    };
    let base = |its: &&Comparison<'_>| std::ptr::from_ref(its.from.message.series);
    grouped(&refs, key)
        .into_iter()
        .map(|(_, its)| grouped(&its, base).into_iter().map(|(_, its)| its).collect())
        .collect()
}

fn differs(effect: &Effect) -> bool {
    matches!(effect.outcome, Outcome::Better | Outcome::Worse)
}

/// The figure at which a comparison shows a difference.
fn shown<'e>(its: &'e Comparison<'_>) -> Option<(&'static str, &'e Effect)> {
    [("p50", &its.p50), ("p99", &its.p99)].into_iter().find(|(_, effect)| differs(effect))
}

fn sentences(run: &Run, question: &Question<'_, '_>) -> Vec<String> {
    // The largest size, the most frequent message: the last of its group.
    let differing =
        question.iter().find_map(|group| Some((group, *group.iter().rev().find(|its| shown(its).is_some())?)));
    let mut all = vec![match differing {
        Some((group, its)) => different(run, question, group, its),
        None => alike(run, question),
    }];
    all.extend(steady(run, question));
    all
}

/// `Size matters: 9.42 µs with 8 B, 41.0 µs with 64 KiB at p50 (posix-mq, one CPU). No difference is shown up to 1 KiB.`
fn different(run: &Run, question: &Question<'_, '_>, group: &[&Comparison<'_>], its: &Comparison<'_>) -> String {
    let (word, _) = its.dimension.words();
    let (at, effect) = shown(its).unwrap_or(("p50", &its.p50));
    let mut text = format!("{word} matters: {} at {at} ({}).", both(its, effect), its.rest(run));
    let same = group.iter().take_while(|its| its.p50.outcome == Outcome::NoDifference && shown(its).is_none());
    if let Some(last) = same.last() {
        let up_to = if its.dimension == Dimension::Size { "up to" } else { "down to" };
        text.push_str(&format!(" No difference is shown {up_to} {}.", unbroken(&last.to.name)));
    }
    let smaller = |its: &Comparison<'_>| shown(its).is_some_and(|(_, effect)| effect.outcome == Outcome::Better);
    let lead = smaller(its);
    let of = |wanted: fn(bool, bool) -> bool| {
        let counts = |group: &&Vec<&Comparison<'_>>| {
            group.iter().rev().find(|its| shown(its).is_some()).is_some_and(|its| wanted(smaller(its), lead))
        };
        question.iter().filter(counts).count()
    };
    let (like, unlike) = (of(|its, lead| its == lead), of(|its, lead| its != lead));
    if question.len() > 1 {
        text.push_str(&format!(" Shown in {} of {} comparisons", like + unlike, question.len()));
        if unlike > 0 {
            text.push_str(&format!(", in {unlike} of them the other way"));
        }
        text.push('.');
    }
    text
}

/// No difference, or no test.
fn alike(run: &Run, question: &Question<'_, '_>) -> String {
    let all = || question.iter().filter_map(|group| group.last());
    let tested = || all().filter(|its| its.p50.outcome == Outcome::NoDifference);
    let Some(its) = tested().next() else {
        let Some(its) = all().next() else { return String::new() };
        let (word, _) = its.dimension.words();
        let why = its.p50.why.as_deref().unwrap_or("a figure is missing");
        return format!("{word} is not tested: {}", sentence(why));
    };
    let (word, _) = its.dimension.words();
    let mut text = format!("{word} shows no difference: {} at p50 ({}).", both(its, &its.p50), its.rest(run));
    let (tested, all) = (tested().count(), all().count());
    if all > 1 {
        let beside = if tested == all { String::new() } else { format!("; {} not tested", all - tested) };
        text.push_str(&format!(" So in {tested} of {all} comparisons{beside}."));
    }
    text
}

/// `9.42 µs with 8 B, 41.0 µs with 64 KiB`
fn both(its: &Comparison<'_>, effect: &Effect) -> String {
    let (_, preposition) = its.dimension.words();
    let one = |ns: Option<i64>, name: &str| format!("{} {preposition} {}", unbroken(&units::known(ns)), unbroken(name));
    format!("{}, {}", one(effect.before_ns, &its.from.name), one(effect.after_ns, &its.to.name))
}

/// Whether a policy steadies the maxima.
fn steady(run: &Run, question: &Question<'_, '_>) -> Option<String> {
    let all: Vec<&Comparison<'_>> = question.iter().flatten().copied().collect();
    let first = all.first().filter(|its| its.dimension == Dimension::Priority)?;
    let tested = || all.iter().filter_map(|its| Some((*its, its.maxima?)));
    let told = tested().find(|(_, maxima)| maxima.outcome != Outcome::NoDifference).or_else(|| tested().next());
    let Some((its, maxima)) = told else {
        return Some(format!("Its maxima are not tested: fewer than {MIN_ROUNDS} rounds in common."));
    };
    let policy = unbroken(&first.to.name);
    let (says, count) = match maxima.outcome {
        Outcome::Better => ("steadies the maxima", format!("smaller in {}", maxima.smaller)),
        Outcome::Worse => ("makes the maxima larger", format!("larger in {}", maxima.rounds - maxima.smaller)),
        _ => ("is not shown to steady the maxima", format!("smaller in {}", maxima.smaller)),
    };
    let figures = spoken::instead(maxima.after_ns, maxima.before_ns);
    let mut text = format!("{policy} {says}: the largest of a round is {figures}, {count} of {} rounds", maxima.rounds);
    if question.len() > 1 {
        text.push_str(&format!(" ({})", its.rest(run)));
    }
    Some(sentence(&text))
}

/// The heading of the maxima.
const MAXIMA: &str = "largest of a round";

/// Every comparison of the run.
pub(super) fn section(run: &Run, series: &[Message<'_>]) -> Option<Section> {
    let all = comparisons(run, series);
    let refs: Vec<&Comparison<'_>> = all.iter().collect();
    let any_maxima = all.iter().any(|its| its.maxima.is_some());
    let columns = Columns::new()
        .left("messages", ALWAYS, |its: &&Comparison<'_>| its.rest(run))
        .right("p50", ALWAYS, |its| arrow(&its.p50))
        .left("is", ALWAYS, |its| outcome(its.p50.outcome).to_owned())
        .right("p99", 60, |its| arrow(&its.p99))
        .left("p99 is", 59, |its| outcome(its.p99.outcome).to_owned())
        .right(MAXIMA, 50, |its| its.maxima.map_or(units::ABSENT.to_owned(), |its| largest(&its)))
        .only_if(any_maxima)
        .left("it is", 49, |its| its.maxima.map_or(units::ABSENT, |its| outcome(its.outcome)).to_owned())
        .only_if(any_maxima);
    let mut rows = Vec::new();
    let varied = |its: &&Comparison<'_>| (its.dimension, its.from.name.clone(), its.to.name.clone());
    for ((dimension, from, to), group) in grouped(&refs, varied) {
        rows.push(Row::Label(format!("{}, {from} → {to}:", dimension.words().0)));
        rows.extend(group.iter().map(|its| columns.row(its, Paint::Plain)));
    }
    let about =
        "Series that differ in nothing else, tested on their interleaved rounds and corrected for their number.";
    let maxima = "Largest of a round: medians, and the rounds in which it is smaller.";
    let notes =
        [Note::always(about), Note::on(MAXIMA, maxima)].into_iter().take(if any_maxima { 2 } else { 1 }).collect();
    let table = Block::Table(columns.table(rows));
    (!all.is_empty())
        .then(|| Section::new("ipc: effect of size, rate, placement and policy").with(table).with(Block::Legend(notes)))
}

fn arrow(effect: &Effect) -> String {
    format!("{} → {}", units::known(effect.before_ns), units::known(effect.after_ns))
}

fn largest(its: &Maxima) -> String {
    let [from, to] = [its.before_ns, its.after_ns].map(units::duration);
    format!("{from} → {to} ({}/{})", its.smaller, its.rounds)
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "smaller",
        Outcome::Worse => "larger",
        Outcome::NoDifference => "not shown to differ",
        Outcome::NotTested => "not tested",
    }
}

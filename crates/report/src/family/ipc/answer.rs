//! Mechanisms against each other, and whether size, rate, placement and priority matter, in a sentence each and as a table.
//!
//! Series of a contest differ in mechanism and way of receiving only. The quickest is tested against all others on their
//! rounds.

use punctual_record::experiment::ipc::Mode;
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Paint, Row, Section};
use crate::evidence::rounds::{MIN_MAXIMA, Maxima};
use crate::evidence::{Effect, Outcome};
use crate::family::ipc::matters::{Comparison, Dimension, comparisons};
use crate::family::ipc::screen::Field;
use crate::family::ipc::traffic::{Message, brief, bytes, place};
use crate::family::shared::{ALWAYS, measured};
use crate::format::{grouped, sentence, spoken, unbroken, units};
use crate::verdict::{Advice, Answer};

/// The sentences. Where messages are one part of a run, one short sentence on the placement.
pub(super) fn answer(run: &Run, series: &[&Series], own: &[&Advice]) -> Answer {
    let messages = measured(series, Experiment::ipc);
    let all = comparisons(run, &messages);
    let field = Field::new(&messages);
    let picture = field.as_ref().and_then(|field| field.picture(own));
    if series.len() < run.series.len() {
        return Answer { picture, ..Answer::in_words(short(&all).into_iter().collect()) };
    }
    let (mut said, named): (Vec<String>, Vec<Option<String>>) =
        field.iter().flat_map(|field| field.sentences(run)).unzip();
    said.extend(questions(&all).iter().flat_map(|question| sentences(run, question)));
    if all.is_empty() && named.is_empty() {
        said.extend(alone(&messages));
    }
    let table = field.map(|field| field.table(named.into_iter().flatten().collect()));
    Answer { table, picture, ..Answer::in_words(said) }
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
    let shown = |comparison: &&Comparison<'_>| comparison.dimension == Dimension::Placement && differs(&comparison.p50);
    let comparison = all
        .iter()
        .filter(shown)
        .find(|comparison| comparison.to.message.subject == "pipe")
        .or(all.iter().find(shown))?;
    let parameters = comparison.to.message.parameters;
    let [from, to] = [comparison.p50.before_ns?, comparison.p50.after_ns?].map(spoken::duration);
    let (size, way) = (unbroken(&bytes(parameters.size)), brief(parameters));
    let mechanism = super::matters::naming_of(&comparison.to.message);
    Some(format!("{size} {way} take {from} on {}, {to} on {} ({mechanism}).", comparison.from.name, comparison.to.name))
}

/// The comparisons of one question, grouped by what else they have in common.
type Question<'c, 'a> = Vec<Vec<&'c Comparison<'a>>>;

/// A question for each dimension; for placement and priority, one for each value.
fn questions<'c, 'a>(all: &'c [Comparison<'a>]) -> Vec<Question<'c, 'a>> {
    // Saturated latency is time in a queue: it answers where nothing else does.
    let queued = |comparison: &Comparison<'_>| {
        matches!(comparison.dimension, Dimension::Size | Dimension::Placement)
            && comparison.to.message.parameters.mode == Mode::Saturated
    };
    let only = |dimension| all.iter().filter(|comparison| comparison.dimension == dimension).all(queued);
    let refs: Vec<&Comparison<'a>> =
        all.iter().filter(|comparison| !queued(comparison) || only(comparison.dimension)).collect();
    let key = |comparison: &&'c Comparison<'a>| match comparison.dimension {
        Dimension::Size | Dimension::Rate => (comparison.dimension, ""),
        Dimension::Placement | Dimension::Priority => (comparison.dimension, comparison.to.name.as_str()),
    };
    let base = |comparison: &&Comparison<'_>| std::ptr::from_ref(comparison.from.message.series);
    grouped(&refs, key)
        .into_iter()
        .map(|(_, comparison)| grouped(&comparison, base).into_iter().map(|(_, comparison)| comparison).collect())
        .collect()
}

fn differs(effect: &Effect) -> bool {
    matches!(effect.outcome, Outcome::Better | Outcome::Worse)
}

/// The figure at which a comparison shows a difference.
fn shown<'e>(comparison: &'e Comparison<'_>) -> Option<(&'static str, &'e Effect)> {
    [("p50", &comparison.p50), ("p99", &comparison.p99)].into_iter().find(|(_, effect)| differs(effect))
}

/// The last comparison of a group that shows a difference.
fn last_shown<'c, 'a>(group: &[&'c Comparison<'a>]) -> Option<&'c Comparison<'a>> {
    group.iter().rev().copied().find(|comparison| shown(comparison).is_some())
}

fn sentences(run: &Run, question: &Question<'_, '_>) -> Vec<String> {
    // The largest size, the most frequent message: the last of its group.
    let differing = question.iter().find_map(|group| Some((group, last_shown(group)?)));
    let mut all = vec![match differing {
        Some((group, comparison)) => different(run, question, group, comparison),
        None => alike(run, question),
    }];
    all.extend(steady(run, question));
    all
}

/// `Size matters: 9.42 µs with 8 B, 41.0 µs with 64 KiB at p50 (posix-mq, one CPU). No difference is shown up to 1 KiB.`
fn different(run: &Run, question: &Question<'_, '_>, group: &[&Comparison<'_>], comparison: &Comparison<'_>) -> String {
    let (word, _) = comparison.dimension.words();
    let (at, effect) = shown(comparison).unwrap_or(("p50", &comparison.p50));
    let mut text = format!("{word} matters: {} at {at} ({}).", both(comparison, effect), comparison.rest(run));
    let same = group
        .iter()
        .take_while(|comparison| comparison.p50.outcome == Outcome::NoDifference && shown(comparison).is_none());
    if let Some(last) = same.last() {
        let up_to = if comparison.dimension == Dimension::Size { "up to" } else { "down to" };
        text.push_str(&format!(" No difference is shown {up_to} {}.", unbroken(&last.to.name)));
    }
    let smaller =
        |comparison: &Comparison<'_>| shown(comparison).is_some_and(|(_, effect)| effect.outcome == Outcome::Better);
    let all: Vec<&Comparison<'_>> = question.iter().filter_map(|group| last_shown(group)).collect();
    let unlike = all.iter().filter(|other| smaller(other) != smaller(comparison)).count();
    if question.len() > 1 {
        text.push_str(&format!(" Shown in {} of {} comparisons", all.len(), question.len()));
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
    let tested = || all().filter(|comparison| comparison.p50.outcome == Outcome::NoDifference);
    let Some(comparison) = tested().next() else {
        let Some(comparison) = all().next() else { return String::new() };
        let (word, _) = comparison.dimension.words();
        let why = comparison.p50.why.as_deref().unwrap_or("a figure is missing");
        return format!("{word} is not tested: {}", sentence(why));
    };
    let (word, _) = comparison.dimension.words();
    let mut text =
        format!("{word} shows no difference: {} at p50 ({}).", both(comparison, &comparison.p50), comparison.rest(run));
    let (tested, all) = (tested().count(), all().count());
    if all > 1 {
        let beside = if tested == all { String::new() } else { format!("; {} not tested", all - tested) };
        text.push_str(&format!(" So in {tested} of {all} comparisons{beside}."));
    }
    text
}

/// `9.42 µs with 8 B, 41.0 µs with 64 KiB`
fn both(comparison: &Comparison<'_>, effect: &Effect) -> String {
    let (_, preposition) = comparison.dimension.words();
    let one = |ns: Option<i64>, name: &str| format!("{} {preposition} {}", unbroken(&units::known(ns)), unbroken(name));
    format!("{}, {}", one(effect.before_ns, &comparison.from.name), one(effect.after_ns, &comparison.to.name))
}

/// Whether a policy steadies the maxima.
fn steady(run: &Run, question: &Question<'_, '_>) -> Option<String> {
    let all: Vec<&Comparison<'_>> = question.iter().flatten().copied().collect();
    let first = all.first().filter(|comparison| comparison.dimension == Dimension::Priority)?;
    let tested = || all.iter().filter_map(|comparison| Some((*comparison, comparison.maxima?)));
    let told = tested().find(|(_, maxima)| maxima.outcome != Outcome::NoDifference).or_else(|| tested().next());
    let Some((comparison, maxima)) = told else {
        return Some(format!("Its maxima are not tested: fewer than {MIN_MAXIMA} rounds in common."));
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
        text.push_str(&format!(" ({})", comparison.rest(run)));
    }
    Some(sentence(&text))
}

/// The heading of the maxima.
const MAXIMA: &str = "largest of a round";

/// Every comparison of the run.
pub(super) fn section(run: &Run, series: &[Message<'_>]) -> Option<Section> {
    let all = comparisons(run, series);
    let refs: Vec<&Comparison<'_>> = all.iter().collect();
    let any_maxima = all.iter().any(|comparison| comparison.maxima.is_some());
    let columns = Columns::new()
        .left("messages", ALWAYS, |comparison: &&Comparison<'_>| comparison.rest(run))
        .right("p50", ALWAYS, |comparison| arrow(&comparison.p50))
        .left("is", ALWAYS, |comparison| outcome(comparison.p50.outcome).to_owned())
        .right("p99", 60, |comparison| arrow(&comparison.p99))
        .left("p99 is", 59, |comparison| outcome(comparison.p99.outcome).to_owned())
        .right(MAXIMA, 50, |comparison| units::or_absent(comparison.maxima, |comparison| largest(&comparison)))
        .only_if(any_maxima)
        .left("it is", 49, |comparison| {
            comparison.maxima.map_or(units::ABSENT, |comparison| outcome(comparison.outcome)).to_owned()
        })
        .only_if(any_maxima);
    let mut rows = Vec::new();
    let varied =
        |comparison: &&Comparison<'_>| (comparison.dimension, comparison.from.name.clone(), comparison.to.name.clone());
    for ((dimension, from, to), group) in grouped(&refs, varied) {
        rows.push(Row::Label(format!("{}, {from} → {to}:", dimension.words().0)));
        rows.extend(group.iter().map(|comparison| columns.row(comparison, Paint::Plain)));
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

fn largest(comparison: &Maxima) -> String {
    let [from, to] = [comparison.before_ns, comparison.after_ns].map(units::duration);
    format!("{from} → {to} ({}/{})", comparison.smaller, comparison.rounds)
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Better => "smaller",
        Outcome::Worse => "larger",
        Outcome::NoDifference => "not shown to differ",
        Outcome::NotTested => "not tested",
    }
}

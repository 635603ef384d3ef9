//! What remedies did to a program on which they were tried: advice, and a section with each.
//!
//! Takes the [`Trial`](punctual_record::Trial)s of a run. Three things are different: no difference shown, too few wake-ups to test, and
//! refused. A remedy that was refused is no advice; it is among what could not be tried.

mod acts;
mod judge;

pub(crate) use crate::trials::judge::{advice, untried};

use punctual_record::{Run, TrialRefused};

use crate::document::{Block, Section};
use crate::evidence::pairs::Change;
use crate::evidence::{Effect, Outcome};
use crate::format::{listed, sanitize, sentence, spoken, unbroken, units};
use crate::trials::judge::{Judged, doubt, judged, trials};
use crate::verdict::{Case, Standing, Verdict};

// Remedies in words: a sentence for each, and a line for the first screen.

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

/// What is no advice, in a line for the first screen.
pub(crate) fn summary(run: &Run, verdict: &Verdict) -> Vec<Block> {
    let names = |standing: Standing| -> Vec<String> {
        let advices = verdict.tried.iter().filter(|advice| advice.standing == standing && advice.experiment == "why");
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
    if texts.is_empty() { Vec::new() } else { vec![Block::Paragraph(texts.join(" "))] }
}

/// What left too little time, where one reason holds for every remedy that was tried.
fn cut(run: &Run) -> Option<String> {
    let mut reasons = trials(run).filter(|trial| !trial.pairs.is_empty()).map(|trial| trial.refused.as_ref());
    let first = reasons.next()??;
    reasons.all(|reason| reason == Some(first)).then(|| format!("Not tested, because {}", reason(first)))
}

/// What was not tried, a sentence for each reason.
fn not_tried(run: &Run) -> Vec<String> {
    let mut reasons: Vec<(Option<&TrialRefused>, Vec<String>)> = Vec::new();
    for trial in trials(run).filter(|trial| trial.pairs.is_empty()) {
        let why = trial.refused.as_ref();
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(sanitize(&trial.remedy)),
            None => reasons.push((why, vec![sanitize(&trial.remedy)])),
        }
    }
    let sentence = |(why, names): (Option<&TrialRefused>, Vec<String>)| {
        let why = why.map_or_else(|| "there was no time for it".to_owned(), reason);
        format!("Not tried, because {why}: {}.", listed(&names, 5))
    };
    reasons.into_iter().map(sentence).collect()
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

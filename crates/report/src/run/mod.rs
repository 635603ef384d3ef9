//! A run as a [`Document`]: title, machine, findings per experiment, missing subjects, disturbance and notices.
//!
//! The first screen has the answer, one table, what to do, and how far to trust it. *What to do* in full has each advice with the lines to
//! write, and what was tried without being an advice. The [`Verdict`] collects what the families propose, tests it, and lets them answer.

mod legible;
mod paths;

use std::cmp::Reverse;

use punctual_record::{Notice, Run, Series, Tool};

use crate::document::notice::phrase;
use crate::document::{Album, Block, Chapter, Document, Item, Note, Phrase, Section, machine};
use crate::format::{distinct, listed, naming, sanitize, sentence};
use crate::pictures::dots;
use crate::run::legible::legible;
use crate::verdict::gate::Gate;
use crate::verdict::{
    Advice, Answer, EMULATED, Goal, Level, Standing, Trust, Untried, Verdict, line_of, lines, rank, tested,
};
use crate::{causes, family, pictures, trials};

impl Document {
    /// What is said of a run; of its pictures, those that can be drawn in letters.
    #[must_use]
    pub fn from_run(run: &Run) -> Self {
        document(run, false)
    }

    /// The same with all pictures, for which histograms have to be decoded.
    #[must_use]
    pub fn illustrated(run: &Run) -> Self {
        document(run, true)
    }
}

fn document(run: &Run, illustrated: bool) -> Document {
    let gate = Gate::from_run(run);
    let run = &legible(run);
    let mut lead = vec![machine::machine(run)];
    lead.extend(machine::sources(run));
    let Answered { verdict, mut answers, advised } = answered(run, gate);
    let mut chapters = Vec::new();
    chapters.extend(limits(&verdict).map(Chapter::from_section));
    chapters.extend(advice_in_full(&verdict).map(Chapter::from_section));
    let experiments = family::experiments(run);
    let why =
        causes::sections(run, illustrated).map(|sections| trials::section(run).into_iter().chain(sections).collect());
    let why = why.map(|sections| Chapter { title: "Why late".to_owned(), sections });
    let (first, later) = if causes::asked(run) { (why, None) } else { (None, why) };
    chapters.extend(first);
    chapters.extend(paths::section(run).map(Chapter::from_section));
    if experiments.is_empty() && run.causes.is_none() && run.paths.is_empty() {
        let nothing = Section::default().with(Block::Paragraph("Nothing was measured.".to_owned()));
        chapters.push(Chapter { title: "Figures".to_owned(), sections: vec![nothing] });
    }
    let mut first_picture = None;
    for ((experiment, series), answer) in experiments.iter().zip(&mut answers) {
        let family = family::named(experiment);
        let mut sections = (family.sections)(run, series);
        if illustrated {
            let overview = answer.picture.take().or_else(|| dots::overview(run, series, &advised));
            // The first screen has one picture.
            let others = if first_picture.is_none() {
                first_picture = overview;
                None
            } else {
                overview
            };
            let albums = others.into_iter().chain(pictures::albums(run, series, &advised));
            let blocks: Vec<Block> = albums.map(Block::Album).collect();
            sections.push(Section { blocks, ..Section::default() });
        }
        let title = if family.title.is_empty() { *experiment } else { family.title };
        chapters.push(Chapter { title: title.to_owned(), sections });
    }
    chapters.extend(later);
    chapters.extend(machine::not_measured(run).map(Chapter::from_section));
    let mut closing = vec![machine::disturbance(run)];
    closing.extend(notices(run));
    chapters.push(Chapter { title: "Disturbance and notices".to_owned(), sections: closing });
    let head = first_screen(run, &verdict, answers, first_picture);
    Document { title: title(run), command: run.command.join(" "), made: made(run), head, lead, chapters }
}

/// When, for how long, with what.
fn made(run: &Run) -> String {
    let seconds = run.elapsed_ns as f64 / 1e9;
    let Tool { name, version } = &run.tool;
    format!("Measured {:.0} for {seconds:.1} s with {name} {version}.", run.started)
}

/// Every finding of the gate, where its first line has not all of them.
fn limits(verdict: &Verdict) -> Option<Section> {
    /// Most findings of a report.
    const MOST: usize = 300;
    let findings = verdict.gate.as_ref().map(|gate| gate.findings.as_slice()).filter(|findings| findings.len() > 1)?;
    let shown = findings.iter().take(MOST).cloned();
    let more = findings.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {more} more"));
    Some(Section::new("Limits").with(Block::said(shown.chain(more))))
}

/// `How late: AMD EPYC 7763, Linux 6.18.44, 2026-11-22`. What is unknown is left out.
fn title(run: &Run) -> String {
    let subject = match run.subcommand.as_str() {
        "checkup" | "wait" | "pace" => "How late".to_owned(),
        "why" if !run.paths.is_empty() => "Through the kernel".to_owned(),
        "why" => causes::program(run).map_or("Why late".to_owned(), |program| format!("Why {program} is late")),
        name => format!("punctual {name}").trim_end().to_owned(),
    };
    // The rest of the release names a build; the machine's line has it.
    let version = |release: &String| release.split('-').next().map(|version| format!("Linux {version}"));
    let mut facts: Vec<String> = Vec::new();
    // Merged runs may be of several machines.
    if run.merged_from.is_empty() {
        facts.extend(run.host.cpu_model.clone());
        facts.extend(run.host.kernel.as_ref().and_then(version));
    }
    facts.push(run.started.to_string().chars().take(DATE).collect());
    format!("{subject}: {}", facts.join(", "))
}

/// Characters of a date in the form of ISO 8601.
const DATE: usize = 10;

/// The notices of a run, the most severe first; `None` where there are none. What a check-up could not try stands under *what to do* and not here.
fn notices(run: &Run) -> Option<Section> {
    let is_advice =
        |notice: &&Notice| matches!(notice, Notice::ConditionsSkipped { .. } | Notice::Unseen(_)) && run.is_checkup();
    let here = run.notices.iter().filter(|notice| !is_advice(notice));
    let clean = |phrase: Phrase| Phrase {
        text: sanitize(&phrase.text),
        remedy: phrase.remedy.map(|remedy| remedy.with_texts(sanitize)),
        ..phrase
    };
    let mut phrases: Vec<Phrase> = here.map(|notice| clean(phrase(notice))).collect();
    phrases.sort_by_key(|phrase| Reverse(phrase.level));
    phrases.dedup();
    (!phrases.is_empty()).then(|| Section::new("Notices").with(Block::Notices(phrases)))
}

/// Most advices on the first screen.
const MOST: usize = 3;

/// The sections of the first screen; where nothing was measured, one with the reason.
fn first_screen(run: &Run, verdict: &Verdict, answers: Vec<Answer>, picture: Option<Album>) -> Vec<Section> {
    // The verdict on limits comes first: a build reads one line.
    let gate = verdict.gate.as_ref().map(|gate| Section::default().with(Block::Line(gate.sentence.clone())));
    let why = if causes::asked(run) { causes::figures(run) } else { Vec::new() };
    if run.series.is_empty() && run.paths.is_empty() && why.is_empty() {
        let incomplete = incomplete(run).map(|warning| Section::default().with(warning));
        return gate.into_iter().chain(incomplete).chain(nothing(run)).collect();
    }
    let mut top = Section { undecided: verdict.trust.level > Level::Fair, ..Section::default() };
    // What else ran beside another program is among its causes.
    let watched = causes::program(run).is_some();
    top.blocks.extend(incomplete(run));
    top.blocks.extend(machine::merged(run).map(Block::Paragraph));
    let emulated = |by: &String| format!("Emulated: {by} ran this program. {EMULATED}");
    top.blocks.extend(run.host.emulator.as_ref().map(emulated).map(Block::Warning));
    if verdict.trust.busy && !watched {
        top.blocks.push(Block::Warning(format!("Busy machine: {}", verdict.trust.beside.join(" "))));
    }
    // A check-up asks one question; the answers of its other parts are in the full report.
    let most = if run.is_checkup() { 1 } else { usize::MAX };
    top.blocks.extend(verdict.answer.iter().take(most).map(|sentence| Block::Line(sentence.clone())));
    let mut sections: Vec<Section> = gate.into_iter().chain([top]).collect();
    if why.is_empty() {
        let mut figures = Section::default().with(Block::Paragraph(machine::brief(&run.host)));
        figures.blocks.extend(answers.into_iter().filter_map(|answer| answer.table).map(Block::Table));
        figures.blocks.extend(picture.map(Block::Album));
        figures.blocks.extend(paths::first(run));
        sections.push(figures);
    }
    sections.extend(why);
    sections.extend(advice(&verdict.advice));
    sections.extend(trials::summary(run, verdict));
    let mut last = if watched || run.series.is_empty() { Section::default() } else { trust(run, verdict) };
    last.blocks.extend(causes::trust(run).filter(|_| causes::asked(run)).into_iter().flatten());
    sections.push(last);
    sections
}

fn incomplete(run: &Run) -> Option<Block> {
    let text = "Incomplete: the run was interrupted. What is here was measured, the rest is missing.";
    (!run.complete).then(|| Block::Warning(text.to_owned()))
}

/// Why nothing was measured, where that is known.
fn nothing(run: &Run) -> Option<Section> {
    let line = |missing| Block::Line(format!("Nothing was measured: {}", machine::reason(missing)));
    run.not_measured.first().map(|missing| Section::default().with(line(missing)))
}

fn advice(all: &[Advice]) -> Option<Section> {
    let item = |advice: &Advice| Item {
        text: format!("{} Trust: {}.", advice.short(all), advice.trust.word()),
        code: line_of(&advice.code).map(str::to_owned),
        name: advice.named(all),
        undecided: advice.trust != Level::Good,
    };
    let items: Vec<Item> = all.iter().take(MOST).map(item).collect();
    (!items.is_empty()).then(|| Section::new("What to do").with(Block::Numbered(items)))
}

fn trust(run: &Run, verdict: &Verdict) -> Section {
    let (trust, detail) = verdict.trust.text();
    let mut section = Section::default().with(Block::Paragraph(format!("Trust: {trust}")));
    section.blocks.extend(detail.map(|detail| Block::Legend(vec![Note::always(detail)])));
    let is_there = |subject: &str| run.series.iter().any(|series| series.subject == subject);
    let missing = run.not_measured.iter().filter(|missing| !is_there(&missing.subject));
    let missing: Vec<String> = distinct(missing.map(|missing| missing.subject.clone()));
    if !missing.is_empty() && !run.is_checkup() {
        section.blocks.push(Block::Paragraph(format!("Not measured: {}.", listed(&missing, 4))));
    }
    if !verdict.untried.is_empty() {
        let names: Vec<String> = verdict.untried.iter().map(|untried| untried.what.clone()).collect();
        let remedy = causes::refused(run)
            .and_then(|refused| refused.remedy.as_deref())
            .map(|remedy| sentence(&sanitize(remedy)));
        let remedy = remedy.map_or(String::new(), |remedy| format!(" For the causes: {remedy}"));
        section.blocks.push(Block::Paragraph(format!("Could not be tried: {}.{remedy}", listed(&names, 4))));
    }
    section
}

/// The section; `None` where there is nothing to say.
fn advice_in_full(verdict: &Verdict) -> Option<Section> {
    let mut section = Section::new("What to do");
    if verdict.advice.len() > 1 {
        section.blocks.push(Block::Paragraph("The gains are alternatives: they do not add up.".to_owned()));
    }
    let item = |advice: &Advice| Item {
        text: format!("{}: {}", change(advice), advice.text()),
        code: lines(&advice.code),
        ..Item::default()
    };
    let items: Vec<Item> = verdict.advice.iter().map(item).collect();
    if !items.is_empty() {
        section.blocks.push(Block::Numbered(items));
    }
    for (standing, lead) in [
        (Standing::Mixed, "Better in some cases and worse in others"),
        (Standing::Worse, "Worse here"),
        (Standing::NoDifference, "No difference that this run can show"),
        (Standing::NotTested, "Not tested"),
    ] {
        let said: Vec<String> = verdict.tried.iter().filter(|advice| advice.standing == standing).map(change).collect();
        if !said.is_empty() {
            section.blocks.push(Block::Paragraph(format!("{lead}: {}.", said.join("; "))));
        }
    }
    if !verdict.untried.is_empty() {
        let texts: Vec<String> = verdict.untried.iter().map(Untried::to_string).collect();
        section.blocks.push(Block::Paragraph(format!("Could not be tried: {}", texts.join(" "))));
    }
    (!section.blocks.is_empty()).then_some(section)
}

/// `to be back soon, usleep(0) instead of sched_yield()`: one change may serve a purpose and not another.
fn change(advice: &Advice) -> String {
    format!("{}{} instead of {}", advice.goal.purpose(), advice.what, advice.instead_of)
}

// The verdict on a run: collects what its families propose, tests it, and lets them answer.

impl Verdict {
    /// The verdict on a run.
    #[must_use]
    pub fn from_run(run: &Run) -> Self {
        answered(&legible(run), Gate::from_run(run)).verdict
    }
}

/// The verdict on a run and on its limits, each family's answer, and the series that show what is advised.
struct Answered<'a> {
    verdict: Verdict,
    answers: Vec<Answer>,
    advised: Vec<&'a Series>,
}

fn answered(run: &Run, gate: Option<Gate>) -> Answered<'_> {
    let experiments = family::experiments(run);
    let candidates: Vec<_> =
        experiments.iter().map(|(name, series)| (*name, (family::named(name).candidates)(run, series))).collect();
    let shown_by: Vec<(Goal, String, &Series)> = candidates
        .iter()
        .flat_map(|(_, candidates)| candidates)
        .flat_map(|one| one.trials.iter().map(|trial| (one.goal, one.what.clone(), trial.after)))
        .collect();
    let mut all = tested(run, candidates);
    all.extend(trials::advice(run));
    rank(run, &mut all);
    let answers: Vec<Answer> = experiments
        .iter()
        .map(|(name, series)| {
            let own: Vec<_> = all.iter().filter(|advice| advice.experiment == *name).collect();
            (family::named(name).answer)(run, series, &own)
        })
        .collect();
    let trust = Trust::judged(run, &all);
    let (advice, tried): (Vec<Advice>, Vec<Advice>) =
        all.into_iter().partition(|advice| advice.standing == Standing::Advised);
    let is_advised = |goal: Goal, what: &str| advice.iter().any(|advice| advice.goal == goal && advice.is_about(what));
    let advised = shown_by.into_iter().filter(|(goal, what, _)| is_advised(*goal, what)).map(|(.., series)| series);
    let advised = advised.collect();
    let answer = answer(run, answers.iter().flat_map(|answer| answer.sentences.iter().cloned()).collect());
    let verdict = Verdict { gate, answer, trust, advice, tried, untried: untried(run) };
    Answered { verdict, answers, advised }
}

/// The sentences of the families with those on causes: alone where causes are the question, else after the first. A check-up has them in
/// its first.
fn answer(run: &Run, mut sentences: Vec<String>) -> Vec<String> {
    sentences.extend(paths::sentences(run));
    let why = causes::sentences(run);
    if why.is_empty() || run.is_checkup() {
        return sentences;
    }
    if causes::asked(run) {
        return why;
    }
    sentences.splice(sentences.len().min(1)..sentences.len().min(1), why);
    sentences
}

/// The sets of conditions that the kernel refused, and what they would need.
fn untried(run: &Run) -> Vec<Untried> {
    let said = |notice: &Notice| {
        let Notice::ConditionsSkipped { conditions, refusal } = notice else { return None };
        Some(Untried::new(
            naming::phrase(conditions),
            &sanitize(&refusal.why),
            Some(&sanitize(&refusal.remedy.to_string())),
        ))
    };
    let causes = causes::refused(run).map(|refused| {
        // Older files have the reason alone.
        let what = Some(sanitize(&refused.what)).filter(|what| !what.is_empty());
        let what = what.unwrap_or_else(|| "causes of late wake-ups".to_owned());
        Untried::new(what, &sanitize(&refused.why), refused.remedy.as_deref().map(sanitize).as_deref())
    });
    let mut said: Vec<Untried> =
        run.notices.iter().filter_map(said).chain(causes).chain(trials::untried(run)).collect();
    said.dedup();
    said
}

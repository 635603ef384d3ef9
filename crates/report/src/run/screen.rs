//! The first screen: the answer, one table, what to do, how far to trust it. And what to do in full: each advice with the
//! lines to write, and what was tried without being an advice.

use punctual_record::{NotMeasured, Notice, Run, Series};

use crate::document::{Album, Block, Item, Note, Section, machine};
use crate::format::{distinct, listed, naming, sanitize, sentence};
use crate::run::legible::legible;
use crate::run::{merged, paths};
use crate::verdict::gate::Gate;
use crate::verdict::{
    Advice, Answer, EMULATED, Goal, Level, Standing, Trust, Untried, Verdict, line_of, lines, rank, tested,
};
use crate::{causes, family, trials};

/// Most advices on the first screen.
const MOST: usize = 3;

/// The sections of the first screen; where nothing was measured, one with the reason.
pub(super) fn sections(run: &Run, verdict: &Verdict, answers: Vec<Answer>, picture: Option<Album>) -> Vec<Section> {
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
    top.blocks.extend(merged::sentence(run).map(Block::Paragraph));
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
    sections.extend(
        Some(trials::summary(run, verdict))
            .filter(|blocks| !blocks.is_empty())
            .map(|blocks| Section { blocks, ..Section::default() }),
    );
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
fn nothing(run: &Run) -> Vec<Section> {
    let line = |missing: &NotMeasured| {
        let remedy = missing
            .remedy
            .as_ref()
            .map_or_else(String::new, |remedy| format!(" Remedy: {}", sentence(&remedy.to_string())));
        Block::Line(format!("Nothing was measured: {}{remedy}", sentence(&missing.why)))
    };
    run.not_measured.first().map(|missing| Section::default().with(line(missing))).into_iter().collect()
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
pub(super) fn advice_in_full(verdict: &Verdict) -> Option<Section> {
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
pub(super) struct Answered<'a> {
    pub(super) verdict: Verdict,
    pub(super) answers: Vec<Answer>,
    pub(super) advised: Vec<&'a Series>,
}

pub(super) fn answered(run: &Run, gate: Option<Gate>) -> Answered<'_> {
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

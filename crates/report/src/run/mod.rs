//! A run as a [`Document`]: title, machine, findings per experiment, missing subjects, disturbance and notices. The first
//! screen and the verdict are in files beside.

mod legible;
mod merged;
mod paths;
mod screen;

use std::cmp::Reverse;

use punctual_record::{Notice, Run, Tool};

use crate::document::notice::phrase;
use crate::document::{Block, Chapter, Document, Phrase, Section, machine};
use crate::format::sanitize;
use crate::pictures::{self, dots};
use crate::verdict::Verdict;
use crate::verdict::gate::Gate;
use crate::{causes, family, trials};
use legible::legible;
use screen::Answered;

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
    lead.extend(merged::sections(run));
    let Answered { verdict, mut answers, advised } = screen::answered(run, gate);
    let mut chapters = Vec::new();
    chapters.extend(limits(&verdict).map(Chapter::from_section));
    chapters.extend(screen::advice_in_full(&verdict).map(Chapter::from_section));
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
    let head = screen::sections(run, &verdict, answers, first_picture);
    Document { title: title(run), command: command(run), made: made(run), head, lead, chapters }
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

/// The command line.
fn command(run: &Run) -> String {
    run.command.join(" ")
}

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

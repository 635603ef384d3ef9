//! A run as a [`Document`]: the machine, findings per experiment, missing subjects, disturbance, recommendations.

mod advice;
mod head;
mod merged;
mod notices;
mod title;
mod verdict;

use punctual_record::Run;

use crate::background;
use crate::causes;
use crate::document::{Block, Chapter, Document, Section};
use crate::family;
use crate::format::sanitize;
use crate::paths;
use crate::pictures::{self, dots};
use crate::trials;
use crate::verdict::Verdict;

impl Document {
    /// What is said of a run; of its pictures, those that can be drawn in letters.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        document(run, false)
    }

    /// The same with all pictures, for which histograms have to be decoded.
    #[must_use]
    pub fn illustrated(run: &Run) -> Self {
        document(run, true)
    }
}

fn document(run: &Run, illustrated: bool) -> Document {
    let mut lead = vec![background::machine(run)];
    lead.extend(merged::sections(run));
    if !run.complete {
        let text = "Incomplete: the run was interrupted. What is here was measured, the rest is missing.";
        lead.push(Section::default().with(Block::Warning(text.to_owned())));
    }
    let (verdict, mut answers) = verdict::answered(run);
    let mut chapters = Vec::new();
    chapters.extend(limits(&verdict).map(Chapter::of));
    chapters.extend(advice::section(&verdict).map(Chapter::of));
    let experiments = family::experiments(run);
    let why =
        causes::sections(run, illustrated).map(|sections| trials::section(run).into_iter().chain(sections).collect());
    let why = why.map(|sections| Chapter { title: "Why late".to_owned(), sections });
    let (first, later) = if causes::asked(run) { (why, None) } else { (None, why) };
    chapters.extend(first);
    chapters.extend(paths::section(run).map(Chapter::of));
    if experiments.is_empty() && run.causes.is_none() && run.paths.is_empty() {
        let nothing = Section::default().with(Block::Paragraph("Nothing was measured.".to_owned()));
        chapters.push(Chapter { title: "Figures".to_owned(), sections: vec![nothing] });
    }
    let mut first_picture = None;
    for ((experiment, series), answer) in experiments.iter().zip(&mut answers) {
        let mut sections = (family::of(experiment).sections)(run, series);
        if illustrated {
            let overview = answer.picture.take().or_else(|| dots::overview(run, series));
            // The first screen has one picture.
            let others = if first_picture.is_none() {
                first_picture = overview;
                None
            } else {
                overview
            };
            let albums = others.into_iter().chain(pictures::albums(run, series));
            let blocks: Vec<Block> = albums.map(Block::Album).collect();
            sections.push(Section { blocks, ..Section::default() });
        }
        chapters.push(Chapter { title: sanitize(experiment), sections });
    }
    chapters.extend(later);
    chapters.extend(background::not_measured(run).map(Chapter::of));
    let mut closing = vec![background::disturbance(run)];
    closing.extend(notices::section(run));
    chapters.push(Chapter { title: "Disturbance and notices".to_owned(), sections: closing });
    let head = head::sections(run, &verdict, answers, first_picture);
    Document { title: title::title(run), command: title::command(run), made: made(run), head, lead, chapters }
}

/// When, for how long, with what.
fn made(run: &Run) -> String {
    let seconds = run.elapsed_ns as f64 / 1e9;
    let [name, version] = [&run.tool.name, &run.tool.version].map(|text| sanitize(text));
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

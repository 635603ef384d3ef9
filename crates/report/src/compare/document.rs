//! A comparison as a [`Document`]: limits, differences, detectable differences, and changed surroundings.

use crate::document::{Block, Chapter, Column, Document, Level, Note, Phrase, Row, Section, Table};
use crate::format::{sanitize, units};
use crate::gate::Gate;

use super::limit::Judgement;
use super::table::table;
use super::words::{self, MOST};
use super::{Comparison, RunName, Verdict, forest, why};

/// A comparison, with the verdict on its limits, if any.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The comparison.
    pub comparison: Comparison,
    /// The verdict on the limits.
    pub judgement: Option<Judgement>,
}

impl Compared {
    /// The verdict on the limits in a word, with its reason; `None` without limits.
    #[must_use]
    pub fn gate(&self) -> Option<Gate> {
        self.judgement.as_ref().map(|judgement| words::gate(judgement, &self.comparison))
    }
}

impl Document {
    /// The report of a comparison.
    #[must_use]
    pub fn of_comparison(compared: &Compared) -> Self {
        let comparison = &compared.comparison;
        let mut lead = Section::default();
        lead.blocks.extend(compared.gate().map(|gate| Block::Line(gate.sentence)));
        lead.blocks.extend(words::summary(comparison).into_iter().map(Block::Paragraph));
        lead.blocks.extend(comparison.causes.iter().flat_map(why::sentences).map(Block::Paragraph));
        let interrupted = comparison.old.iter().chain(&comparison.new).filter(|run| !run.complete).count();
        if interrupted > 0 {
            lead.blocks.push(Block::Warning(format!(
                "Incomplete: {interrupted} of the runs were interrupted. What they measured is compared, the rest is missing."
            )));
        }
        let mut sections: Vec<Section> = Vec::new();
        sections.extend(compared.judgement.as_ref().map(|judgement| limits(judgement, comparison)));
        let forest = forest::album(comparison).map(Block::Album);
        sections.extend(forest.map(|album| Section::new("Changes and their intervals").with(album)));
        sections.extend(figures(comparison));
        sections.extend(comparison.causes.as_ref().and_then(why::section));
        let missing = words::missing(comparison);
        sections.extend((!missing.is_empty()).then(|| folded("Not comparable", Block::said(missing))));
        sections.push(folded("What changed around it", changes(comparison)));
        sections.push(folded("Runs", runs(comparison)));
        let chapters = sections.into_iter().map(Chapter::of).collect();
        Self { title: "punctual compare".to_owned(), lead: vec![lead], chapters, ..Self::default() }
    }
}

fn folded(heading: &str, block: Block) -> Section {
    Section { folded: true, ..Section::new(heading).with(block) }
}

fn limits(judgement: &Judgement, comparison: &Comparison) -> Section {
    let mut phrases = words::judged(judgement, comparison);
    let (failed, unjudged) = (judgement.failed.len(), judgement.unjudged.len());
    let text = match phrases.is_empty() {
        true => format!("All {} judged figures keep them.", judgement.kept),
        false => format!("{failed} exceeded, {unjudged} could not be judged, {} kept.", judgement.kept),
    };
    if phrases.len() > MOST {
        let more =
            format!("{} more limits are exceeded or could not be judged.", units::count((phrases.len() - MOST) as u64));
        phrases.truncate(MOST);
        phrases.push(Phrase { level: Level::Note, text: more, remedy: None });
    }
    Section::new("Limits").with(Block::Paragraph(text)).with(Block::Notices(phrases))
}

/// Figures that differ, and figures that do not, a table for each experiment.
fn figures(comparison: &Comparison) -> Vec<Section> {
    let mut sections = Vec::new();
    for (experiment, rows) in by_experiment(words::rows(comparison, words::differs)) {
        let heading = format!("Different: {}", comparison.names.heading(experiment));
        sections.push(Section::new(heading).with(Block::Table(table(comparison, &rows))));
    }
    for (experiment, rows) in by_experiment(words::rows(comparison, |verdict| verdict == Verdict::NoDifference)) {
        let count = units::count(rows.len() as u64);
        let heading = format!("No difference shown, {count} figures: {}", comparison.names.heading(experiment));
        sections.push(folded(&heading, Block::Table(table(comparison, &rows))));
    }
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(notes(comparison)));
    }
    sections
}

/// The rows of each experiment, in the order of the series.
fn by_experiment(rows: Vec<words::Row<'_>>) -> Vec<(&str, Vec<words::Row<'_>>)> {
    let mut groups: Vec<(&str, Vec<words::Row<'_>>)> = Vec::new();
    for row in rows {
        match groups.last_mut().filter(|(experiment, _)| *experiment == row.0.experiment) {
            Some((_, group)) => group.push(row),
            None => groups.push((&row.0.experiment, vec![row])),
        }
    }
    groups
}

/// How to read the figures, and the smallest detectable differences.
fn notes(comparison: &Comparison) -> Vec<Note> {
    let intervals = format!(
        "Intervals hold the true change with 95 % confidence, each for itself; the verdicts are corrected for {} comparisons.",
        comparison.compared
    );
    let mut notes = vec![Note::always(intervals), Note::on("detectable", words::DETECTABLE)];
    notes.extend(words::sight(comparison).map(Note::always));
    notes
}

fn changes(comparison: &Comparison) -> Block {
    let mut changes = words::changes(comparison);
    if changes.is_empty() {
        return Block::Paragraph("No change recorded: same machine, kernel, settings and program.".to_owned());
    }
    let more = changes.len().saturating_sub(MOST);
    changes.truncate(MOST);
    changes.extend((more > 0).then(|| format!("and {more} more")));
    Block::said(changes)
}

fn runs(comparison: &Comparison) -> Block {
    let row =
        |side: &str, run: &RunName| Row::plain(vec![side.to_owned(), sanitize(&run.shown()), sanitize(&run.started)]);
    let old = comparison.old.iter().map(|run| row("old", run));
    let rows = old.chain(comparison.new.iter().map(|run| row("new", run))).collect();
    let columns = ["side", "file", "began (UTC)"].map(|heading| Column::left(heading, Column::ALWAYS)).to_vec();
    Block::Table(Table { columns, rows })
}

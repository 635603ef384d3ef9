//! A comparison as text for a terminal.

use crate::story::{Block, Item, Note, Section, Story, paragraph};
use crate::style::{Paint, Style};
use crate::table::{Column, Row, Table};
use crate::units;

use super::limit::Judgement;
use super::words::{self, MOST};
use super::{Comparison, FigureComparison, SeriesComparison, Verdict};

const COLUMNS: [Column; 8] = [
    Column::left("series", Column::ALWAYS),
    Column::left("figure", Column::ALWAYS),
    Column::right("old", 10),
    Column::right("new", 20),
    Column::right("change", Column::ALWAYS),
    Column::joined("[95 %]", 90),
    Column::right("finds", 80),
    Column::left("verdict", Column::ALWAYS),
];

/// The comparison as text, each line ended, none wider than the style says.
#[must_use]
pub fn render(comparison: &Comparison, style: &Style) -> String {
    let mut sections = vec![Section::default()];
    let text = words::summary(comparison, style);
    sections[0].blocks.extend(text.into_iter().map(Block::Paragraph));
    sections.extend(figures(comparison, style));
    sections.extend(notes(comparison));
    sections.extend(missing(comparison, style));
    let changes = words::changes(comparison, style);
    if !changes.is_empty() {
        sections.push(Section::new(CHANGED).with(items(changes)));
    }
    Story { sections }.render(style)
}

/// Heads what is different about machines and settings.
pub(crate) const CHANGED: &str = "What changed around it";

/// What differs, and what does not.
pub(crate) fn figures(comparison: &Comparison, style: &Style) -> Vec<Section> {
    let mut sections = Vec::new();
    let different = words::rows(comparison, words::differs);
    if !different.is_empty() {
        sections.push(Section::new("Different").with(Block::Table(table(comparison, &different, style))));
    }
    let same = words::rows(comparison, |verdict| verdict == Verdict::NoDifference);
    if !same.is_empty() {
        let heading = "No difference that this data can show";
        sections.push(Section::new(heading).with(Block::Table(table(comparison, &same, style))));
    }
    sections
}

/// How to read the figures, and what they could have shown.
pub(crate) fn notes(comparison: &Comparison) -> Option<Section> {
    if comparison.compared == 0 {
        return None;
    }
    let mut notes = vec![Note::always(format!(
        "Intervals hold the true change with 95 % confidence, each for itself; the verdicts are corrected for {} comparisons.",
        comparison.compared
    ))];
    notes.push(Note::on("finds", words::FINDS));
    notes.extend(words::sight(comparison).map(Note::always));
    Some(Section::default().with(Block::Legend(notes)))
}

/// What could not be compared.
pub(crate) fn missing(comparison: &Comparison, style: &Style) -> Option<Section> {
    let missing = words::missing(comparison, style);
    (!missing.is_empty()).then(|| Section::new("Not comparable").with(items(missing)))
}

fn items(texts: Vec<String>) -> Block {
    Block::Items(texts.into_iter().map(|text| Item { text, code: None }).collect())
}

fn table(comparison: &Comparison, rows: &[words::Row<'_>], style: &Style) -> Table {
    let mut lines = Vec::new();
    let mut before: Option<&SeriesComparison> = None;
    for (series, figure) in rows.iter().take(MOST) {
        let again = before.is_some_and(|before| std::ptr::eq(before, *series));
        let name = if again { String::new() } else { words::name(comparison, series, style) };
        lines.push(Row::Cells(cells(name, series, figure, style), paint(figure.verdict)));
        before = Some(series);
    }
    if rows.len() > MOST {
        let more = units::count((rows.len() - MOST) as u64);
        lines.push(Row::Label(format!("and {more} more; --format json has them all")));
    }
    Table { columns: COLUMNS.to_vec(), rows: lines }
}

fn paint(verdict: Verdict) -> Paint {
    if verdict == Verdict::Worse { Paint::Warning } else { Paint::Plain }
}

fn cells(name: String, series: &SeriesComparison, figure: &FigureComparison, style: &Style) -> Vec<String> {
    let verdict = figure.verdict.word(figure.figure, series.quantity).to_owned();
    let Some(difference) = &figure.difference else { return vec![name, figure.figure.name().into()] };
    vec![
        name,
        figure.figure.name().into(),
        units::duration_fine(difference.old_ns, style),
        units::duration_fine(difference.new_ns, style),
        words::change(difference, style),
        words::interval(difference, style),
        words::finds(difference, style),
        if figure.verdict == Verdict::NoDifference { "none shown".into() } else { verdict },
    ]
}

/// What became of the limits, for standard error; empty when all were kept.
#[must_use]
pub fn judgement(judgement: &Judgement, comparison: &Comparison, style: &Style) -> String {
    let mut out = String::new();
    let lines = words::judged(judgement, comparison, style);
    for (is_failure, line) in lines.iter().take(MOST) {
        let paint = if *is_failure { Paint::Failure } else { Paint::Warning };
        out.push_str(&paragraph(line, "", "  ", paint, style));
    }
    if lines.len() > MOST {
        out.push_str(&format!("and {} more\n", units::count((lines.len() - MOST) as u64)));
    }
    out
}

//! A comparison as a [`Document`]: first screen, limits, differences as tables and as a forest plot, detectable differences, and changed
//! surroundings.

use crate::compare::outcome::{FigureComparison, Range, SeriesComparison, Verdict};
use crate::compare::words::{self, MOST, change, interval};
use crate::compare::{Comparison, Figure, RunName};
use crate::compare::{causes, screen};
use crate::document::{
    Album, Axis, Block, Chapter, Column, Columns, Document, Form, Level, Line, Note, Paint, Phrase, Picture, Point,
    Row, Section, Table, ends,
};
use crate::format::{sanitize, units};
use crate::pictures::{self, Curve};
use crate::verdict::gate::{Gate, Judgement};

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
        self.judgement.as_ref().map(Gate::new)
    }

    /// The verdict on the limits in a sentence, and that the old runs are of another machine or kernel.
    #[must_use]
    pub fn head(&self) -> Vec<String> {
        self.gate().map(|gate| gate.sentence).into_iter().chain(words::other_machine(&self.comparison)).collect()
    }
}

impl Document {
    /// The report of a comparison.
    #[must_use]
    pub fn of_comparison(compared: &Compared) -> Self {
        let comparison = &compared.comparison;
        let mut sections: Vec<Section> = Vec::new();
        sections.extend(compared.judgement.as_ref().map(limits));
        let forest = album(comparison).map(Block::Album);
        sections.extend(forest.map(|album| Section::new("Changes and their intervals").with(album)));
        let overlay = overlay(comparison).map(Block::Album);
        sections.extend(overlay.map(|album| Section::new("Old and new by percentile").with(album)));
        sections.extend(figures(comparison));
        sections.extend(comparison.causes.as_ref().and_then(causes::section));
        let missing = words::missing(comparison, 6);
        sections.extend((!missing.is_empty()).then(|| folded("Not comparable", Block::said(missing))));
        sections.push(folded("What changed around it", changes(comparison)));
        sections.push(folded("Runs", runs(comparison)));
        let chapters = sections.into_iter().map(Chapter::from_section).collect();
        Self {
            title: "punctual compare".to_owned(),
            head: screen::sections(comparison, compared.judgement.as_ref()),
            chapters,
            ..Self::default()
        }
    }
}

fn folded(heading: &str, block: Block) -> Section {
    Section { folded: true, ..Section::new(heading).with(block) }
}

fn limits(judgement: &Judgement) -> Section {
    let mut phrases: Vec<Phrase> = judgement.phrases().cloned().collect();
    let (failed, unjudged) = (judgement.failed.len(), judgement.unjudged.len());
    let text = match phrases.is_empty() {
        true => format!("All {} judged figures keep them.", judgement.kept),
        false => format!("{failed} exceeded, {unjudged} could not be judged, {} kept.", judgement.kept),
    };
    if phrases.len() > MOST {
        let more =
            format!("{} more limits are exceeded or could not be judged.", units::count((phrases.len() - MOST) as u64));
        phrases.truncate(MOST);
        phrases.push(Phrase::new(Level::Note, more));
    }
    Section::new("Limits").with(Block::Paragraph(text)).with(Block::Notices(phrases))
}

/// Figures that differ, and figures that do not, a table for each experiment.
fn figures(comparison: &Comparison) -> Vec<Section> {
    let mut sections = Vec::new();
    let one_experiment = |(one, _): &words::Row<'_>, (other, _): &words::Row<'_>| one.experiment == other.experiment;
    for rows in words::rows(comparison, Verdict::is_shown).chunk_by(one_experiment) {
        let heading = format!("Different: {}", comparison.names.heading(&rows[0].0.experiment));
        // The first screen has the largest of them.
        sections.push(folded(&heading, Block::Table(table(comparison, rows))));
    }
    for rows in words::rows(comparison, |verdict| verdict == Verdict::NoDifference).chunk_by(one_experiment) {
        let (count, name) = (units::count(rows.len() as u64), comparison.names.heading(&rows[0].0.experiment));
        let heading = format!("No difference shown, {count} figures: {name}");
        sections.push(folded(&heading, Block::Table(table(comparison, rows))));
    }
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(notes(comparison)));
    }
    sections
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
    Block::Table(Table { columns, rows, ranking: None })
}

/// A figure of a series under its name.
struct FigureLine<'a> {
    name: String,
    series: &'a SeriesComparison,
    figure: &'a FigureComparison,
}

fn columns<'f>() -> Columns<'f, FigureLine<'f>> {
    let difference = |line: &FigureLine<'_>| line.figure.difference;
    Columns::new()
        .left("series", Column::ALWAYS, |line: &FigureLine<'_>| line.name.clone())
        .left("figure", Column::ALWAYS, |line| line.figure.figure.name().to_owned())
        .fine("old", Column::ALWAYS, move |line| Some(difference(line)?.old_ns))
        .fine("new", Column::ALWAYS, move |line| Some(difference(line)?.new_ns))
        .known("change", Column::ALWAYS, difference, |difference| words::change(&difference))
        .column(Column::joined("[95 %]", 90), move |line| {
            difference(line).map_or(String::new(), |difference| words::interval(&difference))
        })
        .known("detectable", 10, difference, |difference| words::detectable(&difference))
        .left("verdict", 20, |line| line.figure.verdict.word(line.figure.figure, line.series.quantity).to_owned())
}

pub(super) fn table(comparison: &Comparison, rows: &[words::Row<'_>]) -> Table {
    let columns = columns();
    let mut lines = Vec::new();
    let mut before: Option<&SeriesComparison> = None;
    for (series, figure) in rows.iter().take(MOST) {
        let again = before.is_some_and(|before| std::ptr::eq(before, *series));
        let name = if again { String::new() } else { comparison.names.under_heading(series) };
        let paint = if figure.verdict == Verdict::Worse { Paint::Warning } else { Paint::Plain };
        lines.push(columns.row(&FigureLine { name, series, figure }, paint));
        before = Some(series);
    }
    if rows.len() > MOST {
        let more = units::count((rows.len() - MOST) as u64);
        lines.push(Row::Label(format!("and {more} more; --format json has them all")));
    }
    columns.table(lines)
}

/// All figures of these series, each in full.
fn full_table(series: &[&SeriesComparison], names: &[String]) -> Table {
    let mut lines = Vec::new();
    for (series, name) in series.iter().zip(names) {
        let compared = series.figures.iter().filter(|figure| figure.difference.is_some());
        lines.extend(compared.map(|figure| FigureLine { name: name.clone(), series, figure }));
    }
    columns().plain(&lines)
}

/// A series, and its name in a picture.
type Drawn<'a> = (&'a SeriesComparison, String);

/// Letters of such a name.
const LETTERS: usize = 40;
/// Most series in one picture: more are not readable.
const ROWS: usize = 24;
/// Range of the drawn changes, as shares: down to zero, and up to five times as much. Tables have the others.
const FURTHEST: (f64, f64) = (-1.0, 4.0);
/// Distance of the figures above and below a series' line.
const APART: f64 = 0.24;

/// Pictures of all comparable series; `None` without such series.
pub(super) fn album(comparison: &Comparison) -> Option<Album> {
    let names = comparison.names.on_screen(&comparison.series).into_iter().map(|name| name.within(LETTERS));
    let is_drawn = |(series, _): &Drawn<'_>| series.figures.iter().any(|figure| share(figure).is_some());
    let drawn: Vec<Drawn<'_>> = comparison.series.iter().zip(names).filter(is_drawn).collect();
    let parts = drawn.chunks(ROWS).enumerate().map(|(number, series)| {
        let first = number * ROWS + 1;
        (format!("series {first} to {} of {}", first + series.len() - 1, drawn.len()), series)
    });
    let album = pictures::album("", parts, |_, series| picture(series));
    (!album.pictures.is_empty()).then_some(album)
}

/// Old and new over each other, the series that are shown to differ first; `None` where no side has samples.
fn overlay(comparison: &Comparison) -> Option<Album> {
    let mut series: Vec<&SeriesComparison> = comparison.series.iter().collect();
    series.sort_by_key(|series| !series.figures.iter().any(|figure| figure.verdict.is_shown()));
    let named = series.into_iter().map(|series| (comparison.names.anywhere(series), series));
    let album = pictures::album("", named, |name, series| {
        let [old, new] = &series.curves;
        Curve::overlaid(old, new, name.to_owned(), pictures::quantity_name(series.quantity))
    });
    (!album.pictures.is_empty()).then_some(album)
}

/// Estimate, lower and upper end as shares; `None` if the old figure allows no shares.
fn share(figure: &FigureComparison) -> Option<Range> {
    let finite = |share: &Range| [share.value, share.low, share.high].iter().all(|end| end.is_finite());
    figure.difference?.by_share.filter(finite)
}

fn picture(drawn: &[Drawn<'_>]) -> Option<Picture> {
    let (series, names): (Vec<&SeriesComparison>, Vec<String>) = drawn.iter().cloned().unzip();
    let within = |share: f64| share.clamp(FURTHEST.0, FURTHEST.1);
    let shares = series.iter().flat_map(|compared| compared.figures.iter().filter_map(share));
    let (low, high) =
        ends(shares.flat_map(|share| [share.value, share.low, share.high]).map(within).chain([-0.02, 0.02]))?;
    let room = (high - low) * 0.04;
    let y = Axis::names(&names);
    let mut lines: Vec<Line> = Figure::ALL.into_iter().map(|figure| line(figure, &series, &names)).collect();
    lines.retain(|line| !line.points.is_empty());
    lines.push(no_change(y.low, y.high));
    Some(Picture {
        title: "Change, new against old".to_owned(),
        about: "A mark is the estimate, the line through it the interval that holds the true change with 95 % confidence; left of the line \
                of no change is sooner or cheaper. A ring: shown to be different, corrected for the number of comparisons."
            .to_owned(),
        x: Axis::linear("change", low - room, high + room, 9, &|share| percent(share)),
        y,
        lines,
        table: full_table(&series, &names),
        letters: None,
    })
}

/// A tick: `+20 %`, and no sign at nothing.
fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    match percent {
        0.0 => "0 %".to_owned(),
        _ if percent < 0.0 => format!("−{} %", -percent),
        _ => format!("+{percent} %"),
    }
}

fn line(figure: Figure, series: &[&SeriesComparison], names: &[String]) -> Line {
    let offset = APART * (1.0 - figure as usize as f64);
    let mut points = Vec::new();
    for (row, (compared, name)) in series.iter().zip(names).enumerate() {
        for found in compared.figures.iter().filter(|compared| compared.figure == figure) {
            let Some(Range { value, low, high }) = share(found) else { continue };
            points.push(Point {
                x: value,
                y: offset - row as f64,
                says: format!("{name}: {}", says(compared, found)),
                mark: true,
                ring: matches!(found.verdict, Verdict::Worse | Verdict::Better),
                span: Some((low, high)),
                ..Point::default()
            });
        }
    }
    Line { label: figure.name().into(), shown: figure != Figure::Cpu, form: Form::Spans, points }
}

fn no_change(low: f64, high: f64) -> Line {
    let point = |y: f64| Point { x: 0.0, y, says: "as before".into(), ..Point::default() };
    Line { label: "no change".into(), shown: true, form: Form::Curve, points: vec![point(low), point(high)] }
}

fn says(series: &SeriesComparison, figure: &FigureComparison) -> String {
    let Some(difference) = &figure.difference else { return String::new() };
    let (old, new) = (units::duration_fine(difference.old_ns), units::duration_fine(difference.new_ns));
    let verdict = figure.verdict.word(figure.figure, series.quantity);
    format!("{old} → {new}, {} {}: {verdict}", change(difference), interval(difference))
}

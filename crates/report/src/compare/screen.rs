//! The first screen of a comparison: what got worse and what better, by how much, the probable cause, the largest changes as a table, and
//! what was compared.

use crate::compare::outcome::Short;
use crate::compare::outcome::{Change, Difference, FigureComparison, SeriesComparison, Verdict};
use crate::compare::side::WhyUnmatched;
use crate::compare::words::{self, change, interval};
use crate::compare::{Comparison, Figure, RunName, causes};
use crate::document::{Album, Block, Column, Columns, Note, Paint, Section, Table};
use crate::format::{counted, cut, distinct, listed, sanitize, sentence, unbroken, units};
use crate::pictures::dots::{Overlaid, overlaid};
use crate::verdict::gate::{Gate, Judgement};

/// Most rows: all changes that are shown, as far as these, and other figures as far as those. The full report has all.
const ROWS: (usize, usize) = (40, 8);

/// Letters of a name in a row, beside its figures: in 80 columns, and in the picture.
const LETTERS: usize = 24;

/// Letters of a fact that a screen has room for; the full report has all of it.
const FACT: usize = 32;

/// A figure that could be compared.
struct Moved<'a> {
    /// What its series is called here.
    name: Short,
    /// The same in a row of the table.
    short: String,
    series: &'a SeriesComparison,
    figure: &'a FigureComparison,
    difference: Difference,
}

impl Moved<'_> {
    fn is_shown(&self) -> bool {
        self.figure.verdict.is_shown()
    }

    /// How far it moved: on the scale of the comparison, so that a doubling is as large as a halving.
    fn size(&self) -> f64 {
        self.difference.shift.by.abs()
    }

    /// The name of its row.
    fn row(&self) -> String {
        format!("{} {}", self.figure.figure.name(), self.short)
    }

    fn word(&self) -> &'static str {
        self.figure.verdict.word(self.figure.figure, self.series.quantity)
    }

    /// `p50 of nanosleep is 10.6 µs later: 52.0 µs → 62.6 µs, +20 % [+17 +24]`.
    fn said(&self) -> String {
        let Difference { old_ns, new_ns, by_ns, .. } = &self.difference;
        let [by, old, new] = [by_ns.value.abs(), *old_ns, *new_ns].map(units::duration_fine);
        let name = self.name.whole();
        let what = match self.figure.figure {
            Figure::Cpu => format!("{name} takes"),
            figure => format!("{} of {name} is", figure.name()),
        };
        let amount = unbroken(&format!("{} {}", change(&self.difference), interval(&self.difference)));
        format!("{what} {by} {}: {old} → {new}, {amount}", self.word())
    }
}

/// The sections.
pub(super) fn sections(comparison: &Comparison, judgement: Option<&Judgement>) -> Vec<Section> {
    let moved = moved(comparison);
    let gate = judgement.map(|judgement| Block::Line(Gate::new(judgement).sentence));
    let mut sections: Vec<Section> = gate.map(|line| Section::default().with(line)).into_iter().collect();
    let mut answer = answer(comparison, &moved);
    let cause = cause(&moved).filter(|_| !names_cause(judgement, comparison));
    answer.blocks.extend(cause.map(Block::Paragraph));
    answer.blocks.extend(comparison.causes.iter().flat_map(causes::sentences).map(Block::Line));
    sections.push(answer);
    sections.extend((!moved.is_empty()).then(|| {
        let note = format!(
            "[95 %] holds the true change; shown: corrected for {} comparisons.",
            units::count(comparison.compared as u64)
        );
        let section =
            Section::default().with(Block::Table(table(&moved))).with(Block::Legend(vec![Note::always(note)]));
        picture(&moved).map(Block::Album).into_iter().fold(section, Section::with)
    }));
    sections.push(ground(comparison, &moved));
    sections
}

/// All figures that could be compared: those that are shown to differ first, the largest change first; then the other figures of the
/// same series, and the rest.
fn moved(comparison: &Comparison) -> Vec<Moved<'_>> {
    let names = comparison.names.on_screen(&comparison.series);
    let cut: Vec<String> = names.iter().map(|name| name.within(LETTERS)).collect();
    let times = counted(cut.iter().cloned());
    let short = names.iter().zip(cut).map(|(name, cut)| if times[&cut] == 1 { cut } else { name.whole() });
    let mut all = Vec::new();
    for (series, (name, short)) in comparison.series.iter().zip(names.iter().zip(short)) {
        for figure in &series.figures {
            let Some(difference) = figure.difference else { continue };
            all.push(Moved { name: name.clone(), short: short.clone(), series, figure, difference });
        }
    }
    let differs = |series: &SeriesComparison| series.figures.iter().any(|figure| figure.verdict.is_shown());
    let place = |one: &Moved<'_>| match one.is_shown() {
        true => (false, false, 0),
        false => (true, !differs(one.series), one.figure.figure as usize),
    };
    all.sort_by(|a, b| place(a).cmp(&place(b)).then(b.size().total_cmp(&a.size())));
    all
}

fn shown<'m, 'a>(moved: &'m [Moved<'a>], verdict: Verdict) -> Vec<&'m Moved<'a>> {
    moved.iter().filter(|one| one.figure.verdict == verdict).collect()
}

/// What got worse and what better, or that nothing is shown to differ.
fn answer(comparison: &Comparison, moved: &[Moved<'_>]) -> Section {
    let mut section = Section::default();
    let interrupted = comparison.old.iter().chain(&comparison.new).filter(|run| !run.complete).count();
    if interrupted > 0 {
        section.blocks.push(Block::Warning(format!(
            "Incomplete: {interrupted} of the runs were interrupted. What they measured is compared, the rest is missing."
        )));
    }
    section.blocks.extend(words::other_machine(comparison).map(Block::Warning));
    let directions = [("worse", Verdict::Worse), ("better", Verdict::Better)];
    let said = directions.map(|(word, verdict)| direction(word, &shown(moved, verdict), comparison.compared));
    let none = match comparison.compared {
        0 => Some("Nothing could be compared.".to_owned()),
        n if said.iter().all(Option::is_none) => {
            Some(format!("No difference that this data can show, in any of {n} figures."))
        }
        _ => None,
    };
    let power = none.as_ref().and_then(|_| words::power(comparison));
    section.blocks.extend(said.into_iter().flatten().chain(none).map(Block::Line));
    section.blocks.extend(power.map(Block::Paragraph));
    section
}

/// `9 of 129 figures are worse: 7 later and 2 longer. Most of all, p99 of futex is ...`; of one figure, that alone.
fn direction(word: &str, moved: &[&Moved<'_>], compared: usize) -> Option<String> {
    let first = moved.first()?;
    let most = sentence(&first.said());
    if moved.len() == 1 {
        return Some(most);
    }
    let counts = counted(moved.iter().map(|one| one.word()));
    let parts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let (count, parts) = (moved.len(), listed(&parts, usize::MAX));
    Some(format!("{count} of {compared} figures are {word}: {parts}. Most of all, {most}"))
}

/// Whether the verdict on the limits names a probable cause.
fn names_cause(judgement: Option<&Judgement>, comparison: &Comparison) -> bool {
    let first = judgement.and_then(|judgement| judgement.failed.first()?.series);
    first.and_then(|place| comparison.series.get(place)).is_some_and(|series| !series.changed.is_empty())
}

/// The settings that held otherwise where a figure differs. That they are the cause is not shown: other things may have changed with them.
fn cause(moved: &[Moved<'_>]) -> Option<String> {
    let differ: Vec<&Moved<'_>> = moved.iter().filter(|one| one.is_shown()).collect();
    let changed = differ.iter().filter(|one| !one.series.changed.is_empty()).count();
    let settings = distinct(differ.iter().flat_map(|one| words::settings(one.series)));
    let told = listed(&settings, 3);
    match changed {
        0 => None,
        _ if changed == differ.len() => Some(format!("Probable cause: {told}.")),
        _ => Some(format!("Probable cause in {changed} of these {}: {told}.", differ.len())),
    }
}

/// The largest changes. Those that the answer names stay.
fn table(moved: &[Moved<'_>]) -> Table {
    let columns = Columns::new()
        .left("what", Column::ALWAYS, |one: &&Moved<'_>| one.figure.figure.name().to_owned())
        .left("series", Column::ALWAYS, |one| one.short.clone())
        .fine("old", Column::ALWAYS, |one| Some(one.difference.old_ns))
        .fine("new", Column::ALWAYS, |one| Some(one.difference.new_ns))
        .right("change", Column::ALWAYS, |one| change(&one.difference))
        .column(Column::joined("[95 %]", Column::ALWAYS), |one| interval(&one.difference))
        .left("shown", Column::ALWAYS, |one| if one.is_shown() { "yes" } else { "no" }.to_owned());
    let paint = |one: &Moved<'_>| match one.figure.verdict {
        Verdict::Worse => Paint::Warning,
        Verdict::Better => Paint::Plain,
        _ => Paint::Faint,
    };
    let most = moved.iter().filter(|one| one.is_shown()).count().clamp(ROWS.1, ROWS.0);
    let rows = moved.iter().take(most).map(|one| columns.row(&one, paint(one))).collect();
    let named = [Verdict::Worse, Verdict::Better]
        .into_iter()
        .filter_map(|verdict| shown(moved, verdict).first().map(|one| one.row()));
    let mut by_change: Vec<&Moved<'_>> = moved.iter().filter(|one| one.is_shown()).collect();
    let share = |one: &Moved<'_>| one.difference.by_share.map_or(one.difference.by_ns.value, |share| share.value);
    by_change.sort_by(|a, b| share(a).total_cmp(&share(b)));
    let figures = by_change.iter().map(|one| (one.row(), change(&one.difference))).collect();
    let mut table = columns.table(rows).ranked_by("change", figures, named.collect());
    if let Some(ranking) = &mut table.ranking {
        ranking.cells = 2;
        ranking.without = "without a shown difference";
        ranking.left_out = moved.iter().skip(most).map(Moved::row).collect();
    }
    table
}

/// Most rows of the picture.
const DRAWN: usize = 10;

/// Old and new of the series whose changes are the largest.
fn picture(moved: &[Moved<'_>]) -> Option<Album> {
    let figure = |series: &SeriesComparison, figure: Figure| {
        let difference = series.figures.iter().find(|compared| compared.figure == figure)?.difference?;
        Some([difference.old_ns, difference.new_ns])
    };
    let mut rows: Vec<Overlaid> = Vec::new();
    for one in moved {
        let Some(p50) = figure(one.series, Figure::P50) else { continue };
        if rows.iter().all(|row| row.name != one.short) {
            rows.push(Overlaid { name: one.short.clone(), p50, p99: figure(one.series, Figure::P99) });
        }
    }
    rows.truncate(DRAWN);
    overlaid(&rows)
}

/// What was compared with what, how small a change it shows, what changed around it, and what could not be compared.
fn ground(comparison: &Comparison, moved: &[Moved<'_>]) -> Section {
    let mut section = Section::default().with(Block::Paragraph(extent(comparison)));
    let differ = moved.iter().any(Moved::is_shown);
    let power = words::power(comparison).filter(|_| differ);
    section.blocks.extend(power.map(|power| Block::Legend(vec![Note::always(power)])));
    // The same facts have other names there.
    let known = |one: &Change| comparison.machine.iter().any(|said| (&said.old, &said.new) == (&one.old, &one.new));
    let told = |one: &Change| {
        let [what, old, new] = [&one.what, &one.old, &one.new].map(|text| cut(&sanitize(text), FACT));
        format!("{what} {old} → {new}")
    };
    let around: Vec<String> = comparison.changes.iter().filter(|change| !known(change)).map(told).collect();
    let around = (!around.is_empty()).then(|| format!("Changed around it: {}.", listed(&around, 3)));
    section.blocks.extend(not_compared(comparison).map(Block::Paragraph));
    section.blocks.extend(around.map(Block::Paragraph));
    section
}

/// `9 figures (wait, asked 100 µs). Old: a.json of 2026-01-02. New: late.json of 2026-01-02.`
fn extent(comparison: &Comparison) -> String {
    let experiments = distinct(comparison.series.iter().map(|series| series.experiment.as_str()));
    let headings: Vec<String> = match experiments.as_slice() {
        [one] => vec![comparison.names.heading(one)],
        several => several.iter().map(|name| sanitize(name)).collect(),
    };
    let side = |runs: &[RunName]| {
        let mut files: Vec<String> = runs.iter().map(|run| sanitize(&run.shown())).collect();
        // A merged file holds several runs.
        files.dedup();
        match (runs, files.as_slice()) {
            ([one], _) => format!("{} of {}", files[0], &one.started.get(..10).unwrap_or(&one.started)),
            (_, [file]) => format!("{} runs of {file}", runs.len()),
            _ => format!("{} runs ({})", runs.len(), listed(&files, 2)),
        }
    };
    let count = match headings.as_slice() {
        [] => String::new(),
        _ => format!("{} ({}). ", units::many(comparison.compared as u64, "figure"), headings.join(", ")),
    };
    let turns = if comparison.in_turns { " Interleaved: each is compared with its neighbour." } else { "" };
    format!("{count}Old: {}. New: {}.{turns}", side(&comparison.old), side(&comparison.new))
}

/// What could not be compared, with the first reason.
fn not_compared(comparison: &Comparison) -> Option<String> {
    let missing = words::missing(comparison, 2);
    let first = missing.first()?;
    let more = match missing.len() - 1 {
        0 => String::new(),
        1 => " And 1 more reason.".to_owned(),
        n => format!(" And {n} more reasons."),
    };
    let asked = comparison.unmatched.iter().any(|one| matches!(one.why, WhyUnmatched::AskedOtherwise(_)));
    let remedy = if asked { " --across-conditions compares those of other requests." } else { "" };
    Some(format!("Not compared: {}{more}{remedy}", sentence(first)))
}

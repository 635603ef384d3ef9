//! The page of a comparison: what differs, drawn and in tables, what the data could have shown, and what changed around it.

use maud::{Markup, html};

use crate::compare::limit::Judgement;
use crate::compare::words;
use crate::compare::{Comparison, RunName, text};
use crate::plain::plain;
use crate::story::{Block, Section};
use crate::style::Paint;
use crate::table::{Column, Row, Table};

use super::frame::{self, Chapter, album, chapter, style};
use super::{pictures, story};

/// The page but for its end.
pub(super) fn page(comparison: &Comparison, judgement: Option<&Judgement>) -> Markup {
    let header = html! {
        h1 { "punctual compare" }
        @for sentence in words::summary(comparison, &style()) { p { (sentence) } }
        @let interrupted = interrupted(comparison);
        @if interrupted > 0 {
            p class="notice warning" { strong { "Incomplete: " } (interrupted) " of the runs were interrupted. What they measured is compared, the rest is missing." }
        }
    };
    let footer = html! {
        p { "How differences are told from chance: docs/method.md. This page needs no network." }
    };
    frame::page("punctual compare", &header, &chapters(comparison, judgement), &footer)
}

fn interrupted(comparison: &Comparison) -> usize {
    comparison.old.iter().chain(&comparison.new).filter(|run| !run.complete).count()
}

fn chapters(comparison: &Comparison, judgement: Option<&Judgement>) -> Vec<Chapter> {
    let style = style();
    let mut chapters: Vec<Chapter> = judgement.map(|judgement| limits(judgement, comparison)).into_iter().collect();
    if let Some(forest) = pictures::forest(comparison) {
        let notes = text::notes(comparison);
        let body = html! {
            (album(&forest, "f"))
            @if let Some(notes) = &notes { (story::section(notes)) }
        };
        chapters.push(Chapter { title: "Changes and their intervals".into(), body });
    }
    chapters.extend(text::figures(comparison, &style).into_iter().map(chapter));
    chapters.extend(text::missing(comparison, &style).map(chapter));
    chapters.push(Chapter { title: text::CHANGED.into(), body: changes(comparison) });
    chapters.push(Chapter { title: "Runs".into(), body: runs(comparison) });
    chapters
}

fn limits(judgement: &Judgement, comparison: &Comparison) -> Chapter {
    let lines = words::judged(judgement, comparison, &style());
    let more = lines.len().saturating_sub(words::MOST);
    let (failed, unjudged) = (judgement.failed.len(), judgement.unjudged.len());
    let body = html! {
        p { (failed) " failed, " (unjudged) " could not be judged, " (judgement.kept) " kept." }
        @for (is_failure, line) in lines.iter().take(words::MOST) {
            p class=(if *is_failure { "notice failure" } else { "notice warning" }) { (line) }
        }
        @if more > 0 { p class="faint" { "and " (more) " more" } }
    };
    Chapter { title: "Limits".into(), body }
}

fn changes(comparison: &Comparison) -> Markup {
    let cells = |change: &crate::compare::Change| {
        [&change.what, &change.old, &change.new].map(|text| plain(text, &style())).to_vec()
    };
    let rows: Vec<Vec<String>> = comparison.changes.iter().take(words::MOST).map(cells).collect();
    html! {
        @if rows.is_empty() { p { "Nothing that the runs tell of: same machine, kernel, settings and program." } }
        @else { (table(&["", "old", "new"], rows)) }
        @if comparison.changes.len() > words::MOST {
            p class="faint" { "and " (comparison.changes.len() - words::MOST) " more" }
        }
    }
}

fn runs(comparison: &Comparison) -> Markup {
    let row =
        |side: &str, run: &RunName| vec![side.to_owned(), plain(&run.shown(), &style()), plain(&run.started, &style())];
    let old = comparison.old.iter().map(|run| row("old", run));
    let rows = old.chain(comparison.new.iter().map(|run| row("new", run))).collect();
    table(&["side", "file", "began (UTC)"], rows)
}

fn table(headings: &[&'static str], rows: Vec<Vec<String>>) -> Markup {
    let columns = headings.iter().map(|heading| Column::left(heading, Column::ALWAYS)).collect();
    let rows = rows.into_iter().map(|cells| Row::Cells(cells, Paint::Plain)).collect();
    story::section(&Section::default().with(Block::Table(Table { columns, rows })))
}

//! The page of a run: the machine, the sections of the report with the pictures of each experiment, notices.

use maud::{Markup, html};
use punctual_record::Run;

use crate::background;
use crate::family;
use crate::notice::{self, Phrase};
use crate::plain::plain;
use crate::style::Style;
use crate::text;

use super::frame::{self, Chapter, album, chapter, style};
use super::pictures::albums;
use super::story;

/// Everything before the run's data.
pub(super) fn before(run: &Run) -> Markup {
    let title = title(run);
    let header = html! {
        h1 { (title) }
        p class="faint" { (made(run)) }
        (story::section(&background::machine(run, &style())))
        @if !run.complete { p class="notice warning" { strong { "Incomplete: " } "the run was interrupted. What is here was measured, the rest is missing." } }
    };
    let footer = html! {
        p { "This file holds the whole run: " code { "punctual report FILE.html --json" } " gives it back. It needs no network." }
    };
    frame::page(&title, &header, &chapters(run), &footer)
}

fn title(run: &Run) -> String {
    let words: Vec<String> = run.command.iter().map(|word| plain(word, &style())).collect();
    if words.is_empty() { "punctual".to_owned() } else { words.join(" ") }
}

/// When, for how long, with what.
fn made(run: &Run) -> String {
    let seconds = run.elapsed_ns as f64 / 1e9;
    format!(
        "Measured {:.0} for {seconds:.1} s with {} {}.",
        run.started,
        plain(&run.tool.name, &style()),
        plain(&run.tool.version, &style())
    )
}

fn chapters(run: &Run) -> Vec<Chapter> {
    let style = style();
    let mut chapters = Vec::new();
    let what_to_do = text::is_checkup(run).then(|| text::what_to_do(run, &style)).flatten();
    if let Some(section) = what_to_do {
        chapters.push(chapter(section));
    }
    let experiments = family::experiments(run);
    if experiments.is_empty() {
        chapters.push(Chapter { title: "Figures".into(), body: html! { p { "Nothing was measured." } } });
    }
    for (n, (experiment, series)) in experiments.iter().enumerate() {
        let sections = (family::of(experiment).sections)(run, series, &style);
        let body = html! {
            @for section in &sections { (story::section(section)) }
            @let (albums, undrawn) = albums(run, series);
            @if undrawn > 0 {
                p class="faint" { (undrawn) " series have no histogram that can be decoded: they are in the tables, and missing in pictures of distributions." }
            }
            @for (i, shown) in albums.iter().enumerate() { (album(shown, &format!("p{n}-{i}"))) }
        };
        chapters.push(Chapter { title: plain(experiment, &style), body });
    }
    chapters.extend(background::not_measured(run, &style).map(chapter));
    chapters.push(Chapter { title: "Disturbance and notices".into(), body: closing(run, &style) });
    chapters
}

fn closing(run: &Run, style: &Style) -> Markup {
    let mut phrases: Vec<Phrase> = run.notices.iter().map(notice::phrase).collect();
    phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.level));
    phrases.dedup();
    html! {
        (story::section(&background::disturbance(run, style)))
        @for phrase in &phrases {
            p class=(format!("notice {}", phrase.level.word())) {
                strong { (phrase.level.word()) ": " } (plain(&phrase.text, style))
                @if let Some(remedy) = &phrase.remedy { " Remedy: " (plain(remedy, style)) }
            }
        }
    }
}

//! The page's frame: head, contents, the sections of the report with the pictures of each experiment, notices.

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use punctual_record::{Distribution, Run, Series};
use sha2::{Digest as _, Sha256};

use crate::background;
use crate::family;
use crate::notice::{self, Phrase};
use crate::plain::plain;
use crate::story::Section;
use crate::style::Style;
use crate::text;

use super::pictures::{Album, albums};
use super::plot::figure;
use super::story;

const STYLE_SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What ends the page, after the run's data.
pub(super) const AFTER: &str = "</body></html>\n";

/// Everything before the run's data.
pub(super) fn before(run: &Run) -> Markup {
    let chapters = chapters(run);
    let title = title(run);
    // Closed by `AFTER`.
    let open = PreEscaped("<html lang=\"en\">");
    html! {
        (DOCTYPE) (open)
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy());
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content=(format!("punctual {}", env!("CARGO_PKG_VERSION")));
            title { (title) }
            link rel="icon" href="data:,";
            style { (PreEscaped(STYLE_SHEET)) }
        }
        (PreEscaped("<body>"))
        header {
            h1 { (title) }
            p class="faint" { (made(run)) }
            (story::section(&background::machine(run, &style())))
            @if !run.complete { p class="notice warning" { strong { "Incomplete: " } "the run was interrupted. What is here was measured, the rest is missing." } }
        }
        nav aria-label="Contents" {
            ul { @for (i, chapter) in chapters.iter().enumerate() { li { a href=(format!("#c{i}")) { (chapter.title) } } } }
        }
        main {
            @for (i, chapter) in chapters.iter().enumerate() {
                section id=(format!("c{i}")) {
                    h2 { (chapter.title) }
                    (chapter.body)
                }
            }
        }
        footer class="faint" {
            p { "This file holds the whole run: " code { "punctual report FILE.html --json" } " gives it back. It needs no network." }
        }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// A part of the page with an entry among the contents.
struct Chapter {
    title: String,
    body: Markup,
}

/// Text that is drawn on no terminal: no column is dropped, nothing is coloured.
fn style() -> Style {
    Style { width: 160, ..Style::default() }
}

/// The page's own script and style sheet, named by their hashes, and nothing else: no network, and no script that a name could
/// smuggle in.
fn policy() -> String {
    let hash = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'",
        hash(STYLE_SHEET),
        hash(SCRIPT)
    )
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
            @let undrawn = undrawn(series);
            @if undrawn > 0 {
                p class="faint" { (undrawn) " series have no histogram that can be decoded: they are in the tables, and missing in pictures of distributions." }
            }
            @for (i, album) in albums(run, series).iter().enumerate() { (self::album(album, &format!("p{n}-{i}"))) }
        };
        chapters.push(Chapter { title: plain(experiment, &style), body });
    }
    chapters.extend(background::not_measured(run, &style).map(chapter));
    chapters.push(Chapter { title: "Disturbance and notices".into(), body: closing(run, &style) });
    chapters
}

/// Series with samples whose distribution is missing or damaged.
fn undrawn(series: &[&Series]) -> usize {
    series.iter().filter(|series| series.summary.count > 0 && Distribution::from_series(series).is_err()).count()
}

fn chapter(section: Section) -> Chapter {
    let title = section.heading.clone();
    let body = story::section(&Section { heading: String::new(), ..section });
    Chapter { title, body }
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

/// The pictures of one kind; where there are several, the script shows the one that is chosen.
fn album(album: &Album, id: &str) -> Markup {
    html! {
        div class="album" {
            h3 { (album.kind) }
            @if album.pictures.len() > 1 {
                p class="choice" hidden {
                    label { "Of " select {
                        @for (i, (label, _)) in album.pictures.iter().enumerate() {
                            option value=(i) { @if label.is_empty() { "everything" } @else { (label) } }
                        }
                    } }
                }
            }
            @for (i, (_, picture)) in album.pictures.iter().enumerate() { (figure(picture, &format!("{id}-{i}"))) }
            @if album.left_out > 0 {
                p class="faint" { (album.left_out) " more of these are not drawn; the tables have all figures." }
            }
        }
    }
}

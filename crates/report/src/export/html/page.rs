//! A document as a page: the first screen, chapters, and what a browser may load.

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::document::{Chapter, Document, Section};

use super::{blocks, screen};

const STYLE_SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What ends a page, after its data.
pub(super) const AFTER: &str = "</body></html>\n";

/// A page up to where its data begin; [`AFTER`] ends it. `holds`: what the page says of itself at its end.
pub(super) fn page(document: &Document, holds: &Markup) -> Markup {
    html! {
        // Closed by `AFTER`.
        (DOCTYPE) (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy());
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content=(format!("punctual {}", env!("CARGO_PKG_VERSION")));
            title { (document.title) }
            link rel="icon" href="data:,";
            style { (PreEscaped(STYLE_SHEET)) }
        }
        (PreEscaped("<body>"))
        header {
            h1 { (document.title) }
            @if !document.command.is_empty() || !document.made.is_empty() {
                p class="faint made" { @if !document.command.is_empty() { code { (document.command) } " " } (document.made) }
            }
            (screen::screen(&document.head))
        }
        // A first screen with its picture has said what matters.
        @if screen::has_picture(&document.head) { (folded(document)) } @else { (open(document)) }
        footer class="faint" { p { (holds) } }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// The introduction and all chapters, each to be opened.
fn folded(document: &Document) -> Markup {
    html! {
        main {
            (details("lead", "Machine", &document.lead))
            @for (n, chapter) in document.chapters.iter().enumerate() { (details(&format!("c{n}"), &chapter.title, &chapter.sections)) }
        }
    }
}

fn details(id: &str, title: &str, sections: &[Section]) -> Markup {
    html! {
        details class="chapter" {
            summary { h2 { (title) } }
            div id=(id) { (blocks::sections(sections, title, id)) }
        }
    }
}

/// The introduction, the contents and all chapters.
fn open(document: &Document) -> Markup {
    let chapters = || document.chapters.iter().enumerate();
    html! {
        (blocks::sections(&document.lead, "", "lead"))
        nav aria-label="Contents" {
            ul { @for (n, chapter) in chapters() { li { a href=(format!("#c{n}")) { (chapter.title) } } } }
        }
        main { @for (n, chapter) in chapters() { (section(&format!("c{n}"), chapter)) } }
    }
}

fn section(id: &str, chapter: &Chapter) -> Markup {
    html! {
        section id=(id) {
            h2 { (chapter.title) }
            (blocks::sections(&chapter.sections, &chapter.title, id))
        }
    }
}

/// Permits the page's own script and style sheet, named by their hashes, and nothing else. There is no network, and no script
/// in a name.
fn policy() -> String {
    let hash = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'",
        hash(STYLE_SHEET),
        hash(SCRIPT)
    )
}

//! What all pages have in common: head, contents, chapters, pictures of which one is chosen, and what a browser may load.

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::story::Section;
use crate::style::Style;

use super::pictures::Album;
use super::plot::figure;
use super::story;

const STYLE_SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What ends a page, after its data.
pub(super) const AFTER: &str = "</body></html>\n";

/// A part of the page with an entry among the contents.
pub(super) struct Chapter {
    /// Its heading.
    pub(super) title: String,
    /// What stands under it.
    pub(super) body: Markup,
}

/// A page up to where its data begin; [`AFTER`] ends it.
pub(super) fn page(title: &str, header: &Markup, chapters: &[Chapter], footer: &Markup) -> Markup {
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
        header { (header) }
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
        footer class="faint" { (footer) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// Text that is drawn on no terminal: no column is dropped, nothing is coloured.
pub(super) fn style() -> Style {
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

/// A section of a report as a chapter of its own.
pub(super) fn chapter(section: Section) -> Chapter {
    let title = section.heading.clone();
    let body = story::section(&Section { heading: String::new(), ..section });
    Chapter { title, body }
}

/// The pictures of one kind; where there are several, the script shows the one that is chosen.
pub(super) fn album(album: &Album, id: &str) -> Markup {
    html! {
        div class="album" {
            @if !album.kind.is_empty() { h3 { (album.kind) } }
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

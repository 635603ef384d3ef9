//! A document as a page: head, contents, chapters, and what a browser may load.

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::document::{Chapter, Document};

use super::blocks;

const STYLE_SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What ends a page, after its data.
pub(super) const AFTER: &str = "</body></html>\n";

/// A page up to where its data begin; [`AFTER`] ends it. `holds`: what the page says of itself at its end.
pub(super) fn page(document: &Document, holds: &Markup) -> Markup {
    let chapters = || document.chapters.iter().enumerate();
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
            (blocks::chapter(&Chapter { title: String::new(), sections: document.head.clone() }, "head"))
            (blocks::chapter(&Chapter { title: String::new(), sections: document.lead.clone() }, "lead"))
        }
        nav aria-label="Contents" {
            ul { @for (n, chapter) in chapters() { li { a href=(format!("#c{n}")) { (chapter.title) } } } }
        }
        main {
            @for (n, chapter) in chapters() {
                @let id = format!("c{n}");
                section id=(id) {
                    h2 { (chapter.title) }
                    (blocks::chapter(chapter, &id))
                }
            }
        }
        footer class="faint" { p { (holds) } }
        script { (PreEscaped(SCRIPT)) }
    }
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

//! A document as a self-contained HTML page, for a browser, a printer or a colleague. It needs no network.
//!
//! The first screen has the answer and its picture, and beside the picture what to do. The chapters follow. The page of a
//! run contains the whole run as JSON that no name can end early, so that it can be read back ([`embedded_run`]). Text of a
//! run never becomes markup: everything is escaped. A content security policy allows only the page's own style sheet and
//! script, by their hashes, and no network.
//!
//! A histogram that cannot be decoded has no picture.

mod drawing;
mod figure;

use std::io::Write;

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use punctual_record::{Run, WriteError};
use sha2::{Digest as _, Sha256};

use crate::document::{Album, Block, Document, Item, Phrase, Section};
use crate::export::exporter::{Error, Reported};
use crate::export::html::figure::{figure, small, table};

/// Writes the page.
///
/// # Errors
/// Errors of the writer, and a run that JSON cannot hold.
pub fn write<T: Reported>(subject: &T, out: &mut dyn Write) -> Result<(), Error> {
    let run = subject.run();
    let holds = html! {
        @if run.is_some() {
            "This file holds the whole run: " code { "punctual report FILE.html --json" } " gives it back. It needs no network."
        } @else {
            "docs/method.md explains the statistics. This page needs no network."
        }
    };
    out.write_all(page(&subject.document(true), &holds).into_string().as_bytes())?;
    run.map_or(Ok(()), |run| write_run(run, out))?;
    out.write_all(END.as_bytes())?;
    Ok(out.flush()?)
}

/// A file's first bytes look like a page rather than like JSON.
#[must_use]
pub fn is_page(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.trim_ascii_start().first() == Some(&b'<')
}

const STYLE_SHEET: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What ends a page, after its data.
const END: &str = "</body></html>\n";

/// A page up to where its data begin; [`END`] ends it. `holds`: what the page says of itself at its end.
fn page(document: &Document, holds: &Markup) -> Markup {
    html! {
        // Closed by `END`.
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
            (screen(&document.head))
        }
        // A first screen with its picture has said what matters.
        @if document.head.iter().any(|section| picture(section).is_some()) { (folded(document)) } @else { (open(document)) }
        footer class="faint" { p { (holds) } }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// The introduction and all chapters, each to be opened.
fn folded(document: &Document) -> Markup {
    html! {
        main {
            @if !document.lead.is_empty() { (details("lead", "Machine", &document.lead)) }
            @for (n, chapter) in document.chapters.iter().enumerate() { (details(&format!("c{n}"), &chapter.title, &chapter.sections)) }
        }
    }
}

fn details(id: &str, title: &str, sections: &[Section]) -> Markup {
    html! {
        details class="chapter" {
            summary { h2 { (title) } }
            div id=(id) { (self::sections(sections, title, id)) }
        }
    }
}

/// The introduction, the contents and all chapters.
fn open(document: &Document) -> Markup {
    html! {
        (sections(&document.lead, "", "lead"))
        nav aria-label="Contents" {
            ul { @for (n, chapter) in document.chapters.iter().enumerate() { li { a href=(format!("#c{n}")) { (chapter.title) } } } }
        }
        main {
            @for (id, chapter) in (0..).map(|n| format!("c{n}")).zip(&document.chapters) {
                section id=(id) { h2 { (chapter.title) } (sections(&chapter.sections, &chapter.title, &id)) }
            }
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

/// The first screen. Sections before the one with the picture stand above it, those after it stand beside it.
fn screen(head: &[Section]) -> Markup {
    let Some(at) = head.iter().position(|section| picture(section).is_some()) else {
        return sections(head, "", "head");
    };
    html! {
        div class="answer" { (sections(&head[..at], "", "answer")) }
        div class="screen" {
            div class="look" { (look(&head[at])) }
            div class="verdict" { (sections(&head[at + 1..], "", "verdict")) }
        }
    }
}

fn picture(section: &Section) -> Option<&Album> {
    section.blocks.iter().find_map(|block| if let Block::Album(album) = block { Some(album) } else { None })
}

/// The picture, and its tables to be opened.
fn look(section: &Section) -> Markup {
    let (tables, rest): (Vec<&Block>, Vec<&Block>) = section
        .blocks
        .iter()
        .filter(|block| !matches!(block, Block::Album(_)))
        .partition(|block| matches!(block, Block::Table(_)));
    html! {
        @if let Some(album) = picture(section) { (panels(album, "look")) }
        @for other in rest { div class="faint" { (block(other, "machine")) } }
        @if !tables.is_empty() {
            details class="figures" {
                summary { "Figures" }
                @for table in tables { (block(table, "figures")) }
            }
        }
    }
}

/// What stands before the run in a page.
const BEFORE: &str = "<script type=\"application/json\" id=\"punctual-run\">";
/// What stands after the run.
const AFTER_RUN: &str = "</script>";

/// Writes the run as a data block.
fn write_run(run: &Run, writer: &mut dyn Write) -> Result<(), WriteError> {
    writer.write_all(BEFORE.as_bytes()).map_err(WriteError::Io)?;
    run.to_json_in_page(&mut *writer)?;
    writer.write_all(AFTER_RUN.as_bytes()).map_err(WriteError::Io)
}

/// The run's JSON within the bytes of a page; None where there is none. What is in it is not looked at.
#[must_use]
pub fn embedded_run(page: &[u8]) -> Option<&[u8]> {
    let begin = find(page, BEFORE.as_bytes())? + BEFORE.len();
    let rest = &page[begin..];
    // A truncated page has truncated JSON, which its reader reports.
    Some(find(rest, AFTER_RUN.as_bytes()).map_or(rest, |end| &rest[..end]))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Sections, one after the other. A heading that is the `title` above them is left out. `id`: unique.
fn sections(all: &[Section], title: &str, id: &str) -> Markup {
    html! {
        @for (n, section) in all.iter().enumerate() {
            @if !section.heading.is_empty() && section.heading != title { h3 { (section.heading) } }
            @for (i, content) in section.blocks.iter().enumerate() { (block(content, &format!("{id}-{n}-{i}"))) }
        }
    }
}

/// A block. `id`: unique.
fn block(block: &Block, id: &str) -> Markup {
    match block {
        Block::Table(content) => table(content),
        Block::Legend(notes) => {
            let text: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
            html! { p class="faint" { (text.join(" ")) } }
        }
        Block::Paragraph(text) => html! { p { (text) } },
        Block::Warning(text) => html! { p class="notice warning" { (text) } },
        Block::Line(text) => html! { p { strong { (text) } } },
        Block::Facts(facts) => html! {
            dl class="facts" { @for (name, fact) in facts { dt { (name) } dd { (fact) } } }
        },
        Block::Items(items) => html! { ul { @for content in items { li { (item(content)) } } } },
        Block::Numbered(items) => html! { ol { @for content in items { li { (item(content)) } } } },
        Block::Album(content) => album(content, id),
        Block::Notices(phrases) => html! { @for phrase in phrases { (notice(phrase)) } },
    }
}

fn item(item: &Item) -> Markup {
    html! {
        (item.text)
        @if let Some(code) = &item.code { pre tabindex="0" { code { (code) } } }
    }
}

fn notice(phrase: &Phrase) -> Markup {
    html! {
        p class=(format!("notice {}", phrase.level.word())) {
            strong { (phrase.level.word()) ": " } (phrase.text)
            @if let Some(remedy) = &phrase.remedy { " Remedy: " (remedy.to_string()) }
        }
    }
}

/// The pictures of one kind; where there are several, the script shows the one that is chosen.
fn album(album: &Album, id: &str) -> Markup {
    if album.side_by_side {
        return panels(album, id);
    }
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
            @if !album.missing.is_empty() { p class="faint" { (album.missing) } }
        }
    }
}

/// The small pictures of an album, all of them, and once how to read them.
fn panels(album: &Album, id: &str) -> Markup {
    html! {
        div class="panels" { @for (i, (_, picture)) in album.pictures.iter().enumerate() { (small(picture, &format!("{id}-{i}"))) } }
        @if let Some((_, first)) = album.pictures.first() { p class="faint reading" { (first.about) @if !album.missing.is_empty() { " " (album.missing) } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn looking_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = embedded_run(&bytes);
        }
    }

    #[test]
    fn found_between_its_marks() {
        let page = format!("<html>{BEFORE}{{\"a\":1}}{AFTER_RUN}</html>");
        assert_eq!(embedded_run(page.as_bytes()), Some(&b"{\"a\":1}"[..]));
        assert_eq!(embedded_run(format!("<p>{BEFORE}{{\"a").as_bytes()), Some(&b"{\"a"[..]));
        assert_eq!(embedded_run(b"<html></html>"), None);
    }
}

//! Blocks and tables of a document as HTML, and the places of the labels beside marks: no label covers another or leaves the
//! drawing.

use crate::export::html::table::table;
use maud::{Markup, html};

use crate::document::{Album, Block, Item, Phrase, Section};
use crate::export::html::figure::{figure, small};

/// Sections, one after the other. A heading that is the `title` above them is left out. `id`: unique.
pub(super) fn sections(all: &[Section], title: &str, id: &str) -> Markup {
    html! {
        @for (n, section) in all.iter().enumerate() {
            @if !section.heading.is_empty() && section.heading != title { h3 { (section.heading) } }
            @for (i, content) in section.blocks.iter().enumerate() { (block(content, &format!("{id}-{n}-{i}"))) }
        }
    }
}

/// A block. `id`: unique.
pub(super) fn block(block: &Block, id: &str) -> Markup {
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
pub(super) fn panels(album: &Album, id: &str) -> Markup {
    html! {
        div class="panels" { @for (i, (_, picture)) in album.pictures.iter().enumerate() { (small(picture, &format!("{id}-{i}"))) } }
        @if let Some((_, first)) = album.pictures.first() { p class="faint reading" { (first.about) @if !album.missing.is_empty() { " " (album.missing) } } }
    }
}

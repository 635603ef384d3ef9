//! The first screen: the answer, its picture, and beside the picture what to do.

use maud::{Markup, html};

use crate::document::{Album, Block, Section};

use super::blocks;

/// Whether the first screen shows a picture.
pub(super) fn has_picture(head: &[Section]) -> bool {
    head.iter().any(|section| picture(section).is_some())
}

/// The first screen. Sections before the one with the picture stand above it, those after it stand beside it.
pub(super) fn screen(head: &[Section]) -> Markup {
    let Some(at) = head.iter().position(|section| picture(section).is_some()) else {
        return blocks::sections(head, "", "head");
    };
    html! {
        div class="answer" { (blocks::sections(&head[..at], "", "answer")) }
        div class="screen" {
            div class="look" { (look(&head[at])) }
            div class="verdict" { (blocks::sections(&head[at + 1..], "", "verdict")) }
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
        @if let Some(album) = picture(section) { (blocks::panels(album, "look")) }
        @for block in rest { div class="faint" { (blocks::block(block, "machine")) } }
        @if !tables.is_empty() {
            details class="figures" {
                summary { "Figures" }
                @for table in tables { (blocks::block(table, "figures")) }
            }
        }
    }
}

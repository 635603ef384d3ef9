//! Sections of a report as HTML: the same words and tables as on a terminal.

use maud::{Markup, html};

use crate::story::{Block, Item, Section};
use crate::style::Paint;
use crate::table::{Align, Row, Table};

/// The section's heading, and what stands under it.
pub(super) fn section(section: &Section) -> Markup {
    html! {
        @if !section.heading.is_empty() { h3 { (section.heading) } }
        @for block in &section.blocks { (self::block(block)) }
    }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Table(table) => self::table(table),
        Block::Legend(notes) => {
            let text: Vec<&str> = notes.iter().map(|note| note.text.as_str()).collect();
            html! { p class="faint" { (text.join(" ")) } }
        }
        Block::Paragraph(text) => html! { p { (text) } },
        Block::Drawing(lines) => html! { pre tabindex="0" { (lines) } },
        Block::Line(text) => html! { p { strong { (text) } } },
        Block::Facts(facts) => html! {
            dl class="facts" { @for (name, fact) in facts { dt { (name) } dd { (fact) } } }
        },
        Block::Items(items) => html! { ul { @for item in items { li { (self::item(item)) } } } },
    }
}

fn item(item: &Item) -> Markup {
    html! {
        (item.text)
        @if let Some(code) = &item.code { pre tabindex="0" { code { (code) } } }
    }
}

fn table(table: &Table) -> Markup {
    let columns = table.columns.len();
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Table" {
            table {
                thead { tr { @for column in &table.columns { th scope="col" class=[figure(column.align)] { (column.heading) } } } }
                tbody {
                    @for row in &table.rows {
                        @match row {
                            Row::Label(label) => { tr { th colspan=(columns) class="label" scope="rowgroup" { (label) } } }
                            Row::Cells(cells, paint) => {
                                tr class=[(*paint == Paint::Faint).then_some("faint")] {
                                    @for (i, cell) in cells.iter().enumerate() {
                                        @if i == 0 { th scope="row" { (cell) } }
                                        @else { td class=[table.columns.get(i).and_then(|column| figure(column.align))] { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(align: Align) -> Option<&'static str> {
    (align == Align::Right).then_some("figure")
}

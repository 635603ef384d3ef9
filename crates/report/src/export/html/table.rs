//! A table as HTML.

use maud::{Markup, html};

use crate::document::{Align, Column, Paint, Row, Table};

/// A table that can be scrolled where it is wide. A narrow screen leaves out columns before the last that always stay, and
/// says so. Those are then in sight.
pub(super) fn table(table: &Table) -> Markup {
    let spare = spare(&table.columns);
    let class = |i: usize| {
        let align = match table.columns.get(i)?.align {
            Align::Left => "",
            Align::Right => "figure",
            Align::Drawn => "drawn",
        };
        let class = if spare.contains(&i) { format!("{align} spare") } else { align.to_owned() };
        Some(class.trim_start().to_owned()).filter(|class| !class.is_empty())
    };
    let rest = table.rest().map(Row::Label);
    let names: Vec<&str> = spare.iter().map(|i| table.columns[*i].heading.as_ref()).collect();
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Table" {
            table {
                thead {
                    @if table.columns.iter().any(|column| !column.over.is_empty()) {
                        tr { @for group in table.columns.chunk_by(|a, b| a.over == b.over) { th scope="colgroup" colspan=(group.len()) { (group[0].over) } } }
                    }
                    tr { @for (i, column) in table.columns.iter().enumerate() { th scope="col" class=[class(i)] { (column.heading) } } }
                }
                tbody { @for content in table.rows.iter().chain(&rest) { (row(content, table.columns.len(), &class)) } }
            }
        }
        @if !names.is_empty() { p class="faint narrow" { "Not on a narrow screen: " (names.join(", ")) "." } }
    }
}

pub(super) fn row(row: &Row, columns: usize, class: &dyn Fn(usize) -> Option<String>) -> Markup {
    match row {
        Row::Label(label) => html! { tr { th colspan=(columns) class="label" scope="rowgroup" { (label) } } },
        Row::Cells(cells, paint) => html! {
            tr class=[(*paint == Paint::Faint).then_some("faint")] {
                @for (i, cell) in cells.iter().enumerate() {
                    @if i == 0 { th scope="row" { (cell) } } @else { td class=[class(i)] { (cell) } }
                }
            }
        },
    }
}

/// The places of columns that a terminal may drop, before the last one that it may not. Headings over several columns keep all.
fn spare(columns: &[Column]) -> Vec<usize> {
    let stays = |column: &Column| column.keep == Column::ALWAYS && !column.joined;
    if columns.iter().any(|column| !column.over.is_empty()) {
        return Vec::new();
    }
    let last = columns.iter().rposition(stays).unwrap_or(0);
    (1..last).filter(|i| !stays(&columns[*i])).collect()
}

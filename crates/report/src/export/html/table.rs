//! A table as HTML.

use maud::{Markup, html};

use crate::document::{Align, Paint, Row, Table};

/// A table that can be scrolled where it is wide.
pub(super) fn table(table: &Table) -> Markup {
    let columns = table.columns.len();
    let figure = |i: usize| table.columns.get(i).filter(|column| column.align == Align::Right).map(|_| "figure");
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Table" {
            table {
                thead {
                    @if table.columns.iter().any(|column| !column.over.is_empty()) {
                        tr { @for group in table.columns.chunk_by(|a, b| a.over == b.over) { th scope="colgroup" colspan=(group.len()) { (group[0].over) } } }
                    }
                    tr { @for (i, column) in table.columns.iter().enumerate() { th scope="col" class=[figure(i)] { (column.heading) } } }
                }
                tbody {
                    @for row in &table.rows {
                        @match row {
                            Row::Label(label) => { tr { th colspan=(columns) class="label" scope="rowgroup" { (label) } } }
                            Row::Cells(cells, paint) => {
                                tr class=[(*paint == Paint::Faint).then_some("faint")] {
                                    @for (i, cell) in cells.iter().enumerate() {
                                        @if i == 0 { th scope="row" { (cell) } } @else { td class=[figure(i)] { (cell) } }
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

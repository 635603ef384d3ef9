//! The causes of a run without series, a row for each call and cause.

use punctual_record::{CallCauses, CauseTime, Causes};

use crate::naming::code_of;

use super::cells::{Cell, Cells, has_values};

type CellOf = fn(&CallCauses, &CauseTime) -> Cell;

/// The columns, by their names in the record.
const COLUMNS: [(&str, CellOf); 12] = [
    ("thread", |call, _| Cell::text(&call.thread)),
    ("call", |call, _| Cell::text(&call.call)),
    ("nominal_ns", |call, _| Cell::number(call.nominal_ns)),
    ("wake_ups", |call, _| Cell::number(Some(call.late.count))),
    ("part", |_, one| Cell::text(&code_of(&one.part))),
    ("cause", |_, one| Cell::text(&code_of(&one.cause))),
    ("culprit", |_, one| Cell::text(one.culprit.as_deref().unwrap_or_default())),
    ("count", |_, one| Cell::number(Some(one.time.count))),
    ("total_ns", |_, one| Cell::number(Some(one.time.total_ns))),
    ("p50_ns", |_, one| Cell::number(Some(one.time.p50_ns))),
    ("p99_ns", |_, one| Cell::number(one.time.p99_ns)),
    ("max_ns", |_, one| Cell::number(Some(one.time.max_ns))),
];

/// The table, column by column; a column without any value is left out.
pub(super) fn table(causes: &Causes) -> Vec<Cells> {
    let rows = || causes.calls.iter().flat_map(|call| call.causes.iter().map(move |one| (call, one)));
    let column = |(name, cell): (&str, CellOf)| (Cell::text(name), rows().map(|(call, one)| cell(call, one)).collect());
    COLUMNS.into_iter().map(column).filter(has_values).collect()
}

//! The causes of a run without series, a row for each call and cause.

use punctual_record::{CallCauses, CauseTime, Causes};

use crate::naming::code_of;

use super::cells::{Cells, cell, has_values};

type Cell = fn(&CallCauses, &CauseTime) -> String;

/// The columns, by their names in the record.
const COLUMNS: [(&str, Cell); 12] = [
    ("thread", |call, _| call.thread.clone()),
    ("call", |call, _| call.call.clone()),
    ("nominal_ns", |call, _| cell(call.nominal_ns)),
    ("wake_ups", |call, _| call.late.count.to_string()),
    ("part", |_, one| code_of(&one.part)),
    ("cause", |_, one| code_of(&one.cause)),
    ("culprit", |_, one| cell(one.culprit.as_ref())),
    ("count", |_, one| one.time.count.to_string()),
    ("total_ns", |_, one| one.time.total_ns.to_string()),
    ("p50_ns", |_, one| one.time.p50_ns.to_string()),
    ("p99_ns", |_, one| cell(one.time.p99_ns)),
    ("max_ns", |_, one| one.time.max_ns.to_string()),
];

/// The table, column by column; a column without any value is left out.
pub(super) fn table(causes: &Causes) -> Vec<Cells> {
    let rows = || causes.calls.iter().flat_map(|call| call.causes.iter().map(move |one| (call, one)));
    let column = |(name, of): (&str, Cell)| (name.to_owned(), rows().map(|(call, one)| of(call, one)).collect());
    COLUMNS.into_iter().map(column).filter(has_values).collect()
}

//! What goes wrong around the command, times what it was doing: a table of faults and commands.
//!
//! After each fault: no process, file, IPC object, lock or changed setting is left; the status and the message are those promised; what was
//! measured is not lost. `cargo test` looks at a cut of the table; `cargo test -p punctual-cli --test faults -- --ignored` at all of it, and
//! with `PUNCTUAL_FAULTS_ONLY=PART` at the faults in whose name PART is.

mod apart;
mod ending;
mod limits;
mod machine;
mod outputs;
mod scene;
mod subjects;
mod table;

use table::Depth;

#[test]
fn a_cut_of_the_table_holds() {
    if apart::as_in_ipc_namespace("a_cut_of_the_table_holds") {
        table::look(Depth::Quick);
    }
}

#[test]
#[ignore = "takes some twenty minutes"]
fn the_whole_table_holds() {
    if apart::as_in_ipc_namespace("the_whole_table_holds") {
        table::look(Depth::Whole);
    }
}

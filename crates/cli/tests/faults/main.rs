//! Faults around the command at each stage of its work: a table of faults and commands.
//!
//! After each fault: no process, file, IPC object, lock or changed setting is left. Status and message are as
//! documented, and no results are lost. `cargo test` runs a part of the table.
//! `cargo test -p punctual-cli --test faults -- --ignored` runs all of it. `PUNCTUAL_FAULTS_ONLY=PART` selects the
//! faults with PART in their name, `PUNCTUAL_FAULTS_OF=PART` the commands.

mod commands;
mod ipc_namespace;
mod machine_changes;
mod output_failures;
mod resource_limits;
mod sandbox;
mod signals;
mod table;

use table::Depth;

#[test]
fn a_cut_of_the_table_holds() {
    if ipc_namespace::is_inside() {
        return table::look(Depth::Quick);
    }
    let _alone = punctual_testing::alone_on_this_machine();
    ipc_namespace::run_inside("a_cut_of_the_table_holds", "").unwrap();
}

#[test]
#[ignore = "takes some ten minutes"]
fn the_whole_table_holds() {
    if ipc_namespace::is_inside() {
        return table::look(Depth::Whole);
    }
    let _alone = punctual_testing::alone_on_this_machine();
    table::look_side_by_side("the_whole_table_holds");
}

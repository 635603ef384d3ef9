//! Calls that wait and have no nonblocking counterpart. They are the library's own; the progress function yields in them.

/// The calls of a list.
macro_rules! others {
    ($($name:literal ($($argument:ident)*);)*) => {
        $(own!(concat!("MPI_", $name), concat!("PMPI_", $name, "\0"), $($argument)*);)*
    };
}

others! {
    "Finalize" ();
    "Sendrecv_replace" (buffer count datatype destination send_tag source receive_tag comm status);
    "Mrecv" (buffer count datatype message status);
    "Buffer_detach" (buffer size);
    "Comm_dup" (comm new);
    "Comm_dup_with_info" (comm info new);
    "Comm_create" (comm group new);
    "Comm_create_group" (comm group tag new);
    "Comm_split" (comm color key new);
    "Comm_split_type" (comm kind key info new);
    "Comm_free" (comm);
    "Comm_disconnect" (comm);
    "Comm_accept" (port info root comm new);
    "Comm_connect" (port info root comm new);
    "Comm_spawn" (command argv most info root comm new errors);
    "Intercomm_create" (local local_leader peer remote_leader tag new);
    "Intercomm_merge" (comm high new);
    "Cart_create" (comm dimensions sizes periods reorder new);
    "Dist_graph_create_adjacent" (comm indegree sources source_weights outdegree targets target_weights info reorder new);
    "Win_create" (base size unit info comm window);
    "Win_allocate" (size unit info comm base window);
    "Win_allocate_shared" (size unit info comm base window);
    "Win_create_dynamic" (info comm window);
    "Win_free" (window);
    "Win_fence" (assertion window);
    "Win_start" (group assertion window);
    "Win_complete" (window);
    "Win_lock" (kind rank assertion window);
    "Win_unlock" (rank window);
    "Win_lock_all" (assertion window);
    "Win_unlock_all" (window);
    "Win_flush" (rank window);
    "Win_flush_all" (window);
    "Win_flush_local" (rank window);
    "Win_flush_local_all" (window);
    "File_open" (comm name mode info file);
    "File_close" (file);
    "File_read_all" (file buffer count datatype status);
    "File_write_all" (file buffer count datatype status);
}

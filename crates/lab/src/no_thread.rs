//! What to do when no thread or process can be started.
//!
//! The kernel says EAGAIN for a limit of processes, and the C library says the same where a thread's stack cannot be mapped.

use rustix::process::{Resource, getrlimit};

/// The limits that may be in the way: that of the address space only where there is one.
pub(crate) fn remedy() -> String {
    let processes = "RLIMIT_NPROC (ulimit -u) or the cgroup's pids.max";
    match getrlimit(Resource::As).current {
        Some(bytes) => format!(
            "the limit may be RLIMIT_AS (ulimit -v), which is {} KiB here and leaves too little for a stack; otherwise {processes}",
            bytes >> 10
        ),
        None => format!("the limit may be {processes}"),
    }
}

//! The remedy when no thread or process can be started.
//!
//! The kernel returns EAGAIN for a limit on processes. The C library returns it also if it cannot map a thread's
//! stack.

use rustix::process::{Resource, getrlimit};

/// The limits that may be the cause. The address space is named only if it is limited.
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

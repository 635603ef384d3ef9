//! Ranks of MPICH in one session. Its launcher makes each rank the leader of a session, and the kernel schedules sessions as
//! groups (`sched_autogroup_enabled`, sched(7)). `sched_yield(2)` then only gives the CPU to threads of the same rank. A round
//! trip of two ranks on one CPU took 1.5 ms instead of 8 us.
//!
//! In the launcher alone, `setsid(2)` makes a process group and no session. The launcher signals ranks by their group, which stays.

use std::ffi::{CStr, c_void};
use std::mem::transmute;

use crate::symbol::Symbol;

/// The process of MPICH's launcher, hydra, that starts the ranks of a node.
const LAUNCHER: &CStr = c"hydra_pmi_proxy";

unsafe extern "C" {
    /// The program's name without folders (program_invocation_short_name(3)).
    static program_invocation_short_name: *const libc::c_char;
}

/// setsid(2).
#[unsafe(no_mangle)]
extern "C" fn setsid() -> libc::pid_t {
    static REAL: Symbol = Symbol::new("setsid\0");
    // SAFETY: the name ends with a NUL, and these calls have no preconditions.
    unsafe {
        if libc::strcmp(program_invocation_short_name, LAUNCHER.as_ptr()) == 0 {
            return if libc::setpgid(0, 0) == 0 { libc::getpid() } else { -1 };
        }
        transmute::<*mut c_void, extern "C" fn() -> libc::pid_t>(REAL.address())()
    }
}

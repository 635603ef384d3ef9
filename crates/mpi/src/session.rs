//! Ranks of MPICH that share CPUs are in one session. Its launcher makes each rank the leader of a session, and the kernel schedules
//! sessions as groups (`sched_autogroup_enabled`, sched(7)). `sched_yield(2)` then only gives the CPU to threads of the same rank.
//! A round trip of two ranks on one CPU took 1.5 ms instead of 8 us.
//!
//! In the launcher alone, `setsid(2)` makes a process group and no session. The launcher signals ranks by their group, which stays.
//!
//! One session has the share of one program where others run. So a rank makes its own session after all if all ranks have a CPU.

use std::ffi::{CStr, c_void};
use std::mem::transmute;

use crate::patience;
use crate::rank;
use crate::symbol::Symbol;

/// The process of MPICH's launcher, hydra, that starts the ranks of a node.
const LAUNCHER: &CStr = c"hydra_pmi_proxy";
static SETSID: Symbol = Symbol::new("setsid\0");

unsafe extern "C" {
    /// The program's name without folders (program_invocation_short_name(3)).
    static program_invocation_short_name: *const libc::c_char;
}

/// setsid(2).
#[unsafe(no_mangle)]
extern "C" fn setsid() -> libc::pid_t {
    // SAFETY: the name ends with a NUL, and this call has no preconditions.
    unsafe {
        if libc::strcmp(program_invocation_short_name, LAUNCHER.as_ptr()) == 0 && !patience::is_disabled() {
            return if libc::setpgid(0, 0) == 0 { libc::getpid() } else { -1 };
        }
    }
    real_setsid()
}

fn real_setsid() -> libc::pid_t {
    // SAFETY: the function has this type and no preconditions.
    unsafe { transmute::<*mut c_void, extern "C" fn() -> libc::pid_t>(SETSID.address())() }
}

/// Makes the session that the launcher would have made, if the ranks that may run here have a CPU each.
pub(crate) fn leave_if_there_are_cpus() {
    // SAFETY: these calls have no preconditions.
    let (me, group, parent) = unsafe { (libc::getpid(), libc::getpgrp(), libc::getppid()) };
    if group != me || !rank::is_named(parent, LAUNCHER) || rank::share_cpus() {
        return;
    }
    // SAFETY: as above. The leader of a group cannot make a session, so it joins the launcher's for a moment.
    unsafe {
        if libc::setpgid(0, libc::getpgid(parent)) == 0 && real_setsid() < 0 {
            libc::setpgid(0, 0);
        }
    }
}

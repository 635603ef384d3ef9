//! Missing capabilities, shared by several conditions.

use punctual_linux::Error;
use rustix::io::Errno;

use super::condition::Thread;
use super::reason::Reason;
use super::surroundings::Surroundings;
use crate::need::{Need, Withheld};

/// Whether the error is this kernel error.
pub(super) fn is(error: &Error, errno: Errno) -> bool {
    error.errno() == errno.raw_os_error()
}

/// Who withholds a capability; `container` is the one that withholds it even from its root.
pub(super) fn withheld(here: &Surroundings, container: Option<&str>) -> Withheld {
    match container {
        _ if here.user_namespace => Withheld::ByUserNamespace,
        Some(container) => Withheld::ByContainer(container.to_owned()),
        None if here.root => Withheld::FromRoot,
        None => Withheld::FromUser,
    }
}

/// Who withholds CAP_SYS_NICE.
pub(super) fn sys_nice_withheld(here: &Surroundings) -> Withheld {
    withheld(here, here.container_without_sys_nice())
}

/// The refusal of a change to another thread. The kernel looks at its user and at the limits of its process, which are not read here.
pub(super) fn of_another_thread(error: &Error, thread: Thread, here: &Surroundings) -> Option<Reason> {
    let refused = is(error, Errno::PERM) || is(error, Errno::ACCESS);
    let of_other = matches!(thread, Thread::Other(_)) && refused;
    of_other.then(|| Reason::new(error, Need::OtherThread(sys_nice_withheld(here))))
}

/// The refusal of a change that could be applied but not undone. `what` names it.
pub(super) fn irreversible(what: &str, here: &Surroundings) -> Reason {
    let lacking = if here.user_namespace {
        "CAP_SYS_NICE does not reach beyond its user namespace"
    } else {
        "the thread has no CAP_SYS_NICE and its limits (RLIMIT_NICE, RLIMIT_RTPRIO) do not allow it"
    };
    Reason::new(format!("{what}: {lacking}"), Need::WayBack(sys_nice_withheld(here)))
}

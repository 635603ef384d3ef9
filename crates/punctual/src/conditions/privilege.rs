//! Remedies for missing capabilities, shared by several conditions.

use punctual_linux::Error;
use rustix::io::Errno;

use super::reason::Reason;
use super::surroundings::Surroundings;

/// The remedy of an unknown error.
pub(super) const UNKNOWN: &str = "none known for this error";

/// Whether the error is this kernel error.
pub(super) fn is(error: &Error, errno: Errno) -> bool {
    error.errno() == errno.raw_os_error()
}

/// The last resort for a capability: root, unless the user is root and lacks it.
pub(super) fn root_with(capability: &str, here: &Surroundings) -> String {
    if here.root {
        format!(
            "this root lacks {capability}: see who took it away (capsh --print; CapabilityBoundingSet= of a systemd service, setpriv, a container)"
        )
    } else {
        "run it as root".into()
    }
}

/// How to get CAP_SYS_NICE.
pub(super) fn sys_nice_remedy(here: &Surroundings) -> String {
    if here.user_namespace {
        return "run it as root outside the user namespace (a container that is not rootless, with --cap-add SYS_NICE)"
            .into();
    }
    match here.container_without_sys_nice() {
        Some(container) => format!("start the container ({container}) with --cap-add SYS_NICE"),
        None => format!(
            "for one program: setcap cap_sys_nice+ep PROGRAM; for a systemd service: AmbientCapabilities=CAP_SYS_NICE; or {}",
            root_with("CAP_SYS_NICE", here)
        ),
    }
}

/// The refusal of a change that could be applied but not undone. `what` names it.
pub(super) fn irreversible(what: &str, here: &Surroundings) -> Reason {
    let lacking = if here.user_namespace {
        "CAP_SYS_NICE does not reach beyond its user namespace"
    } else {
        "the thread has no CAP_SYS_NICE and its limits (RLIMIT_NICE, RLIMIT_RTPRIO) do not allow it"
    };
    Reason::new(
        format!("{what}: {lacking}"),
        format!(
            "{}; a program may also accept that it is for good (Conditions::allow_irreversible)",
            sys_nice_remedy(here)
        ),
    )
}

//! Why the kernel's events cannot be had.

/// What was refused, and by whom.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// tracefs cannot be read.
    #[error("reading tracefs: {0}")]
    Tracefs(std::io::Error),
    /// perf_event_open(2) was refused.
    #[error(transparent)]
    Refused(punctual_linux::Error),
    /// The kernel lacks an event without which no wake-up can be cut.
    #[error("this kernel has no event {0} (kernel options CONFIG_FTRACE, CONFIG_EVENT_TRACING)")]
    NoEvent(&'static str),
    /// Events number threads otherwise than this process does.
    #[error("this process runs in a PID namespace of its own, where events cannot be told apart")]
    Namespace,
    /// The kernel cannot trace functions.
    #[error(
        "this kernel lacks the tracer function_graph (kernel option CONFIG_FUNCTION_GRAPH_TRACER, and no lockdown)"
    )]
    NoTracer,
    /// The programs that sum times in the kernel cannot be had.
    #[error("programs in the kernel: {0}")]
    Programs(String),
    /// The kernel refuses them to this user, or to this container.
    #[error("programs in the kernel: {0}")]
    NotPermitted(String),
    /// The kernel does so to all: it lets nobody read its memory.
    #[error(
        "the kernel is locked down for confidentiality, so no program in it may read its memory (kernel_lockdown(7))"
    )]
    LockedDown,
    /// Another program traces.
    #[error("tracefs is in use: {0} is not as after boot")]
    InUse(&'static str),
    /// Another call failed.
    #[error(transparent)]
    Linux(#[from] punctual_linux::Error),
}

impl Error {
    /// What would allow it, if anything. setcap(8) replaces what the file has, so all that `punctual` makes use of is named.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Tracefs(_) => {
                Some("run as root, or let your group read it: mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing")
            }
            Self::Refused(_) => Some(
                "setcap cap_sys_nice,cap_perfmon,cap_bpf,cap_ipc_lock=ep \"$(command -v punctual)\", or sysctl kernel.perf_event_paranoid=-1",
            ),
            Self::NotPermitted(_) => Some(
                "setcap cap_sys_nice,cap_perfmon,cap_bpf,cap_ipc_lock=ep \"$(command -v punctual)\", or run it as root outside of a container",
            ),
            Self::Programs(_) => Some("run it as root on a kernel with BTF (CONFIG_DEBUG_INFO_BTF)"),
            Self::LockedDown => Some("boot it with lockdown=integrity, or without"),
            Self::Namespace => Some("run it outside of the container"),
            Self::InUse(_) => Some("end the other tracer first"),
            Self::NoEvent(_) | Self::NoTracer | Self::Linux(_) => None,
        }
    }
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

//! Why the kernel's events cannot be had.

/// What was refused, by whom, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// tracefs cannot be read.
    #[error("reading tracefs: {0}; remedy: run as root (CAP_SYS_ADMIN and CAP_PERFMON)")]
    Tracefs(std::io::Error),
    /// perf_event_open(2) was refused.
    #[error("{0}; remedy: CAP_PERFMON, or sysctl kernel.perf_event_paranoid=-1")]
    Refused(punctual_linux::Error),
    /// The kernel lacks an event without which no wake-up can be cut.
    #[error("this kernel has no event {0} (kernel options CONFIG_FTRACE, CONFIG_EVENT_TRACING)")]
    NoEvent(&'static str),
    /// Events number threads otherwise than this process does.
    #[error(
        "this process runs in a PID namespace of its own, where events cannot be told apart; remedy: run it outside of the container"
    )]
    Namespace,
    /// The kernel cannot trace functions.
    #[error(
        "this kernel lacks the tracer function_graph (kernel option CONFIG_FUNCTION_GRAPH_TRACER, and no lockdown)"
    )]
    NoTracer,
    /// Another program traces.
    #[error("tracefs is in use: {0} is not as after boot; remedy: end the other tracer first")]
    InUse(&'static str),
    /// Another call failed.
    #[error(transparent)]
    Linux(#[from] punctual_linux::Error),
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

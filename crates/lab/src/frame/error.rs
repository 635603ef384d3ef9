//! Why a subject cannot be measured here ([`Unavailable`]), why a batch could not be performed ([`Failure`]), and why a
//! whole run failed ([`Error`]).

use punctual_record::remedy::of_need;
use punctual_record::{Ask, Hint, Refusal, Unseen};
use rustix::process::{Resource, getrlimit};

use super::breaks::NotKept;

/// The remedy for a cell whose share of the time is too short.
pub(crate) fn more_time() -> Hint {
    Hint::from(Ask::MoreTime).and(", ").and(Ask::Samples).and(", or name fewer methods")
}

/// Why a subject cannot be measured here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    /// The reason, as the kernel or the CPU gave it.
    pub why: String,
    /// The remedy, if there is one.
    pub remedy: Option<Hint>,
}

impl From<&punctual::cpufreq::Error> for Unavailable {
    fn from(error: &punctual::cpufreq::Error) -> Self {
        Self { why: error.to_string(), remedy: Some(of_need(&error.needs())) }
    }
}

impl Unavailable {
    /// Unavailable for this reason, with no remedy.
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: None }
    }

    /// Unavailable for this reason, with a remedy.
    pub(crate) fn but(why: impl Into<String>, remedy: impl Into<Hint>) -> Self {
        Self { why: why.into(), remedy: Some(remedy.into()) }
    }
}

/// Why a batch could not be performed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The run was asked to end.
    Stopped,
    /// The subject cannot be measured, and why. It is not tried again.
    Impossible(Unavailable),
    /// Conditions of another participating process, or of the machine, were lost: the batch does not count.
    Lost(Vec<NotKept>),
    /// Another participating process ended. This is no property of the subject: the run ends with this error.
    PeerEnded {
        /// The measurement in progress.
        subject: String,
        /// Its end, as in `was killed by signal 9`.
        how: String,
    },
}

impl Failure {
    /// A call failed, or a request to stop interrupted it.
    pub(crate) fn of_call(call: &str, error: &punctual_linux::Error) -> Self {
        match punctual_linux::stop::requested() {
            true => Self::Stopped,
            false => Unavailable::because(format!("{call}: {error}")).into(),
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(no: Unavailable) -> Self {
        Self::Impossible(no)
    }
}

/// A subject opened on the measuring thread, or why it could not be.
pub(crate) type Opened<T> = Result<Box<T>, Unavailable>;

/// The opened subject, for a batch.
pub(crate) fn ready<T: ?Sized>(opened: &mut Opened<T>) -> Result<&mut T, Failure> {
    opened.as_mut().map(Box::as_mut).map_err(|no| no.clone().into())
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel started no thread.
    #[error("starting the measuring thread: {0}; {remedy}", remedy = no_thread_remedy())]
    Thread(#[from] std::io::Error),
    /// A required condition was refused.
    #[error("{} {} was refused: {}; {}", .0.condition, .0.asked, .0.why, .0.remedy)]
    Refused(Refusal),
    /// A required condition was lost during a measurement.
    #[error(transparent)]
    Lost(NotKept),
    /// CPU frequency settings could not be read or changed.
    #[error("{0}; {remedy}", remedy = of_need(&.0.needs()))]
    Cpufreq(#[from] punctual::cpufreq::Error),
    /// A resource that every cell needs is missing.
    #[error("{}{}", .0.why, .0.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
    Unavailable(#[from] Unavailable),
    /// The kernel refused a call that every cell needs.
    #[error(transparent)]
    Kernel(#[from] punctual_linux::Error),
}

/// The remedy when no thread or process can be started: the limits that may be the cause.
///
/// The kernel returns EAGAIN for a limit on processes. The C library returns it also if it cannot map a thread's stack,
/// so the address space is named if it is limited.
pub(crate) fn no_thread_remedy() -> String {
    let processes = "RLIMIT_NPROC (ulimit -u) or the cgroup's pids.max";
    match getrlimit(Resource::As).current {
        Some(bytes) => format!(
            "the limit may be RLIMIT_AS (ulimit -v), which is {} KiB here and leaves too little for a stack; otherwise {processes}",
            bytes >> 10
        ),
        None => format!("the limit may be {processes}"),
    }
}

/// What is missing if single wake-ups were to be watched.
pub(crate) const WAKE_UPS: &str = "single wake-ups";

/// What is missing if the kernel does not sum the times of threads.
pub(crate) const BUDGET: &str = "who took the time, and stretches of it";

/// What a refusal of the kernel's events leaves out of a run: the missing part, the reason and the remedy.
pub(crate) fn without(what: &str, error: &punctual_trace::Error) -> Unseen {
    Unseen { what: what.to_owned(), why: error.to_string(), remedy: error.remedy().map(str::to_owned) }
}

impl From<Unseen> for Unavailable {
    fn from(unseen: Unseen) -> Self {
        Self { why: unseen.text(), remedy: unseen.remedy.map(Hint::from) }
    }
}

#[cfg(test)]
mod tests {
    use punctual_trace::Error;

    use super::{WAKE_UPS, without};

    #[test]
    fn a_refusal_keeps_its_remedy_apart() {
        let refused = without(WAKE_UPS, &Error::Tracefs(std::io::ErrorKind::PermissionDenied.into()));
        assert_eq!(refused.text(), "single wake-ups: reading tracefs: permission denied");
        assert!(refused.remedy.unwrap().starts_with("run as root"));
        let missing = without(WAKE_UPS, &Error::NoEvent("sched/sched_waking"));
        assert!(missing.remedy.is_none() && missing.why.contains("sched/sched_waking"));
    }
}

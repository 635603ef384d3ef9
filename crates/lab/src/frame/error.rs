//! Why a batch could not be performed ([`Failure`]), or a whole run ([`Error`]).

use punctual_record::Refusal;

use super::left_out::NotKept;
use super::unavailable::Unavailable;

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

impl From<&Unavailable> for Failure {
    fn from(no: &Unavailable) -> Self {
        Self::Impossible(no.clone())
    }
}

/// A subject opened on the measuring thread, or why it could not be.
pub(crate) type Opened<T> = Result<Box<T>, Unavailable>;

/// It, for a batch.
pub(crate) fn ready<T: ?Sized>(opened: &mut Opened<T>) -> Result<&mut T, Failure> {
    opened.as_mut().map(Box::as_mut).map_err(|no| Failure::from(&*no))
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel started no thread.
    #[error("starting the measuring thread: {0}; {remedy}", remedy = super::no_thread::remedy())]
    Thread(#[from] std::io::Error),
    /// A required condition was refused.
    #[error("{} {} was refused: {}; {}", .0.condition, .0.asked, .0.why, .0.remedy)]
    Refused(Refusal),
    /// A required condition was lost during a measurement.
    #[error(transparent)]
    Lost(NotKept),
    /// CPU frequency settings could not be read or changed.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Cpufreq(#[from] punctual::cpufreq::Error),
    /// A resource that every cell needs is missing.
    #[error("{}{}", .0.why, .0.remedy.as_deref().map(|remedy| format!("; {remedy}")).unwrap_or_default())]
    Unavailable(#[from] Unavailable),
    /// The kernel refused a call that every cell needs.
    #[error(transparent)]
    Kernel(#[from] punctual_linux::Error),
}

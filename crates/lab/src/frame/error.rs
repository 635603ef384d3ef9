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
        /// How it ended, as in `was killed by signal 9`.
        how: String,
    },
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

/// A required condition does not hold.
#[derive(Debug, thiserror::Error)]
pub enum Unmet {
    /// It was refused.
    #[error("{} {} was refused: {}; {}", .0.condition, .0.asked, .0.why, .0.remedy)]
    Refused(Refusal),
    /// It was lost during a measurement.
    #[error(transparent)]
    Lost(#[from] NotKept),
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel started no thread.
    #[error("starting the measuring thread: {0}; {remedy}", remedy = super::no_thread::remedy())]
    Thread(#[from] std::io::Error),
    /// A required condition was refused or lost.
    #[error(transparent)]
    Unmet(#[from] Unmet),
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

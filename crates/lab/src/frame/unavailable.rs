//! Why a subject cannot be measured here.

/// The remedy for a cell whose share of the time is too short.
pub(crate) const MORE_TIME: &str = "give more time, ask for a number of samples, or name fewer methods";

/// Why a subject cannot be measured here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unavailable {
    /// The reason, as the kernel or the CPU gave it.
    pub why: String,
    /// The remedy, if there is one.
    pub remedy: Option<String>,
}

impl From<&punctual::cpufreq::Error> for Unavailable {
    fn from(error: &punctual::cpufreq::Error) -> Self {
        Self { why: error.to_string(), remedy: Some(error.remedy()) }
    }
}

impl Unavailable {
    /// Unavailable for this reason, with no remedy.
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: None }
    }

    /// Unavailable for this reason, with a remedy.
    pub(crate) fn but(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: Some(remedy.into()) }
    }
}

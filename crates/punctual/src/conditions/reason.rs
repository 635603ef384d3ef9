//! [`Reason`]: why a condition does not hold.

use std::fmt::Display;

use crate::need::Need;

/// The reason of a refusal, and what would be needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    /// The kernel's message, and its cause.
    pub(crate) why: String,
    /// What would let it succeed.
    pub(crate) needs: Need,
    /// The kernel's error number; absent if no call was made, or if the call succeeded with another result.
    pub(crate) errno: Option<i32>,
}

impl Reason {
    /// A reason without a kernel error.
    pub(crate) fn new(why: impl Display, needs: Need) -> Self {
        Self { why: why.to_string(), needs, errno: None }
    }

    /// With the kernel's error number.
    pub(crate) fn errno(self, errno: impl Into<Option<i32>>) -> Self {
        Self { errno: errno.into(), ..self }
    }
}

impl From<crate::restore::Error> for Reason {
    fn from(error: crate::restore::Error) -> Self {
        Self::new(&error, error.needs()).errno(error.errno())
    }
}

impl From<crate::cpufreq::Error> for Reason {
    fn from(error: crate::cpufreq::Error) -> Self {
        Self::new(&error, error.needs()).errno(error.errno())
    }
}

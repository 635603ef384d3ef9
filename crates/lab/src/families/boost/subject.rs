//! The subjects of a boost: the machine as found, boosted around each activation, and at full speed.

use crate::speed::PERFORMANCE;

/// One subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The governor as found.
    AsFound,
    /// The same, boosted around each activation.
    Boost,
    /// The governor `performance`.
    Performance,
}

impl Subject {
    pub(super) const ALL: [Self; 3] = [Self::AsFound, Self::Boost, Self::Performance];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AsFound => "as found",
            Self::Boost => "boost",
            Self::Performance => PERFORMANCE,
        }
    }
}
